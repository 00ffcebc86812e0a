"""How each tone is drawn: a calm dark theme, a light one, one of high contrast, and the terminal's own 16 colours.

Good and bad are blue and orange, which stay apart for colour-blind eyes; words and glyphs say the same without any.
"""

from __future__ import annotations

from textual.theme import BUILTIN_THEMES, Theme

NIGHT = "reprieve-night"
CONTRAST = "reprieve-contrast"
TERMINAL = "reprieve-terminal"
DAY = "reprieve-day"

_NIGHT = {
    "tone-muted": "#7d8a9c",
    "tone-ok": "#6cb2f5",
    "tone-info": "#8fd0d6",
    "tone-warn": "#e9b45c",
    "tone-bad": "#ff8354",
    "tone-alarm": "#10151c",
    "tone-alarm-back": "#ff8354",
    "tone-accent": "#b3a4f0",
    "tone-strong": "#f2f5f9",
    "line": "#2b3645",
    "line-focus": "#4f79a8",
    "cursor-back": "#24364b",
    "cursor-back-blurred": "#1c2735",
    "bar-back": "#171f2a",
    "dialog-back": "#18212d",
    "footer-key-foreground": "#6cb2f5",
    "footer-background": "#171f2a",
    "footer-foreground": "#9aa7b8",
    "footer-description-foreground": "#9aa7b8",
    "footer-item-background": "#171f2a",
    "input-selection-background": "#3d6fa5 45%",
    "scrollbar": "#2b3645",
    "scrollbar-background": "#10151c",
    "scrollbar-hover": "#3a4859",
    "scrollbar-active": "#4f79a8",
    "scrollbar-corner-color": "#10151c",
}
_CONTRAST = {
    **_NIGHT,
    "tone-muted": "#c8c8c8",
    "tone-ok": "#7fd4ff",
    "tone-info": "#9ff5ff",
    "tone-warn": "#ffd83d",
    "tone-bad": "#ff9a3d",
    "tone-alarm": "#000000",
    "tone-alarm-back": "#ffb000",
    "tone-accent": "#e0c8ff",
    "tone-strong": "#ffffff",
    "line": "#8a8a8a",
    "line-focus": "#ffffff",
    "cursor-back": "#004c99",
    "cursor-back-blurred": "#002b57",
    "bar-back": "#000000",
    "dialog-back": "#000000",
    "footer-key-foreground": "#ffd83d",
    "footer-background": "#000000",
    "footer-foreground": "#ffffff",
    "footer-description-foreground": "#ffffff",
    "footer-item-background": "#000000",
    "scrollbar-background": "#000000",
    "scrollbar-corner-color": "#000000",
}
_DAY = {
    **_NIGHT,
    "tone-muted": "#5b6470",
    "tone-ok": "#0a5fa8",
    "tone-info": "#0b6b74",
    "tone-warn": "#8a5a00",
    "tone-bad": "#b23c00",
    "tone-alarm": "#ffffff",
    "tone-alarm-back": "#b23c00",
    "tone-accent": "#5a3fb0",
    "tone-strong": "#10151c",
    "line": "#c3cad3",
    "line-focus": "#0a5fa8",
    "cursor-back": "#cfe3f7",
    "cursor-back-blurred": "#e4ebf2",
    "bar-back": "#eceff3",
    "dialog-back": "#f3f5f8",
    "footer-key-foreground": "#0a5fa8",
    "footer-background": "#eceff3",
    "footer-foreground": "#3d4650",
    "footer-description-foreground": "#3d4650",
    "footer-item-background": "#eceff3",
    "scrollbar": "#c3cad3",
    "scrollbar-background": "#ffffff",
    "scrollbar-hover": "#a9b2bd",
    "scrollbar-active": "#0a5fa8",
    "scrollbar-corner-color": "#ffffff",
}
_TERMINAL = {
    **BUILTIN_THEMES["ansi-dark"].variables,
    "tone-muted": "ansi_bright_black",
    "tone-ok": "ansi_bright_blue",
    "tone-info": "ansi_cyan",
    "tone-warn": "ansi_yellow",
    "tone-bad": "ansi_bright_red",
    "tone-alarm": "ansi_black",
    "tone-alarm-back": "ansi_bright_yellow",
    "tone-accent": "ansi_magenta",
    "tone-strong": "ansi_bright_white",
    "line": "ansi_bright_black",
    "line-focus": "ansi_blue",
    "cursor-back": "ansi_blue",
    "cursor-back-blurred": "ansi_black",
    "bar-back": "ansi_default",
    "dialog-back": "ansi_black",
}

THEMES: tuple[Theme, ...] = (
    Theme(
        NIGHT, primary="#6cb2f5", secondary="#4f79a8", accent="#b3a4f0", foreground="#d3dae4", background="#10151c",
        surface="#10151c", panel="#18212d", warning="#e9b45c", error="#ff8354", success="#6cb2f5", variables=_NIGHT,
    ),
    Theme(
        DAY, dark=False, primary="#0a5fa8", secondary="#0a5fa8", accent="#5a3fb0", foreground="#1d2630", background="#ffffff",
        surface="#ffffff", panel="#f3f5f8", warning="#8a5a00", error="#b23c00", success="#0a5fa8", variables=_DAY,
    ),
    Theme(
        CONTRAST, primary="#7fd4ff", secondary="#ffffff", accent="#e0c8ff", foreground="#ffffff", background="#000000",
        surface="#000000", panel="#000000", warning="#ffd83d", error="#ff9a3d", success="#7fd4ff", variables=_CONTRAST,
    ),
    Theme(
        TERMINAL, ansi=True, primary="ansi_blue", secondary="ansi_cyan", accent="ansi_magenta", foreground="ansi_default",
        background="ansi_default", surface="ansi_default", panel="ansi_default", boost="ansi_default",
        warning="ansi_yellow", error="ansi_red", success="ansi_blue", variables=_TERMINAL,
    ),
)  # fmt: skip


def defaults() -> dict[str, str]:
    """Values of our own variables for a theme that is not ours."""
    return {
        name: value
        for name, value in _NIGHT.items()
        if name.startswith(("tone-", "line", "cursor-", "bar-", "dialog-"))
    }


SHORT = {"night": NIGHT, "day": DAY, "contrast": CONTRAST, "terminal": TERMINAL}

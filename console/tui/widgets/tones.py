"""Tones drawn with the theme's colours, for widgets that draw text themselves."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.widget import Widget

from console.tui.model.cells import Cell
from console.tui.model.words import Tone

_BOLD: frozenset[Tone] = frozenset(("bad", "alarm", "strong", "title"))


def tone(widget: Widget, name: Tone) -> Style:
    """The style of a tone in the present theme, without a background of its own (but for `alarm`)."""
    variables = widget.app.theme_variables
    if name == "plain":
        return Style.null()
    colour = variables["tone-muted" if name == "title" else f"tone-{name}"]
    return _style(colour, variables["tone-alarm-back"] if name == "alarm" else "", name in _BOLD)


@functools.cache
def _style(colour: str, back: str, bold: bool) -> Style:
    return Style(
        color=Color.parse(colour).rich_color,
        bgcolor=Color.parse(back).rich_color if back else None,
        bold=bold or None,
    )


def segments(widget: Widget, cells: Iterable[Cell], base: Style) -> list[Segment]:
    """Cells side by side on the background of `base`."""
    return [Segment(cell.text, base + tone(widget, cell.tone)) for cell in cells if cell.text]


def crop(text: str, width: int, *, right: bool = False) -> str:
    """Exactly `width` cells of `text`: padded, or cut with `…` (wide characters are counted as the terminal does)."""
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, max(0, width - 1)) + "…" if width > 0 else ""
    return " " * (width - length) + text if right else text + " " * (width - length)


def fill(segments: Sequence[Segment], width: int, base: Style) -> list[Segment]:
    """Segments cut or padded with blanks to `width` cells."""
    return Segment.adjust_line_length(list(segments), width, style=base)

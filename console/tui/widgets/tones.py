"""Tones drawn with the theme's colours: a mixin for widgets that draw text themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.widget import Widget

from console.tui.model.cells import Cell
from console.tui.model.words import TONES, Tone


class Toned(Widget):
    """A widget that knows a Rich style for every tone."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"tone--{tone}" for tone in TONES}
    DEFAULT_CSS = """
    Toned {
        & > .tone--plain { color: $foreground; }
        & > .tone--muted { color: $tone-muted; }
        & > .tone--ok { color: $tone-ok; }
        & > .tone--info { color: $tone-info; }
        & > .tone--warn { color: $tone-warn; }
        & > .tone--bad { color: $tone-bad; text-style: bold; }
        & > .tone--alarm { color: $tone-alarm; background: $tone-alarm-back; text-style: bold; }
        & > .tone--accent { color: $tone-accent; }
        & > .tone--strong { color: $tone-strong; text-style: bold; }
        & > .tone--title { color: $tone-muted; text-style: bold; }
    }
    """

    def tone(self, tone: Tone) -> Style:
        """The style of a tone without this widget's own background."""
        return self.get_component_rich_style(f"tone--{tone}", partial=True)

    def segments(self, cells: Iterable[Cell], base: Style) -> list[Segment]:
        """Cells side by side on the background of `base`."""
        return [Segment(cell.text, base + self.tone(cell.tone)) for cell in cells if cell.text]


def crop(text: str, width: int, *, right: bool = False) -> str:
    """Exactly `width` cells of `text`: padded, or cut with `…` (wide characters are counted as the terminal does)."""
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, max(0, width - 1)) + "…" if width > 0 else ""
    return " " * (width - length) + text if right else text + " " * (width - length)


def fill(segments: Sequence[Segment], width: int, base: Style) -> list[Segment]:
    """Segments cut or padded with blanks to `width` cells."""
    return Segment.adjust_line_length(list(segments), width, style=base)

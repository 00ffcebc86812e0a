"""The detail pane: sections of facts, in one column or two by its width."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.tui.model.cells import Cell
from console.tui.model.detail import Section
from console.tui.widgets.facts import Drawn, arranged
from console.tui.widgets.tones import fill, segments


class DetailPane(ScrollView, can_focus=True):
    """Draws sections line by line; a value that is too long goes on in the next line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "scroll_down", "down", show=False, id="detail.down"),
        Binding("up,k", "scroll_up", "up", show=False, id="detail.up"),
    ]
    DEFAULT_CSS = """
    DetailPane {
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        padding: 0 1;
        border: round $line;
        border-title-color: $tone-strong;
        border-title-style: bold;
        border-subtitle-color: $tone-muted;
        &:focus { border: round $line-focus; }
    }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id, classes=classes)
        self._title = ""
        self._sections: tuple[Section, ...] = ()
        self._lines: list[Drawn] = []
        self._width = 0
        self._base: Style | None = None

    def show(self, title: str, sections: Sequence[Section], *, top: bool = False) -> None:
        """Draw these sections; `top` scrolls back to the start (another row was chosen)."""
        found = tuple(sections)
        if top:
            self.scroll_to(y=0, animate=False, immediate=True)
        if (title, found) == (self._title, self._sections):
            return
        if title != self._title:
            self._title = title
            self.border_title = Content(title) if title else None
        self._sections = found
        self._arrange()
        self.refresh()

    def draw(self, title: str, lines: Sequence[str]) -> None:
        """Show lines as they are, such as a chart made for this pane's width."""
        self.show(title, (Section("", tuple(("", _drawn(line)) for line in lines)),))

    @property
    def words(self) -> str:
        """All text drawn, line by line."""
        return "\n".join("".join(cell.text for cell in line) for line in self._lines)

    def notify_style_update(self) -> None:
        """Focus or theme changed: the base style is made again."""
        self._base = None
        super().notify_style_update()

    def on_resize(self) -> None:
        """Arrange for the new width."""
        self._arrange()

    def _arrange(self) -> None:
        width = self.scrollable_content_region.width
        self._lines = arranged(self._sections, width)
        self._width = width
        self.virtual_size = Size(width, len(self._lines))

    def render_line(self, y: int) -> Strip:
        """One line of the pane."""
        if self._base is None:
            self._base = self.rich_style
        base = self._base
        place = y + int(self.scroll_y)
        cells = self._lines[place] if place < len(self._lines) else []
        line: list[Segment] = segments(self, cells, base)
        return Strip(fill(line, self._width, base), self._width)


_CURVE = re.compile("[\u2800-\u28ff]+")


def _drawn(line: str) -> tuple[Cell, ...]:
    """A line of a chart: the curve stands out from its frame."""
    cells: list[Cell] = []
    at = 0
    for found in _CURVE.finditer(line):
        cells += [Cell(line[at : found.start()], "muted"), Cell(found.group(), "ok")]
        at = found.end()
    return (*cells, Cell(line[at:], "muted"))

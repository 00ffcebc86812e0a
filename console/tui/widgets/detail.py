"""The detail pane: sections of facts, in one column or two by its width."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.tui.model.cells import Cell
from console.tui.model.detail import Section
from console.tui.widgets.facts import Drawn, block, joined
from console.tui.widgets.tones import Toned, fill

TWO_COLUMNS = 96  # cells from which two columns are drawn


class DetailPane(Toned, ScrollView, can_focus=True):
    """Draws sections line by line; a value that is too long goes on in the next line."""

    BINDINGS: list[BindingType] = [
        Binding("down,j", "scroll_down", "down", show=False, id="detail.down"),
        Binding("up,k", "scroll_up", "up", show=False, id="detail.up"),
    ]
    DEFAULT_CSS = """
    DetailPane {
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        padding: 0 1;
        border: round $line;
        border-title-color: $tone-strong;
        border-title-style: bold;
        border-subtitle-color: $tone-muted;
        &:focus { border: round $line-focus; }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._sections: tuple[Section, ...] = ()
        self._lines: list[Drawn] = []
        self._width = 0

    def show(self, title: str, sections: Sequence[Section], *, top: bool = False) -> None:
        """Draw these sections; `top` scrolls back to the start (another row was chosen)."""
        self.border_title = Content(title) if title else None  # type: ignore[assignment]  # accepts Content
        self._sections = tuple(sections)
        self._arrange()
        if top:
            self.scroll_to(y=0, animate=False, immediate=True)
        self.refresh()

    @property
    def words(self) -> str:
        """All text drawn, line by line."""
        return "\n".join("".join(cell.text for cell in line) for line in self._lines)

    def on_resize(self) -> None:
        """Arrange for the new width."""
        self._arrange()

    def _arrange(self) -> None:
        width = self.size.width
        if width >= TWO_COLUMNS and len(self._sections) > 1:
            half = (width - 3) // 2
            left, right = _split([block(section, half) for section in self._sections])
            self._lines = _beside(left, right, half)
        else:
            self._lines = joined([block(section, width) for section in self._sections])
        self._width = width
        self.virtual_size = Size(width, len(self._lines))

    def render_line(self, y: int) -> Strip:
        """One line of the pane."""
        base: Style = self.rich_style
        place = y + int(self.scroll_y)
        cells = self._lines[place] if place < len(self._lines) else []
        line: list[Segment] = self.segments(cells, base)
        return Strip(fill(line, self.size.width, base), self.size.width)


def _split(blocks: list[list[Drawn]]) -> tuple[list[list[Drawn]], list[list[Drawn]]]:
    """Two columns of whole sections, as even as they come, in reading order."""
    total = sum(len(block) + 1 for block in blocks)
    height = 0
    for index, block in enumerate(blocks):
        if index and height + len(block) / 2 > total / 2:
            return blocks[:index], blocks[index:]
        height += len(block) + 1
    return blocks[:-1], blocks[-1:]


def _beside(left: list[list[Drawn]], right: list[list[Drawn]], half: int) -> list[Drawn]:
    one, two = joined(left), joined(right)
    lines: list[Drawn] = []
    for place in range(max(len(one), len(two))):
        first = one[place] if place < len(one) else []
        second = two[place] if place < len(two) else []
        gap = half + 3 - sum(cell_len(cell.text) for cell in first)
        lines.append([*first, Cell(" " * gap), *second])
    return lines

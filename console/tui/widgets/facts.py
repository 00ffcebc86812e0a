"""Labelled facts broken into lines: the one way sections are drawn, in panes and in dialogs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from console.tui.model.cells import Cell
from console.tui.model.detail import Section
from console.tui.widgets.tones import crop, fill, segments

LABEL = 14  # cells of the label column
TWO_COLUMNS = 88  # cells from which two columns are drawn
Drawn = list[Cell]


class Facts(Widget):
    """As many lines as its facts need at its width."""

    DEFAULT_CSS = "Facts { height: auto; width: 1fr; }"

    def __init__(self, sections: Sequence[Section] = (), *, columns: bool = False) -> None:
        super().__init__()
        self._sections = tuple(sections)
        self._columns = columns
        self._lines: list[Drawn] = []

    def show(self, sections: Sequence[Section]) -> None:
        """Draw these sections instead."""
        self._sections = tuple(sections)
        self.refresh(layout=True)

    @property
    def words(self) -> str:
        """All text drawn, line by line."""
        return "\n".join("".join(cell.text for cell in line) for line in self._lines)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Lines needed at `width` cells."""
        del container, viewport
        self._lines = arranged(self._sections, width, columns=self._columns)
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        """One line of the facts."""
        base = self.rich_style
        cells = self._lines[y] if y < len(self._lines) else []
        return Strip(fill(segments(self, cells, base), self.size.width, base), self.size.width)


def joined(blocks: Sequence[list[Drawn]]) -> list[Drawn]:
    """Blocks one below the other with a blank line between."""
    lines: list[Drawn] = []
    for index, lines_of in enumerate(blocks):
        lines += ([[]] if index else []) + lines_of
    return lines


def block(section: Section, width: int) -> list[Drawn]:
    """A section as lines of at most `width` cells: its title, then its facts."""
    lines: list[Drawn] = []
    if section.title:
        lines.append([Cell(crop(section.title.upper(), min(width, len(section.title))), "title")])
    for label, cells in section.lines:
        label_width = min(LABEL, max(1, width // 3))
        if label:
            lines += wrapped([Cell(crop(label, label_width - 1) + " ", "muted"), *cells], width, label_width)
        else:
            lines += wrapped(list(cells), width, 0)
    return lines


def wrapped(cells: Drawn, width: int, indent: int) -> list[Drawn]:
    """Cells broken into lines of `width`; lines after the first start at `indent`."""
    lines: list[Drawn] = [[]]
    used = 0
    for cell in cells:
        for word in _words(cell.text):
            length = cell_len(word)
            if used + length > width and used > indent:
                lines.append([Cell(" " * indent)] if indent else [])
                used = indent
                word = word.lstrip()  # noqa: PLW2901 - a line does not start with the blank between two words
                length = cell_len(word)
            if used + length > width:
                word = crop(word, max(1, width - used))  # noqa: PLW2901 - one word wider than the pane is cut
                length = cell_len(word)
            lines[-1].append(Cell(word, cell.tone))
            used += length
    return lines


def _words(text: str) -> list[str]:
    """The words of a text, each with the blanks before it."""
    words: list[str] = []
    current = ""
    for char in text:
        if char == " " and current.strip():
            words.append(current)
            current = ""
        current += char
    return [*words, current] if current else words


def arranged(sections: Sequence[Section], width: int, *, columns: bool = True) -> list[Drawn]:
    """Sections as lines: one below the other, or in two columns where `width` allows."""
    if not columns or width < TWO_COLUMNS or len(sections) < 2:
        return joined([block(section, width) for section in sections])
    half = (width - 3) // 2
    left, right = _split([block(section, half) for section in sections])
    return _beside(left, right, half)


def _split(blocks: list[list[Drawn]]) -> tuple[list[list[Drawn]], list[list[Drawn]]]:
    """Two columns of whole sections, as even as they come, in reading order."""
    total = sum(len(lines) + 1 for lines in blocks)
    height = 0
    for index, lines in enumerate(blocks):
        if index and height + len(lines) / 2 > total / 2:
            return blocks[:index], blocks[index:]
        height += len(lines) + 1
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

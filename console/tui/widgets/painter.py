"""Draws the lines of a table from its rows: only what is asked for is formatted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from console.tui.model import cells, text
from console.tui.model.cells import Cell, Column
from console.tui.model.rows import Ghost, Rows
from console.tui.widgets.tones import crop, fill, tone

R = TypeVar("R")
KEPT = 500  # rows drawn that are remembered: several screenfuls
KEPT_CELLS = 4000  # cells drawn that are remembered: most of them say the same in many rows
GUTTER = 2  # cursor and mark
STATE = 1  # place of the state column: never dimmed, and where a ghost says what became of it


class _Drawn(NamedTuple):
    """A row as it was last drawn."""

    record: object
    state: tuple[object, ...]
    strip: Strip


class Painter(Generic[R]):
    """Head and rows of one table in the styles of its widget."""

    def __init__(self, widget: Widget, rows: Rows[R], dim: Callable[[R], bool]) -> None:
        self._widget = widget
        self._rows = rows
        self._dim = dim
        self._columns: list[tuple[Column[R], int]] = []
        self._fitted: tuple[int, int, tuple[Column[R], ...]] = (0, 0, ())
        self._drawn: dict[str, _Drawn] = {}
        self._cells: dict[tuple[Cell, int, bool, bool, bool], list[Segment]] = {}

    def fit(self, width: int) -> None:
        """Choose and size the columns for `width` cells, if anything changed since the last time."""
        rows = self._rows
        last_width, longest, columns = self._fitted
        if (width, rows.longest) != (last_width, longest) or rows.columns is not columns:
            self._columns = cells.fit(rows.columns, width - GUTTER, rows.longest + 1)
            self._fitted = (width, rows.longest, rows.columns)
            self.forget()

    def forget(self) -> None:
        """Draw every row anew: the styles or the columns are others."""
        self._drawn.clear()
        self._cells.clear()

    def changed(self, place: int) -> bool:
        """Whether the row at `place` is another record than the one last drawn there."""
        key = self._rows.order[place]
        drawn = self._drawn.get(key)
        return drawn is None or drawn.record is not self._rows.get(key)

    def column_at(self, x: int) -> str | None:
        """The id of the column drawn at cell `x`."""
        left = GUTTER
        for column, width in self._columns:
            if left <= x < left + width + cells.GAP:
                return column.id
            left += width + cells.GAP
        return None

    def head(self, width: int, base: Style) -> Strip:
        """The titles; the sorted one has an arrow."""
        style = base + self._style("row--head")
        accent = base + tone(self._widget, "accent")
        line = [Segment(" " * GUTTER, style)]
        for column, size in self._columns:
            here = column.id == self._rows.sort
            arrow = ("▾" if self._rows.descending else "▴") if here else ""
            title = crop(column.title, min(len(column.title), size - len(arrow))) + arrow
            line.append(Segment(crop(title, size, right=column.right), accent if here else style))
            line.append(Segment(" " * cells.GAP, style))
        return Strip(fill(line, width, base), width)

    def row(self, place: int, width: int, base: Style, now: float) -> Strip:
        """The row at `place` of the order shown; the same one within a second is not drawn twice."""
        rows = self._rows
        key = rows.order[place]
        record = rows.get(key)
        if record is None:
            return Strip.blank(width, base)
        ghost = rows.ghost if rows.ghost is not None and rows.ghost.key == key else None
        state = (int(now), width, key == rows.cursor, key in rows.marks, ghost)
        drawn = self._drawn.get(key)
        if drawn is not None and drawn.record is record and drawn.state == state:
            return drawn.strip
        strip = self._draw(key, record, width, base, now, ghost)
        if len(self._drawn) >= KEPT:
            self._drawn.clear()
        self._drawn[key] = _Drawn(record, state, strip)
        return strip

    def _draw(
        self, key: str, record: R, width: int, base: Style, now: float, ghost: Ghost[R] | None
    ) -> Strip:
        rows = self._rows
        cursor, dim = key == rows.cursor, ghost is not None or self._dim(record)
        if cursor:
            base = base + self._style("row--cursor")
        line = [
            Segment("▸" if cursor else " ", base),
            Segment("*" if key in rows.marks else " ", base + self._style("row--mark")),
        ]
        used = GUTTER
        for index, (column, size) in enumerate(self._columns):
            cell = column.cell(record, now)
            if ghost is not None and index == STATE:
                cell = _fate(ghost, now)
            made = (cell, size, column.right, cursor, dim and index != STATE)
            known = self._cells.get(made)
            if known is None:
                style = base + self._style("row--dim") if made[4] else base
                known = self._cells[made] = self._cell(cell, size, column.right, base, style)
            line += known
            used += size + cells.GAP
        if len(self._cells) > KEPT_CELLS:
            self._cells.clear()
        if used > width:
            return Strip(fill(line, width, base), width)
        if used < width:
            line.append(Segment(" " * (width - used), base))
        return Strip(line, width)

    def _cell(self, cell: Cell, size: int, right: bool, base: Style, style: Style) -> list[Segment]:
        """A cell with its gap; only the words carry the tone, so that a reversed one is no longer than they are."""
        words = crop(cell.text, size, right=right)
        body = words.strip(" ")
        before = len(words) - len(words.lstrip(" ")) if body else len(words)
        after = len(words) - before - len(body) + cells.GAP
        return [
            Segment(" " * before, base),
            Segment(body, style + tone(self._widget, cell.tone)),
            Segment(" " * after, base),
        ]

    def _style(self, name: str) -> Style:
        return self._widget.get_component_rich_style(name, partial=True)


def _fate(ghost: Ghost[R], now: float) -> Cell:
    return Cell(f"gone {text.brief(now - ghost.since)} ago" if ghost.gone else "filtered out", "warn")

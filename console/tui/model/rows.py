"""The rows of a table: keyed cursor and marks, order by sort and filter, ghosts of rows that went away.

Values and search texts are in the column store (`console.tui.model.store`). Nothing here draws or knows of a terminal.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from console.tui.model.cells import Column
from console.tui.model.filters import Filter
from console.tui.model.store import Store

R = TypeVar("R")
RESORT_S = (
    1.0  # between two sortings of the same rows: values that tick or change do not move them more often
)


@dataclass(frozen=True)
class Ghost(Generic[R]):
    """The row under the cursor that left the fleet (`gone`) or no longer matches the filter, until the cursor moves."""

    key: str
    record: R
    since: float  # wall time at which it left
    gone: bool


class Rows(Generic[R]):
    """Records by key, in the order shown.

    The cursor stays on its key through every refresh, sort and change of the filter. A refresh never puts another
    row under it: a row that leaves stays as a ghost. Only the operator's own filter moves the cursor, to the row
    nearest by.
    """

    def __init__(self, columns: Sequence[Column[R]], sort: str, *, descending: bool = False) -> None:
        self._store = Store(columns)
        self.sort = sort
        self.descending = descending
        self.filter = Filter()
        self.marks: set[str] = set()
        self.cursor: str | None = None
        self.ghost: Ghost[R] | None = None
        self.order: list[str] = []
        self.version = 0
        self.longest = 0  # length of the longest name in the first column
        self._place: dict[str, int] = {}
        self._arranged = float("-inf")  # wall time of the last sorting and filtering
        self._whole: list[str] | None = None  # all keys in that order, before the filter
        self._owed = False  # it would come out otherwise by now

    @property
    def columns(self) -> tuple[Column[R], ...]:
        """The table's columns."""
        return self._store.columns

    @columns.setter
    def columns(self, columns: Sequence[Column[R]]) -> None:
        """Others of the same ids, such as for another snapshot's time."""
        self._store.columns = tuple(columns)

    def foresee(self, records: list[tuple[str, R]], now: float) -> bool:
        """Get ready for records about to be loaded while a filter is on, a little at a time; True when all is ready."""
        return not self.filter.terms or self._store.foresee(records, now)

    def prepare(self, now: float) -> bool:
        """Get ready for a text filter, a little at a time; True when nothing is left to do."""
        return self._store.prepare(now)

    def __len__(self) -> int:
        return len(self.order)

    @property
    def total(self) -> int:
        """Rows before the filter."""
        return len(self._store.records)

    def get(self, key: str) -> R | None:
        """The record of a key, the ghost's included; None when there is none."""
        if self.ghost is not None and self.ghost.key == key:
            return self.ghost.record
        return self._store.records.get(key)

    def alive(self, key: str) -> bool:
        """Whether the key is in the newest snapshot."""
        return key in self._store.records

    def index(self, key: str | None) -> int | None:
        """Where a key stands in the order shown."""
        return None if key is None else self._place.get(key)

    def load(self, records: Iterable[tuple[str, R]], now: float) -> bool:
        """Take a new snapshot; the cursor and marks stay on their keys. Returns whether the order is as before."""
        lost = self.get(self.cursor) if self.cursor is not None else None
        column = next((column for column in self.columns if column.id == self.sort), None)
        loaded = self._store.load(records, column, now)
        self._owed = self._owed or (loaded.changed and (loaded.moved or bool(self.filter.terms)))
        early = not loaded.members and self.ghost is None and 0 < now - self._arranged < RESORT_S
        if self.order and (early or not (self._owed or self._ticking())):
            self.version += 1
            return True
        self.marks &= self._store.records.keys()
        if loaded.members:
            self.longest = self._store.longest(now)
        self._arrange(now, held=True, vanished=self._vanished(lost, now))
        return False

    def _ticking(self) -> bool:
        """Whether time alone can change the order: it is sorted or filtered by something that ticks."""
        names = {self.sort, *(term.name for term in self.filter.terms)}
        return self.ghost is not None or any(column.ticks for column in self.columns if column.id in names)

    def _vanished(self, lost: R | None, now: float) -> Ghost[R] | None:
        """The ghost of the row under the cursor, whose last record was `lost`, if it left the fleet."""
        if self.cursor is None or self.alive(self.cursor):
            return None
        if self.ghost is not None and self.ghost.key == self.cursor and self.ghost.gone:
            return self.ghost
        return None if lost is None else Ghost(self.cursor, lost, now, gone=True)

    def set_filter(self, wanted: Filter, now: float) -> None:
        """Show only rows that match; the cursor goes to the row nearest by when its own is hidden."""
        self.filter = wanted
        self._arrange(now, held=False, resort=False)

    def set_sort(self, column: str, now: float, *, descending: bool | None = None) -> None:
        """Sort by a column id; the same column again turns the order round unless `descending` is given."""
        if descending is None:
            descending = not self.descending if column == self.sort else False
        self.sort, self.descending = column, descending
        self._arrange(now, held=True, vanished=self.ghost)

    def _arrange(
        self, now: float, *, held: bool, vanished: Ghost[R] | None = None, resort: bool = True
    ) -> None:
        place = self.index(self.cursor)
        self.ghost = None
        if resort or self._whole is None:
            self._arranged, self._owed = now, False
            self._whole = self._sorted(list(self._store.records), now)
        self.order = self._store.matching(self.filter, self._whole, now)
        self._number()
        if self.cursor is not None and self.cursor not in self._place:
            if held:
                self._keep_ghost(place or 0, vanished, now)
            else:
                self.cursor = None
        if self.cursor is None and self.order:
            self.cursor = self.order[min(place or 0, len(self.order) - 1)]
        self.version += 1

    def _keep_ghost(self, place: int, vanished: Ghost[R] | None, now: float) -> None:
        assert self.cursor is not None  # noqa: S101 - for the type checker; the only caller has looked
        record = self._store.records.get(self.cursor)
        ghost = vanished
        if ghost is None and record is not None:
            ghost = Ghost(self.cursor, record, now, gone=False)
        if ghost is None:
            self.cursor = None
            return
        self.ghost = ghost
        self.order.insert(min(place, len(self.order)), ghost.key)
        self._number()

    def _number(self) -> None:
        self._place = {key: place for place, key in enumerate(self.order)}

    def _sorted(self, keys: list[str], now: float) -> list[str]:
        column = next((column for column in self.columns if column.id == self.sort), None)
        if column is None:
            return keys
        values = self._store.column(column, keys, now)
        known: list[tuple[Any, str]] = [
            (value, key) for value, key in zip(values, keys, strict=True) if value is not None
        ]
        unknown = [key for value, key in zip(values, keys, strict=True) if value is None]
        if known and isinstance(known[0][0], str):  # a column holds texts or numbers, never both
            known = [(str(value).casefold(), key) for value, key in known]
        known.sort(key=_first, reverse=self.descending)
        return [key for _, key in known] + unknown

    def move(self, step: int, now: float) -> None:
        """Move the cursor by `step` rows, stopping at the ends; a ghost left behind disappears."""
        place = self.index(self.cursor)
        self.move_to((place or 0) + step if place is not None else 0, now)

    def move_to(self, place: int, now: float) -> None:
        """Put the cursor on the row at `place`, counted from 0 and kept inside the table."""
        if not self.order:
            return
        target = self.order[max(0, min(place, len(self.order) - 1))]
        if target == self.cursor:
            return
        self.cursor = target
        if self.ghost is not None:
            self._arrange(now, held=False, resort=False)
        self.version += 1

    def select(self, key: str, now: float) -> bool:
        """Put the cursor on a key; False when it is not shown."""
        place = self.index(key)
        if place is None:
            return False
        self.move_to(place, now)
        return True

    def toggle_mark(self) -> None:
        """Mark or unmark the row under the cursor (a ghost cannot be marked)."""
        if self.cursor is not None and self.alive(self.cursor):
            self.marks ^= {self.cursor}
            self.version += 1

    def mark_shown(self) -> None:
        """Mark every row that is shown; all marked already: unmark them."""
        shown = {key for key in self.order if self.alive(key)}
        self.marks = self.marks - shown if shown <= self.marks else self.marks | shown
        self.version += 1

    def clear_marks(self) -> None:
        """Forget all marks."""
        self.marks.clear()
        self.version += 1

    def targets(self) -> tuple[list[str], int]:
        """Keys an action means: marked rows that are shown, else the row under the cursor; and how many marked rows are hidden."""
        if self.marks:
            shown = [key for key in self.order if key in self.marks]
            return shown, len(self.marks) - len(shown)
        return ([self.cursor] if self.cursor is not None and self.alive(self.cursor) else []), 0


_first = operator.itemgetter(0)

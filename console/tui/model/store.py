"""The column store behind a table: values by column, search texts by row, made when first needed and kept.

Only what changed is made again, so that 10,000 rows of which a few change cost little at each snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from console.tui.model.cells import Column, Value
from console.tui.model.filters import Filter

R = TypeVar("R")
SLICE = 250  # search texts made in one go: about 3 ms


class Loaded(NamedTuple):
    """What a new snapshot may have changed."""

    changed: bool  # any record or key
    moved: bool  # the order by the column asked about
    members: bool  # which keys there are


class Store(Generic[R]):
    """Records by key; `now` is wall time for columns whose value depends on it."""

    def __init__(self, columns: Sequence[Column[R]]) -> None:
        self.columns = tuple(columns)
        self.records: dict[str, R] = {}
        self._values: dict[
            str, dict[str, Value]
        ] = {}  # column id → key → value, for columns that do not tick
        self._haystacks: dict[str, str] = {}
        self._missing: list[str] = []  # keys whose search text may be missing
        self._foreseen: list[tuple[str, R]] | None = (
            None  # records about to be loaded, and how far they are ready
        )
        self._place = 0
        self._coming: dict[str, tuple[R, str]] = {}  # their search texts

    def foresee(self, records: list[tuple[str, R]], now: float) -> bool:
        """Make the search texts of records about to be loaded, a few at a time; True when none is missing any more."""
        if self._foreseen is not records:
            self._foreseen, self._place = records, 0
        made, known = 0, self.records
        for place in range(self._place, len(records)):
            key, record = records[place]
            if known.get(key) is not record:
                self._coming[key] = (record, self._words(record, now))
                made += 1
                if made == SLICE:
                    self._place = place + 1
                    return False
        self._place = len(records)
        return True

    def load(self, records: Iterable[tuple[str, R]], by: Column[R] | None, now: float) -> Loaded:
        """Take a new snapshot; whether the order by column `by` may be another is told, too."""
        before, fresh = self.records, dict(records)
        changed = [key for key, record in before.items() if fresh.get(key) is not record]
        members = before.keys() != fresh.keys()
        moved = by is None or by.ticks or members
        if not moved and by is not None:
            value = by.value
            moved = any(value(before[key], now) != value(fresh[key], now) for key in changed)
        self.records = fresh
        self._missing = []
        for key in changed:
            self._haystacks.pop(key, None)
            for known in self._values.values():
                known.pop(key, None)
        for key, (record, words) in self._coming.items():
            if fresh.get(key) is record:
                self._haystacks[key] = words
        self._coming, self._foreseen = {}, None
        return Loaded(bool(changed) or members, moved, members)

    def value(self, column: Column[R], key: str, now: float) -> Value:
        """One value."""
        if column.ticks:
            return column.value(self.records[key], now)
        known = self._values.setdefault(column.id, {})
        if key not in known:
            known[key] = column.value(self.records[key], now)
        return known[key]

    def column(self, column: Column[R], keys: Sequence[str], now: float) -> list[Value]:
        """The values of many rows at once."""
        records, value = self.records, column.value
        if column.ticks:
            return [value(records[key], now) for key in keys]
        known = self._values.setdefault(column.id, {})
        if len(known) < len(records):
            known.update({key: value(record, now) for key, record in records.items() if key not in known})
        return [known[key] for key in keys]

    def prepare(self, now: float) -> bool:
        """Make some of the missing search texts; True when none is missing any more."""
        if len(self._haystacks) >= len(self.records):
            return True
        if not self._missing:
            self._missing = [key for key in self.records if key not in self._haystacks]
        for key in self._missing[-SLICE:]:
            self._haystacks[key] = self._words(self.records[key], now)
        del self._missing[-SLICE:]
        return not self._missing

    def matching(self, wanted: Filter, keys: Sequence[str], now: float) -> list[str]:
        """Those of the `keys` that pass a filter, in their order."""
        if not wanted.terms:
            return list(keys)
        while not self.prepare(now):
            pass
        by_id = {column.id: column for column in self.columns}
        haystacks = self._haystacks
        plain = wanted.plain
        if plain is not None:
            return [key for key in keys if plain in haystacks[key]]
        return [
            key
            for key in keys
            if wanted.matches(haystacks[key], lambda name, key=key: self.value(by_id[name], key, now))  # type: ignore[misc]  # bound per row
        ]

    def _words(self, record: R, now: float) -> str:
        """What a text filter looks into: every column that holds words, states as they are drawn, too."""
        words: list[str] = []
        for column in self.columns:
            value = None if column.ticks else column.value(record, now)
            if isinstance(value, str):
                words.append(value)
                if column.worded:
                    words.append(column.cell(record, now).text)
        return "\n".join(words).lower()

    def longest(self, now: float) -> int:
        """Length of the longest name in the first column."""
        return max(
            (len(str(value)) for value in self.column(self.columns[0], list(self.records), now)), default=0
        )

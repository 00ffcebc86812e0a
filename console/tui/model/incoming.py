"""Text enters the console here: every string of a snapshot passes `clean`, whatever the source promised.

Cheap for ordinary text: printable ASCII is kept as it is, and a record equal to the last one is not looked at again.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import operator
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from backends.clean import FIELD_LIMIT, clean
from backends.records.event import Event
from console.operations.view import FleetView, JobRow, NodeRow, OperationRow

T = TypeVar("T")
SLICE = 150  # records cleaned in one go: 3 ms where all are new
_TEXT_LIMIT = 2048  # characters of a sentence or a fact


def safe(text: str) -> str:
    """Text that may be drawn: control, bidirectional and zero-width characters made visible, length capped."""
    if len(text) <= FIELD_LIMIT and text.isascii() and text.isprintable():
        return text
    return clean(text, limit=_TEXT_LIMIT)


def safe_value(value: Any) -> Any:
    """The same for whatever a record holds: strings inside tuples, lists, dicts and dataclasses."""
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, tuple):
        return tuple(safe_value(item) for item in value)
    if isinstance(value, list):
        return [safe_value(item) for item in value]
    if isinstance(value, dict):
        return {safe(str(key)): safe_value(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _safe_record(value)
    return value


@functools.cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


_NUMBERS = frozenset((int, float, bool, type(None)))


@functools.cache
def _values(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    names = _names(kind)
    if len(names) < 2:  # attrgetter would return no tuple
        return lambda record: tuple(getattr(record, name) for name in names)
    return operator.attrgetter(*names)


def _ordinary(record: Any) -> bool:
    """Whether all texts of a record together are short plain ASCII, as nearly all are: told by one look at them joined."""
    texts: list[str] = []
    of: Any = type(record)
    for value in _values(of)(record):
        kind = type(value)
        if kind is str:
            texts.append(value)
        elif kind is tuple:
            texts.extend(value)
        elif kind is dict:
            texts.extend(value)
            texts.extend(value.values())
        elif kind not in _NUMBERS:
            return False
    try:
        joined = "".join(texts)
    except TypeError:  # something else than texts among them
        return False
    return len(joined) <= FIELD_LIMIT and joined.isascii() and joined.isprintable()


def _safe_record(record: T) -> T:
    if _ordinary(record):
        return record
    changes: dict[str, Any] = {}
    kind: Any = type(record)
    for name in _names(kind):
        value = getattr(record, name)
        if value is None or value in ((), {}):
            continue
        if isinstance(value, str):
            if len(value) <= FIELD_LIMIT and value.isascii() and value.isprintable():
                continue
        elif _harmless(value):
            continue
        checked = safe_value(value)
        if checked != value:
            changes[name] = checked
    return dataclasses.replace(record, **changes) if changes else record  # type: ignore[type-var]  # T is a dataclass


def _harmless(value: Any) -> bool:
    """Whether a value needs no cleaning, told quickly: numbers, short plain ASCII, and collections of these."""
    if isinstance(value, str):
        return len(value) <= FIELD_LIMIT and value.isascii() and value.isprintable()
    if isinstance(value, (int, float)):
        return True
    if isinstance(value, tuple):
        return all(map(_harmless, value))
    return isinstance(value, dict) and all(map(_harmless, value)) and all(map(_harmless, value.values()))


class Doorman:
    """Cleans snapshots; keeps the identity of records that did not change, so that tables redraw only what did."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[Any, Any]] = {}

    def admit(self, view: FleetView) -> FleetView:
        """The snapshot with every text cleaned."""
        steps = self._steps(view)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: FleetView = end.value
                return result

    async def admit_in_slices(self, view: FleetView) -> FleetView:
        """The same, with a turn for the keys after every slice of records."""
        steps = self._steps(view)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: FleetView = end.value
                return result
            await asyncio.sleep(0)

    def _steps(self, view: FleetView) -> Generator[None, None, FleetView]:
        known: dict[tuple[str, str], tuple[Any, Any]] = {}
        rows: dict[str, list[Any]] = {"nodes": [], "jobs": [], "events": [], "operations": []}
        done = 0
        for kind, made in rows.items():
            for record in getattr(view, kind):
                made.append(self._row(kind, _key(record), record, known))
                done += 1
                if done % SLICE == 0:
                    yield
        self._known = known
        return dataclasses.replace(
            view,
            nodes=tuple(rows["nodes"]),
            jobs=tuple(rows["jobs"]),
            events=tuple(rows["events"]),
            operations=tuple(rows["operations"]),
            context=safe(view.context),
            controller=None if view.controller is None else safe(view.controller),
            source_ages_s=safe_value(view.source_ages_s),
        )

    def _row(self, kind: str, key: str, row: T, known: dict[tuple[str, str], tuple[Any, Any]]) -> T:
        before = self._known.get((kind, key))
        pair = (
            before
            if before is not None and (before[0] is row or before[0] == row)
            else (row, _safe_record(row))
        )
        known[kind, key] = pair
        result: T = pair[1]
        return result


def _key(record: NodeRow | JobRow | Event | OperationRow) -> str:
    """What a record is known by from one snapshot to the next."""
    if isinstance(record, NodeRow):
        return record.name
    return record.uid or record.name if isinstance(record, JobRow) else record.id

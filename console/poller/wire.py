"""What the poller says to the console: JSON lines, only what changed since the last snapshot. Pure.

A snapshot is told as `{"begin": …}`, then lines of at most ROWS records of one kind, then `{"end": …}`; a look that
failed as `{"failed": …}`. A node's age and a notice's time left are dated by `as_of`, so that a node which was not
heard again does not change.
"""

from __future__ import annotations

import dataclasses
import json
import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from backends.errors import DamagedError, ReprieveError
from backends.records.event import Event
from console.operations.view import FleetView, JobRow, NodeRow, OperationRow

R = TypeVar("R")
ROWS = 100  # records a line: the console reads one in about 1 ms
DRIFT_S = 0.5  # a dated age may be this far off before the row is told again

KINDS: dict[str, type[Any]] = {"nodes": NodeRow, "jobs": JobRow, "events": Event, "operations": OperationRow}
_SCALARS = (
    "context",
    "taken_at",
    "controller",
    "no_controller_since",
    "read_only",
    "production",
    "source_ages_s",
)


def _fields(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


_VALUES: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    name: operator.attrgetter(*_fields(kind)) for name, kind in KINDS.items()
}
_UNDATED = operator.attrgetter(
    *(name for name in _fields(NodeRow) if name not in ("age_s", "notice_left_s", "as_of"))
)


def key_of(record: NodeRow | JobRow | Event | OperationRow) -> str:
    """What a record is known by from one snapshot to the next."""
    return record.name if isinstance(record, (NodeRow, JobRow)) else record.id


def _line(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


class Teller:
    """Turns snapshots into lines; remembers what the console has."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}

    def lines(self, view: FleetView, answers: int) -> Iterator[bytes]:
        """What changed; `answers` is the number of the newest question that came before this look began."""
        yield _line({"begin": {name: getattr(view, name) for name in _SCALARS}, "answers": answers})
        for kind in KINDS:
            yield from self._changes(kind, getattr(view, kind), view.taken_at)
        yield _line({"end": True})

    def _changes(self, kind: str, rows: tuple[Any, ...], taken_at: float) -> Iterator[bytes]:
        told, fresh, changed = self._told[kind], {}, []
        for row in rows:
            key = key_of(row)
            before = told.get(key)
            if before is not None and (before is row or _same(before, row, taken_at)):
                fresh[key] = before  # the dates it was told with go on
            else:
                fresh[key] = _dated(row, taken_at)
                changed.append(fresh[key])
        gone = [key for key in told if key not in fresh]
        if gone:
            yield _line({"gone": kind, "keys": gone})
        values = _VALUES[kind]
        for start in range(0, len(changed), ROWS):
            yield _line({"rows": kind, "of": [values(row) for row in changed[start : start + ROWS]]})
        heard = [key for key in told if key in fresh] + [key for key in fresh if key not in told]
        if heard != list(fresh):
            yield _line({"order": kind, "keys": list(fresh)})
        self._told[kind] = fresh


def _dated(row: R, taken_at: float) -> R:
    if isinstance(row, NodeRow) and row.as_of is None:
        return dataclasses.replace(row, as_of=taken_at)
    return row


def _same(before: Any, row: Any, taken_at: float) -> bool:
    """Whether two records say the same; for nodes, each at its own time."""
    if not isinstance(row, NodeRow):
        return bool(before == row)
    if _UNDATED(before) != _UNDATED(row):
        return False
    passed = (taken_at if row.as_of is None else row.as_of) - (before.as_of or 0.0)
    return _steady(before.age_s, row.age_s, passed) and _steady(
        before.notice_left_s, row.notice_left_s, -passed
    )


def _steady(before: float | None, after: float | None, passed: float) -> bool:
    if before is None or after is None:
        return before is after
    return abs(after - before - passed) <= DRIFT_S


def failed(error: Exception, answers: int) -> bytes:
    """The line about a look that failed."""
    told = error if isinstance(error, ReprieveError) else None
    message = told.message if told is not None else f"{type(error).__name__}: {error}"
    return _line({"failed": message, "hint": told.hint if told is not None else None, "answers": answers})


@dataclasses.dataclass(frozen=True)
class Told:
    """A whole snapshot, or why there is none."""

    view: FleetView | None
    answers: int
    failure: str = ""
    hint: str | None = None


class Listener:
    """Puts lines together again."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
        self._whole: dict[str, tuple[Any, ...] | None] = dict.fromkeys(KINDS)
        self._begun: dict[str, Any] | None = None

    def take(self, line: bytes) -> Told | None:
        """What a line completes; None while a snapshot is being told. DamagedError when it is no line of ours."""
        try:
            document = json.loads(line)
            if "rows" in document:
                self._take_rows(document["rows"], document["of"])
            elif "gone" in document:
                rows = self._rows[document["gone"]]
                for key in document["keys"]:
                    rows.pop(key, None)
                self._whole[document["gone"]] = None
            elif "order" in document:
                rows = self._rows[document["order"]]
                self._rows[document["order"]] = {key: rows[key] for key in document["keys"]}
                self._whole[document["order"]] = None
            elif "begin" in document:
                self._begun = document
            elif "failed" in document:
                return Told(None, document["answers"], document["failed"], document["hint"])
            elif "end" in document and self._begun is not None:
                return self._end(self._begun)
            else:
                raise ValueError("nothing that is told")
        except (ValueError, LookupError, TypeError) as error:
            raise DamagedError(
                f"the poller sent a line that cannot be read: {type(error).__name__}"
            ) from None
        return None

    def _take_rows(self, kind: str, found: list[list[Any]]) -> None:
        rows, make = self._rows[kind], KINDS[kind]
        for values in found:
            if kind == "nodes":
                values[8] = tuple(values[8])  # jobs
            record = make(*values)
            rows[key_of(record)] = record
        self._whole[kind] = None

    def _end(self, begun: dict[str, Any]) -> Told:
        whole: dict[str, Any] = {}
        for kind, rows in self._rows.items():
            known = self._whole[kind]
            if known is None:
                known = self._whole[kind] = tuple(rows.values())
            whole[kind] = known
        return Told(FleetView(**begun["begin"], **whole), begun["answers"])

"""Text enters the console here: every string of a snapshot passes `clean`, whatever the source promised.

Cheap for ordinary text: printable ASCII is kept as it is, and a record equal to the last one is not looked at again.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from backends.clean import FIELD_LIMIT, clean
from console.operations.view import FleetView

T = TypeVar("T")
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


def _safe_record(record: T) -> T:
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(record):  # type: ignore[arg-type]  # T is a dataclass: the callers have looked
        value = getattr(record, field.name)
        checked = safe_value(value)
        if checked != value:
            changes[field.name] = checked
    return dataclasses.replace(record, **changes) if changes else record  # type: ignore[type-var]  # as above


class Doorman:
    """Cleans snapshots; keeps the identity of records that did not change, so that tables redraw only what did."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[Any, Any]] = {}

    def admit(self, view: FleetView) -> FleetView:
        """The snapshot with every text cleaned."""
        known: dict[tuple[str, str], tuple[Any, Any]] = {}
        result = dataclasses.replace(
            view,
            nodes=tuple(self._row("node", node.name, node, known) for node in view.nodes),
            jobs=tuple(self._row("job", job.uid or job.name, job, known) for job in view.jobs),
            events=tuple(self._row("event", event.id, event, known) for event in view.events),
            operations=tuple(self._row("operation", row.id, row, known) for row in view.operations),
            context=safe(view.context),
            controller=None if view.controller is None else safe(view.controller),
            source_ages_s=safe_value(view.source_ages_s),
        )
        self._known = known
        return result

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

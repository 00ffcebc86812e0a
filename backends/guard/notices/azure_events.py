"""Azure's scheduled events document and what it means for one machine: pure."""

from __future__ import annotations

import email.utils
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backends.clean import clean
from backends.clock import parse_utc
from backends.errors import ReprieveError
from backends.guard.notices.metadata import BODY_LIMIT
from backends.guard.notices.port import Reading, seconds
from backends.records.strict import loads

# Kinds that end the memory of a machine, with the notice they give: an upper bound of what is left.
RECLAIMS = {"Preempt": 30.0, "Terminate": 900.0, "Reboot": 900.0, "Redeploy": 600.0}
PAUSE_LIMIT_S = 60.0  # a live migration takes seconds
PAUSE_S = 30.0  # where the event tells no duration


class BadDocumentError(Exception):
    """Not a document of scheduled events."""


@dataclass(frozen=True)
class Event:
    """One scheduled event."""

    id: str
    kind: str  # Freeze, Reboot, Redeploy, Preempt, Terminate, or what Azure invents next
    resources: tuple[str, ...]
    started: bool
    not_before: float | None  # wall seconds; None: blank
    duration_s: float | None  # None: not told

    def names(self, own: str | None) -> bool:
        """Whether it concerns the machine `own`; when that is not known it may well do."""
        return own is None or own.removeprefix("_").lower() in self.resources


@dataclass(frozen=True)
class Document:
    """All events of one look."""

    incarnation: int | None
    events: tuple[Event, ...]


def parse(body: bytes) -> Document:
    """Read a document; unreadable members of an event are unknown, an event without a kind is passed over.

    Raises:
        BadDocumentError: it is not a document of events as a whole.
    """
    try:
        document = loads(body, what="scheduled events", limit=BODY_LIMIT)
    except ReprieveError as error:
        raise BadDocumentError(error.message) from None
    rows = document.get("Events")
    if not isinstance(rows, list):
        raise BadDocumentError("scheduled events: no list `Events`")
    events = tuple(_event(row) for row in rows if isinstance(row, dict) and row.get("EventType"))
    return Document(_whole(document.get("DocumentIncarnation")), events)


def _event(row: dict[str, Any]) -> Event:
    named = row.get("Resources")
    names = named if isinstance(named, list) else [named]
    duration = row.get("DurationInSeconds")
    return Event(
        id=clean(row.get("EventId", ""), limit=80),
        kind=clean(row["EventType"], limit=32),
        resources=tuple(str(name).removeprefix("_").lower() for name in names if name),
        started=str(row.get("EventStatus")) == "Started",
        not_before=_instant(row.get("NotBefore")),
        duration_s=seconds(duration),
    )


def _whole(value: object) -> int | None:
    try:
        return int(value) if isinstance(value, (int, str)) else None
    except ValueError:
        return None


def _instant(text: object) -> float | None:
    """RFC 1123, or ISO 8601 as older versions write; None for a blank or anything else."""
    if not isinstance(text, str) or not text.strip():
        return None
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError, IndexError, TypeError):
        try:
            return parse_utc(text)
        except ReprieveError:
            return None


def verdict(ours: Sequence[Event], wall: float) -> Reading:
    """What the events that name this machine mean at wall instant `wall`; the earliest reclaim wins over all else."""
    reclaims = [_reclaim(event, wall) for event in ours if event.kind in RECLAIMS]
    if reclaims:
        return min(reclaims, key=lambda reading: min(_left(reading), reading.window_s))
    pause = next((_pause(event, wall) for event in ours if event.kind == "Freeze"), None)
    others = [event for event in ours if event.kind != "Freeze"]
    if others:
        first = others[0]
        return Reading("hint", f"Azure's event {first.kind}", mark=first.id or first.kind, pause=pause)
    return Reading("none", "" if pause is None else "a short pause of the machine is planned", pause=pause)


def _left(reading: Reading) -> float:
    return reading.window_s if reading.left_s is None else reading.left_s


def _reclaim(event: Event, wall: float) -> Reading:
    window = RECLAIMS[event.kind]
    if event.not_before is not None:
        return Reading("notice", event.kind, left_s=event.not_before - wall, window_s=window)
    # A blank time: it has started, or the time is lost and the shortest documented window is assumed.
    left = 0.0 if event.started else None
    return Reading("notice", event.kind, left_s=left, window_s=min(window, RECLAIMS["Preempt"]))


def _pause(event: Event, wall: float) -> tuple[float, float]:
    begins = 0.0 if event.started or event.not_before is None else event.not_before - wall
    lasts = PAUSE_S if event.duration_s is None else event.duration_s
    return begins, min(lasts, PAUSE_LIMIT_S)

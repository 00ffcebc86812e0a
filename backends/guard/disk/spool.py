"""The spool: numbered events on disk until the console has acknowledged them.

Segments `<first number>.ndjson` are appended and synced; a torn last line (crash) is dropped; when the spool is full
the oldest segment goes and a marker event says what was dropped.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Any

from backends.clock import Clock, format_utc
from backends.errors import DamagedError
from backends.guard.disk import durable
from backends.records.event import Event
from backends.records.strict import canonical, loads, read, to_document

SEGMENT_EVENTS = 500
MOST_SEGMENTS = 20
LINE_LIMIT = 64 * 1024


class Spool:
    """Events of one guard. Numbers start at 1 and have no gaps but those a marker tells of."""

    def __init__(self, directory: Path, source: str, node: str, clock: Clock) -> None:
        self._directory = directory
        self._source = source
        self._node = node
        self._clock = clock
        self._lock = threading.Lock()
        self._segments = sorted(int(path.stem) for path in directory.glob("*.ndjson") if path.stem.isdigit())
        if not self._segments:
            self._start(1)
        self._next = self._segments[-1] + len(self._mend(self._segments[-1]))

    @property
    def next(self) -> int:
        """The number the next event will get."""
        with self._lock:
            return self._next

    def add(self, kind: str, text: str, job: str | None = None, data: dict[str, Any] | None = None) -> Event:
        """Append one event, synced before return. A full disk loses the event, never the guard."""
        with self._lock:
            if self._next - self._segments[-1] >= SEGMENT_EVENTS:
                with contextlib.suppress(OSError):  # else the segment grows until there is room for another
                    self._start(self._next)
                    self._bound()
            return self._append(kind, text, job, data or {})

    def events(self, since: int, limit: int) -> tuple[list[Event], int]:
        """Up to `limit` events numbered `since` or later, and the number to ask for next."""
        with self._lock:
            found: list[tuple[int, Event]] = []
            for index, first in enumerate(self._segments):
                end = self._segments[index + 1] if index + 1 < len(self._segments) else self._next
                if end <= since or len(found) >= limit:
                    continue
                numbered = enumerate(self._read(first), start=first)
                found += [(number, event) for number, event in numbered if number >= since]
            found = found[:limit]
            following = found[-1][0] + 1 if found else max(since, self._next)
            return [event for _, event in found], min(following, self._next)

    def acknowledge(self, upto: int) -> None:
        """Drop whole segments of events numbered below `upto`; the newest segment stays."""
        with self._lock:
            while len(self._segments) > 1 and self._segments[1] <= upto:
                durable.remove(self._path(self._segments.pop(0)))

    def _path(self, first: int) -> Path:
        return self._directory / f"{first:012d}.ndjson"

    def _start(self, first: int) -> None:
        handle = os.open(self._path(first), os.O_WRONLY | os.O_CREAT, 0o600)
        os.close(handle)
        durable.sync_directory(self._directory)
        self._segments.append(first)

    def _bound(self) -> None:
        while len(self._segments) > MOST_SEGMENTS:
            first = self._segments.pop(0)
            last = self._segments[0] - 1
            durable.remove(self._path(first))
            text = f"events {first} to {last} were dropped: the spool was full and nobody fetched them"
            self._append("spool.dropped", text, None, {"first": first, "last": last})

    def _append(self, kind: str, text: str, job: str | None, data: dict[str, Any]) -> Event:
        event = Event(
            id=f"{self._source}/{self._next}",
            time=format_utc(self._clock.wall()),
            kind=kind,
            node=self._node,
            job=job,
            text=text,
            data=data,
        )
        line = canonical(to_document(event)) + b"\n"
        path = self._path(self._segments[-1])
        try:
            with path.open("ab") as file:
                start = file.tell()
                try:
                    file.write(line)
                    file.flush()
                    os.fsync(file.fileno())
                except OSError:
                    os.truncate(path, start)
                    raise
        except OSError:
            return event  # the disk is full: what the job did matters more than its report
        self._next += 1
        return event

    def _read(self, first: int) -> list[Event]:
        return self._parse(first)[0]

    def _parse(self, first: int) -> tuple[list[Event], int]:
        """The whole events of a segment and the bytes they take."""
        events: list[Event] = []
        size = 0
        for line in self._path(first).read_bytes().split(b"\n")[:-1]:
            try:
                document = loads(line, what="event", limit=LINE_LIMIT)
                events.append(read(Event, document, what="event"))
            except DamagedError:
                break
            size += len(line) + 1
        return events, size

    def _mend(self, first: int) -> list[Event]:
        """Cut what follows the last whole event of a segment (a crash while it was written)."""
        events, size = self._parse(first)
        if self._path(first).stat().st_size != size:
            os.truncate(self._path(first), size)
        return events

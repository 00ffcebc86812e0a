"""The controller's clock as this node heard it, so that a save can say how far its wall clock is off.

A grant says when it was sent. Kept is the controller's time less our boot clock, so a later jump of our wall clock shows. A
message takes time to come, so the controller's time is never heard too late: of several the latest counts, for an hour.
The offset told is therefore too large by up to that delay, which makes a save look older, never younger.
"""

from __future__ import annotations

import threading
from pathlib import Path

from backends.clock import Clock, parse_utc
from backends.errors import ReprieveError
from backends.guard.disk import durable

MOST_UNDER_WAY_S = 60.0  # from the start of the node command to the guard
LASTS_S = 3600.0  # after this a new word counts whatever it says: clocks drift, and controllers change


class ControllerClock:
    """What is known of the controller's clock in this boot; survives a restart of the guard."""

    def __init__(self, path: Path, clock: Clock, boot_id: str) -> None:
        self._path, self._clock, self._boot_id = path, clock, boot_id
        self._lock = threading.Lock()
        self._known: tuple[float, float] | None = None  # controller minus boot clock, and when that was heard
        try:
            document = durable.read(path)
            if document is not None and document["boot_id"] == boot_id:
                self._known = (float(document["less_boot_s"]), float(document["heard_at"]))
        except (ReprieveError, KeyError, TypeError, ValueError):
            self._known = None  # unknown is allowed; it is heard again

    def hear(self, sent_at: str | None, heard_at: float | None = None) -> None:
        """Take in a controller's time (RFC 3339) that came at `heard_at` by the boot clock; written down when it counts.

        Without `heard_at`, or with one that cannot be, it came now.
        """
        if sent_at is None:
            return
        now = self._clock.monotonic()
        if heard_at is None or not now - MOST_UNDER_WAY_S <= heard_at <= now:
            heard_at = now
        try:
            less_boot = parse_utc(sent_at) - heard_at
        except ReprieveError:
            return
        with self._lock:
            if self._known is not None and less_boot <= self._known[0] and now - self._known[1] < LASTS_S:
                return
            self._known = (less_boot, now)
            document = {"boot_id": self._boot_id, "less_boot_s": less_boot, "heard_at": now}
            durable.write(self._path, document)

    def offset_s(self, wall: float, monotonic: float) -> float | None:
        """Our wall clock minus the controller's at an instant that both of our clocks saw; None: never heard."""
        with self._lock:
            return None if self._known is None else wall - (self._known[0] + monotonic)

"""A recorded session as text: what the screens were fed, as changes, and read back at any moment. Pure.

A recording is the poller's own lines (`console.poller.wire`), each snapshot whole or as what changed since the one
before it in the same file, after the texts were cleaned. A last line that was cut short is left out.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from backends.clock import format_utc, parse_utc
from backends.errors import DamagedError, NotFoundError, ReprieveError, UsageError
from console.operations.view import FleetView
from console.poller.wire import Listener, Teller
from console.tui.model.incoming import Doorman

SUFFIX = ".ndjson"
HEAD = b'{"recording":1}\n'


class Writing:
    """Turns snapshots into a recording's bytes; the first piece begins a file."""

    def __init__(self) -> None:
        self._teller: Teller | None = None

    def piece(self, view: FleetView) -> bytes:
        """What to append for this snapshot."""
        begun = self._teller is not None
        self._teller = self._teller or Teller()
        return (b"" if begun else HEAD) + b"".join(self._teller.lines(view, 0))


def views(lines: Iterable[bytes]) -> Iterator[FleetView]:
    """Every snapshot of one recording, in order, cleaned again: a file is foreign text. DamagedError for another file."""
    listener, doorman = Listener(), Doorman()
    for number, line in enumerate(lines):
        if number == 0:
            if line != HEAD:
                raise DamagedError("this is no recording of a console: its first line says something else")
            continue
        if not line.endswith(b"\n"):
            return  # the console was killed while it wrote
        told = listener.take(line)
        if told is not None and told.view is not None:
            yield doorman.admit(told.view)


class Tape:
    """The moments of a recording, to be stepped through; holds the place, never before the first or after the last."""

    def __init__(self, found: Iterable[FleetView]) -> None:
        """NotFoundError when nothing was recorded."""
        self._views = sorted(found, key=lambda view: view.taken_at)
        self._times = [view.taken_at for view in self._views]
        if not self._views:
            raise NotFoundError("the recording holds no snapshot: the console ended before its first look")
        self.place = len(self._views) - 1

    @property
    def view(self) -> FleetView:
        """The snapshot here."""
        return self._views[self.place]

    @property
    def count(self) -> int:
        """How many snapshots there are."""
        return len(self._views)

    @property
    def span(self) -> tuple[float, float]:
        """Wall clock of the first and the last one."""
        return self._times[0], self._times[-1]

    def seek(self, at: float) -> None:
        """To what the screens knew at wall time `at`: the newest snapshot not after it."""
        self.place = max(0, bisect.bisect_right(self._times, at) - 1)

    def step(self, snapshots: int = 0, seconds: float = 0.0) -> None:
        """On by so many snapshots, or so much time, or back."""
        if seconds:
            before, self.place = self.place, self.place
            self.seek(self._times[self.place] + seconds)
            if self.place == before:  # a gap longer than the step: to its other side
                snapshots = 1 if seconds > 0 else -1
        self.place = min(self.count - 1, max(0, self.place + snapshots))


def moment(text: str, last: float) -> float:
    """Wall time that `--at` names: `03:12`, `03:12:30` (UTC, the newest such moment up to `last`), or RFC 3339.

    Raises UsageError.
    """
    for form in ("%H:%M", "%H:%M:%S"):
        try:
            clock = datetime.strptime(text, form)
        except ValueError:
            continue
        end = datetime.fromtimestamp(last, UTC)
        found = end.replace(hour=clock.hour, minute=clock.minute, second=clock.second, microsecond=0)
        return (found if found <= end else found - timedelta(days=1)).timestamp()
    try:
        return parse_utc(text)
    except ReprieveError:
        raise UsageError(
            f"--at is {text!r}; a time such as 03:12, 03:12:30 or 2026-12-01T03:12:00Z expected (all UTC)"
        ) from None


def head_time(line: bytes) -> float | None:
    """Wall clock of the snapshot that a line begins; None for every other line."""
    if not line.startswith(b'{"begin"'):
        return None
    try:
        return float(json.loads(line)["begin"]["taken_at"])
    except (ValueError, LookupError, TypeError):
        return None


def told(tape: Tape) -> str:
    """The strip's sentence: where in the recording this is."""
    first, last = tape.span
    return (
        f"REPLAY {format_utc(tape.view.taken_at)} · {tape.place + 1} of {tape.count} from {format_utc(first)} "
        f"to {format_utc(last)} · [ ] a snapshot · {{ }} a minute · read-only"
    )

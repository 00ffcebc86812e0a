"""Looks at the fleet again and again; a lost source is told, never fatal, and the last snapshot stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from backends.clock import Clock
from backends.errors import ReprieveError
from console.operations.view import FleetView
from console.tui.model.incoming import Doorman, safe
from console.tui.source import FleetSource, Following

INTERVAL_S = 2.0
PATIENCE_S = 20.0  # for one answer
SLOWEST_S = 15.0  # between attempts while the source fails


class Feed:
    """The newest snapshot and how the last attempt went. `changed` is called after every attempt."""

    def __init__(self, source: FleetSource, clock: Clock, changed: Callable[[], None]) -> None:
        self.view: FleetView | None = None
        self.failure: str | None = None
        self.paused = False
        self.came: Callable[[], None] = lambda: None  # called once, when the first snapshot is in
        self.keep: Callable[[FleetView], None] | None = None  # told of every new snapshot
        self._source = source
        self._clock = clock
        self._changed = changed
        self._received = 0.0  # monotonic
        self._doorman = Doorman()
        self._wake = asyncio.Event()
        self._followed = source if isinstance(source, Following) else None

    @property
    def elapsed_s(self) -> float:
        """Seconds since the snapshot was taken, by a clock that does not jump."""
        return 0.0 if self.view is None else max(0.0, self._clock.monotonic() - self._received)

    @property
    def now(self) -> float:
        """Wall time that goes with the snapshot: it ticks steadily even if this machine's clock is set meanwhile."""
        return self._clock.wall() if self.view is None else self.view.taken_at + self.elapsed_s

    def refresh(self) -> None:
        """Look again at once."""
        self._wake.set()
        if self._followed is not None:
            self._followed.hurry()

    async def run(self) -> None:
        """Take snapshots until cancelled: as they come from a source that follows, else every 2 s, slower while it fails."""
        pace = INTERVAL_S if self._followed is None else self._followed.pace_s
        delay = pace
        while True:
            if not self.paused or self._wake.is_set():
                self._wake.clear()
                await self.look()
                slower = self.failure is not None and self._followed is None
                delay = min(SLOWEST_S, delay * 2) if slower else pace
                self._changed()
            await self._wait(delay)

    async def look(self) -> None:
        """One attempt; afterwards either `view` is new or `failure` says why not."""
        look = self._source.view if self._followed is None else self._followed.following
        asking = asyncio.ensure_future(look())
        patience = asyncio.ensure_future(self._clock.pause(PATIENCE_S))
        try:
            await asyncio.wait({asking, patience}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                self.failure = f"no answer for {PATIENCE_S:.0f} s"
                return
            first = self.view is None
            self.view = await self._doorman.admit_in_slices(asking.result())
            if first:
                self.came()
            age = self._clock.wall() - self.view.taken_at
            self._received = self._clock.monotonic() - (age if 0 <= age < PATIENCE_S else 0.0)
            self.failure = None
            if self.keep is not None:
                self.keep(self.view)
        except ReprieveError as error:
            self.failure = safe(error.message)
        except Exception as error:  # noqa: BLE001 - whatever the source does, the console stays
            self.failure = safe(f"{type(error).__name__}: {error}")
        finally:
            for task in (asking, patience):
                task.cancel()

    async def _wait(self, seconds: float) -> None:
        sleeping = asyncio.ensure_future(self._clock.pause(seconds))
        waking = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait({sleeping, waking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()

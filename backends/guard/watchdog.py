"""The watchdog: a tiny process of its own that thaws what stands still for too long, the guard dead or alive.

Never a zombie and never an isolated job. It also starts the guard again when that has died without being told to, and
keeps the promise of a job's lease while no guard does.
Run as `python -m backends.guard.watchdog ROOT MODULE:FUNCTION ARGV…`: where engines come from, how the guard starts.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from backends.clock import Clock, SystemClock
from backends.engines.port import Engine, alive
from backends.guard.disk.freezes import BOUNDED, Entry, Freezes, too_long
from backends.guard.disk.layout import Layout, boot_id
from backends.guard.jobs.record import leased
from backends.guard.spawn import detached, is_held, take_lock, unmoved

EVERY_S = 1.0
RESTART_AFTER_S = 1.0
PATIENCE_LIMIT_S = 60.0  # between two tries to start a guard that does not come up
LOCK = "watchdog.lock"

Engines = Callable[[], Mapping[str, Engine]]


def watchdog_lock(layout: Layout) -> Path:
    """Held by the one watchdog of a root."""
    return layout.state / LOCK


def argv(layout: Layout, engines: str, respawn: Sequence[str]) -> list[str]:
    """The command line of the watchdog."""
    return [sys.executable, "-m", "backends.guard.watchdog", str(layout.root), engines, *respawn]


class Watchdog:
    """Looks at the freeze ledger and the guard's lock, once a second."""

    def __init__(self, layout: Layout, engines: Engines, respawn: Sequence[str], clock: Clock) -> None:
        self._layout = layout
        self._load = engines
        self._engines: Mapping[str, Engine] | None = None
        self._respawn = list(respawn)
        self._clock = clock
        self._boot_id = boot_id()
        self._freezes = Freezes(layout.frozen)
        self._lapsed: set[str] = set()  # jobs frozen here because their lease ran out
        self._missing_since: float | None = None
        self._patience_s = RESTART_AFTER_S
        self._child: subprocess.Popen[bytes] | None = None

    def look(self) -> bool:
        """Thaw what is frozen for too long, start the guard again if it died; False when there is nothing to watch."""
        now = self._clock.monotonic()
        if self._child is not None and self._child.poll() is not None:  # reaped
            self._child = None
        entries = self._freezes.entries()
        for entry in entries:
            if too_long(entry, now, self._boot_id):
                self._thaw(entry)
        if not self._layout.lock.exists():
            return False
        leased = not is_held(self._layout.lock) and self._keep_leases(now)
        if self._layout.ended.exists() and not is_held(self._layout.lock):
            return leased or any(entry.reason in BOUNDED and alive(entry.process) for entry in entries)
        self._mind_the_guard(now)
        return True

    def _keep_leases(self, now: float) -> bool:
        """Freeze what must stand still now that no guard renews its lease; whether anything is promised at all.

        Whoever freezes first does no harm: a guard that comes up finds the lease lapsed too, and takes it from there.
        """
        promised = False
        for record in leased(self._layout, self._boot_id):
            process, lease = record.process, record.mind.lease
            if process is None or lease is None or not alive(process):
                continue
            promised = True
            lapsed = now > lease.renewed_at + lease.lease_s
            engine = self._engine(record.engine) if lapsed and record.job.uid not in self._lapsed else None
            if engine is not None:
                self._lapsed.add(record.job.uid)
                engine.freeze(process)
        return promised

    def _thaw(self, entry: Entry) -> None:
        engine = self._engine(entry.engine)
        if engine is not None and alive(entry.process):
            engine.thaw(entry.process)

    def _engine(self, name: str) -> Engine | None:
        if self._engines is None:
            self._engines = self._load()
        return self._engines.get(name)

    def _mind_the_guard(self, now: float) -> None:
        if is_held(self._layout.lock) or self._layout.ended.exists():
            self._lapsed.clear()
            self._missing_since = None
            self._patience_s = RESTART_AFTER_S
        elif self._missing_since is None:
            self._missing_since = now
        elif now - self._missing_since > self._patience_s:
            self._missing_since = None
            self._patience_s = min(2 * self._patience_s, PATIENCE_LIMIT_S)
            if self._respawn:
                self._child = detached(self._respawn, self._layout.run / "guard.log")


def main(arguments: Sequence[str]) -> int:
    """Watch until the guard was told to end and nothing is frozen for a save."""
    root, engines, *respawn = arguments
    layout, clock = Layout(Path(root)), SystemClock()
    unmoved()
    lock = take_lock(watchdog_lock(layout))
    if lock is None:
        return 0
    module, _, function = engines.partition(":")
    watchdog = Watchdog(layout, getattr(importlib.import_module(module), function), respawn, clock)
    while watchdog.look():
        clock.sleep(EVERY_S)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

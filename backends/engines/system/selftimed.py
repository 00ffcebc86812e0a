"""Programs that save on their own schedule: which of their saves are new, and from when each counts."""

from __future__ import annotations

import os

from backends.clock import Clock
from backends.engines.port import Process
from backends.engines.system.births import birth_ns
from backends.engines.system.markers import Shape, Watch, begun_s, is_written, written_ns


class SelfTimed:
    """Remembers what was taken from each living process."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._taken: dict[Process, int] = {}  # when the last save taken from it was written, ns since 1970

    def watch(self, process: Process, found: dict[str, Shape], busy: frozenset[str]) -> Watch:
        """A watch for saves that are new, of those that lie there too; `busy` are paths open for writing.

        What is taken already or was not made by this process does not count. Nor does one whose births are unknown: of
        the next we shall see when its writing begins. One that is written now may have begun right after the last.
        """
        floor = self._floor_ns(process)
        before = {
            path: form
            for path, form in found.items()
            if not all((birth_ns(row[0]) or 0) > floor for row in form)
        }
        watch = Watch.start(before, self.clock.wall())
        watch.untouched |= {path: floor / 1e9 for path, form in before.items() if is_written(form, busy)}
        return watch

    def take(self, process: Process, form: Shape, seen_s: float) -> tuple[float, float]:
        """When the writing of this save began and ended, seconds since 1970; from now on it is taken.

        `seen_s` is the time of the last look before anything of it was seen.
        """
        begun = begun_s(form, [birth_ns(row[0]) for row in form], self._floor_ns(process), seen_s)
        self._taken[process] = written_ns(form)
        return begun, written_ns(form) / 1e9

    def forget(self, process: Process) -> None:
        """The process has ended."""
        self._taken.pop(process, None)

    def _floor_ns(self, process: Process) -> int:
        """A new save of this process was written after this instant, ns since 1970."""
        up_s = self.clock.monotonic() - process.start_ticks / os.sysconf("SC_CLK_TCK")
        return max(self._taken.get(process, 0), int((self.clock.wall() - up_s) * 1e9))

"""Processes by id and start time, so that a reused id is never taken for the one meant."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from backends.clock import Clock


@dataclass(frozen=True)
class Process:
    """One process of this machine."""

    pid: int
    start_ticks: int  # field 22 of /proc/PID/stat

    @property
    def alive(self) -> bool:
        """Whether it still runs (a zombie does not)."""
        found = _stat(self.pid)
        return found is not None and found == (self.start_ticks, False)

    def kill(self) -> None:
        """SIGKILL; nothing happens when it is gone."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            return
        try:
            if self.alive:  # looked at after opening: the descriptor cannot move to another process
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except ProcessLookupError:
            return
        finally:
            os.close(descriptor)


def look(pid: int) -> Process | None:
    """The process with this id now, None when there is none."""
    found = _stat(pid)
    return None if found is None else Process(pid, found[0])


def children_of(pid: int) -> list[int]:
    """Process ids of the direct children; empty when it is gone."""
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(word) for word in (task / "children").read_text().split()]
    except OSError:
        return found
    return found


def wait_gone(processes: list[Process], clock: Clock, seconds: float) -> bool:
    """Wait until all are gone; False when some still live after `seconds`."""
    deadline = clock.monotonic() + seconds
    while any(process.alive for process in processes):
        if clock.monotonic() > deadline:
            return False
        clock.sleep(0.01)
    return True


def _stat(pid: int) -> tuple[int, bool] | None:
    """(start ticks, is a zombie) of a process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return int(fields[19]), fields[0] in ("Z", "X")

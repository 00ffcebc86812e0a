"""Ending a criu that holds a job, at a moment when the job survives it.

While criu puts its helper code into a task, the task's registers are not its own: ending criu then (measured: 5 to
8 % of moments of a small job's dump) lets the task run on with them, and it dies. Outside of these moments the
kernel simply lets the tasks go, and a task that waits inside the helper for criu's next word restores itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path

from backends.clock import Clock
from backends.engines.proc import read_stat

_PATIENCE_S = 2.0
_HELPER = "CRIUMFD"  # name of the memory that criu's helper code lies in
_SITE_BYTES = 16  # criu runs single calls from the first bytes of an executable mapping


def parse_place(line: str) -> tuple[bool, int] | None:
    """From /proc/PID/task/TID/syscall: whether the thread is inside a call, and where its code stands.

    None for a thread that runs at this moment, and for anything else.
    """
    words = line.split()
    try:
        return (int(words[0]) >= 0, int(words[-1], 16)) if len(words) >= 3 else None
    except ValueError:
        return None


def own_registers(maps: str, syscall: str, state: str) -> bool:
    """Whether a thread stands in its own code, or waits in criu's helper where it restores itself."""
    place = parse_place(syscall)
    if place is None:
        return False
    in_call, position = place
    for line in maps.splitlines():
        head, _, rest = line.partition(" ")
        low, _, high = head.partition("-")
        start, end = int(low, 16), int(high, 16)
        if not start <= position < end:
            continue
        if _HELPER in rest:
            return in_call and state == "S"
        return "x" not in rest[:4] or position - start >= _SITE_BYTES
    return True


def safe_to_let_go(pids: Iterable[int]) -> bool:
    """Whether every thread of `pids` would survive the end of its tracer now. The tracer must stand still."""
    for pid in pids:
        try:
            maps = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
            threads = list(Path(f"/proc/{pid}/task").iterdir())
        except OSError:
            continue
        for thread in threads:
            try:
                call = (thread / "syscall").read_text("ascii", "replace")
                state = (thread / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
            except (OSError, IndexError):
                continue
            if not own_registers(maps, call, state):
                return False
    return True


def end_tracer(tracer: int, pids: Iterable[int], clock: Clock) -> None:
    """End the criu `tracer` of `pids` at the first safe moment within 2 s, then in any case; never raises."""
    pids = list(pids)
    deadline = clock.monotonic() + _PATIENCE_S
    while clock.monotonic() < deadline:
        if not _signal(tracer, signal.SIGSTOP):
            return
        clock.sleep(0.001)
        found = read_stat(tracer)
        if found is not None and found.state == "T" and safe_to_let_go(pids):
            break
        _signal(tracer, signal.SIGCONT)
        clock.sleep(0.001)
    _signal(tracer, signal.SIGKILL)


def _signal(pid: int, number: int) -> bool:
    with contextlib.suppress(OSError):
        os.kill(pid, number)
        return True
    return False

"""Stopping, continuing and ending a process tree, and the proof that one lives."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from backends.clock import Clock
from backends.engines.port import Process, alive
from backends.engines.proc import children, parse_arguments, read_stat, status_fields, tree_pids
from backends.engines.system.seized import end_tracer
from backends.errors import EngineError

STOP_DEADLINE_S = 10.0
END_DEADLINE_S = 20.0
LIFE_WINDOW_S = 1.0  # a process without descriptors died 0.7 s after a restore that returned 0


@dataclass(frozen=True)
class Sample:
    """What a tree did up to one moment."""

    state: str  # of the root
    cpu_ticks: int
    written_bytes: int  # characters passed to write calls


def send(pid: int, start_ticks: int, number: int) -> bool:
    """Signal exactly the process (pid, start_ticks); False when it is gone."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        found = read_stat(pid)
        if found is None or found.start_ticks != start_ticks:
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def _living(root: Process) -> list[tuple[int, int, str]]:
    """(pid, start ticks, state) of everything in the tree that is no zombie; empty when the root is gone."""
    if not alive(root):
        return []
    found = (read_stat(pid) for pid in tree_pids(root.pid))
    return [(s.pid, s.start_ticks, s.state) for s in found if s is not None and s.state not in "ZX"]


def stop(root: Process, clock: Clock) -> None:
    """SIGSTOP every process of the tree until all are stopped; EngineError when one cannot be."""
    deadline = clock.monotonic() + STOP_DEADLINE_S
    while True:
        running = [(pid, ticks) for pid, ticks, state in _living(root) if state not in "Tt"]
        if not running:
            return
        for pid, ticks in running:
            send(pid, ticks, signal.SIGSTOP)
        if clock.monotonic() > deadline:
            names = ", ".join(str(pid) for pid, _ in running[:5])
            raise EngineError(
                f"process {names} does not stop within {STOP_DEADLINE_S:g} s",
                hint="it waits inside the kernel (state D): look at its disk, network file system or GPU driver",
            )
        clock.sleep(0.01)


def detach(root: Process, clock: Clock) -> None:
    """End any criu that holds a process of the tree, at a moment that the tree survives; never raises."""
    pids = [pid for pid, _, _ in _living(root)]
    tracers = {int(status_fields(pid).get("TracerPid", "0") or 0) for pid in pids}
    for tracer in tracers:
        if tracer and is_criu(tracer):
            end_tracer(tracer, pids, clock)


def go_on(root: Process, clock: Clock) -> None:
    """End any criu that holds the tree, then SIGCONT its stopped processes; never raises."""
    detach(root, clock)
    for pid, ticks, state in reversed(_living(root)):
        if state == "T":
            with contextlib.suppress(OSError):
                send(pid, ticks, signal.SIGCONT)


def is_criu(pid: int) -> bool:
    """Whether `pid` runs criu's dump: the only tracer we may end."""
    try:
        words = parse_arguments(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False
    return b"dump" in words and any(word.rsplit(b"/", 1)[-1] == b"criu" for word in words)


def end(root: Process, clock: Clock) -> None:
    """Kill the tree, or the init of its PID namespace, and wait until none of it lives.

    Zombies are left to whoever started them: taking their exit status here would make a killed job look finished.

    Raises:
        EngineError: something still lives after 20 s.
    """
    targets = _namespace(root) or [(pid, ticks) for pid, ticks, _ in _living(root)]
    deadline = clock.monotonic() + END_DEADLINE_S
    while targets:
        for pid, ticks in targets:
            with contextlib.suppress(OSError):
                send(pid, ticks, signal.SIGSTOP)  # so that none forks while the others die
        more = _namespace(root) or [(pid, ticks) for pid, ticks, _ in _living(root)]
        targets = list(dict.fromkeys([*targets, *more]))
        for pid, ticks in targets:
            with contextlib.suppress(OSError):
                send(pid, ticks, signal.SIGKILL)
        targets = [(pid, ticks) for pid, ticks in targets if _lives(pid, ticks)]
        if targets and clock.monotonic() > deadline:
            raise EngineError(
                f"process {targets[0][0]} does not end within {END_DEADLINE_S:g} s of SIGKILL",
                hint="it waits inside the kernel (state D): look at its disk, network file system or GPU driver",
            )
        if targets:
            clock.sleep(0.01)


def _lives(pid: int, ticks: int) -> bool:
    found = read_stat(pid)
    return found is not None and found.start_ticks == ticks and found.state not in "ZX"


def _namespace(root: Process) -> list[tuple[int, int]]:
    """The init of the tree's own PID namespace and all below it; empty when it has none or is gone."""
    if root.init_pid is None or not _is_init_of(root.init_pid, root):
        return []
    found = (read_stat(pid) for pid in tree_pids(root.init_pid))
    return [(s.pid, s.start_ticks) for s in found if s is not None and s.state not in "ZX"]


def _is_init_of(init_pid: int, root: Process) -> bool:
    """Whether `init_pid` is process 1 of a namespace other than ours, and not a pid that was used again."""
    words = status_fields(init_pid).get("NSpid", "").split()
    if len(words) < 2 or words[-1] != "1":
        return False
    found = read_stat(init_pid)
    return found is not None and found.start_ticks <= root.start_ticks


def sample(root: Process) -> Sample | None:
    """The tree's state now; None when the root is gone."""
    found = read_stat(root.pid)
    if found is None or found.start_ticks != root.start_ticks or found.state in "ZX":
        return None
    cpu = written = 0
    for pid in tree_pids(root.pid):
        each = read_stat(pid)
        cpu += each.cpu_ticks if each else 0
        written += _written(pid)
    return Sample(found.state, cpu, written)


def _written(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/io").read_text("ascii", "replace")
    except OSError:
        return 0
    for line in text.splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    return 0


def prove_life(root: Process, clock: Clock, *, window_s: float = LIFE_WINDOW_S) -> None:
    """Watch the tree for a while: it must stay, be neither stopped nor a zombie, and work or sleep.

    A tree whose processor time or output moves is believed after half the window; one that only sleeps, after all
    of it.

    Raises:
        EngineError: it is gone, stopped, or dead.
    """
    started = clock.monotonic()
    first = sample(root)
    while True:
        now = sample(root)
        if first is None or now is None:
            raise EngineError(
                "the job's process ended right after it came back", hint="use the previous checkpoint"
            )
        if now.state in "Tt" and clock.monotonic() - started > window_s:
            raise EngineError(
                "the job came back stopped and does not run", hint="use the previous checkpoint"
            )
        elapsed = clock.monotonic() - started
        moved = (now.cpu_ticks, now.written_bytes) != (first.cpu_ticks, first.written_bytes)
        if now.state not in "Tt" and (elapsed >= window_s or (moved and elapsed >= window_s / 2)):
            return
        clock.sleep(0.05)


def ended_well(root: Process) -> bool:
    """Whether the root is a zombie that exited with 0: it finished in the moment after it came back."""
    try:
        data = Path(f"/proc/{root.pid}/stat").read_bytes()
        words = data[data.rindex(b")") + 2 :].split()
    except (OSError, ValueError):
        return False
    return words[0] == b"Z" and int(words[19]) == root.start_ticks and int(words[-1]) == 0


def find_inner(init_pid: int, inner_pid: int) -> Process | None:
    """The process that is `inner_pid` in the namespace of `init_pid`, with its outer pid; None when absent."""
    for pid in tree_pids(init_pid):
        words = status_fields(pid).get("NSpid", "").split()
        found = read_stat(pid)
        if pid != init_pid and words and int(words[-1]) == inner_pid and found is not None:
            return Process(pid, found.start_ticks, init_pid, inner_pid)
    return None


def only_child(pid: int) -> int | None:
    """The pid of the one child of `pid`; None when it has none yet."""
    found = children().get(pid, [])
    return found[0] if found else None

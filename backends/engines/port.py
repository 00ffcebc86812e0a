"""What the guard asks of an engine: examine a job, save it, bring it back, end it.

One contract suite (`tests/contract/engine_suite.py`) runs on every engine, the fake included.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from backends.records.job import Job

NSINIT = "backends.engines.nsinit"  # process 1 of what a restore brings back
Answer = Literal["ok", "needs_restart", "self_save_only", "impossible"]


@dataclass(frozen=True)
class Process:
    """A job's root process, pinned so that a reused pid is never mistaken for it."""

    pid: int  # as seen from the node's own PID namespace
    start_ticks: int  # field 22 of /proc/PID/stat
    init_pid: int | None = None  # outer pid of the PID-namespace init after a restore; None: node's namespace
    inner_pid: int | None = None  # pid inside that namespace


@dataclass(frozen=True)
class OpenFile:
    """A file captured with a save: it travels and is rolled back at restore."""

    path: str  # absolute, as the job sees it
    size: int  # bytes at the freeze
    mode: int
    uid: int
    gid: int
    copy: str  # file name of the captured content under the save directory's `files/`
    origin: Literal["open", "declared"]  # held open by the process tree, or named by the job's `files`


@dataclass(frozen=True)
class Verdict:
    """Whether a job can be saved by this engine, and what stands in the way (`jobs doctor`)."""

    answer: Answer
    reasons: tuple[str, ...] = ()  # one sentence each: the thing, the value, the remedy
    restart_line: str | None = None  # for needs_restart: the exact line to restart with
    engine: str = ""
    unproven: str = (
        ""  # on which driver and GPU nobody has shown it to work; `auto` leaves such engines alone
    )


@dataclass(frozen=True)
class Saved:
    """What one save left in its directory: `images/` (engine's own files) and `files/` (captured copies)."""

    frozen_at: float  # wall clock of the freeze instant, seconds since 1970
    frozen_at_monotonic: float
    frozen_s: float  # how long the job stood still
    dump_s: float  # the whole engine run
    size_bytes: int  # images and files
    files: tuple[OpenFile, ...]
    processes: tuple[dict[str, Any], ...]  # pid, tids, name; command line redacted
    versions: dict[str, str]  # engine and tool versions
    details: dict[str, Any] = field(default_factory=dict)  # what the engine needs again at restore


@dataclass(frozen=True)
class SaveRequest:
    """One save: where to, and how long it may take."""

    job: Job
    process: Process
    directory: Path  # exists, empty, 0700, on a file system with room
    deadline_s: float  # wall-clock limit of the whole engine run
    max_freeze_s: float


@dataclass(frozen=True)
class RestoreRequest:
    """One restore from a fetched checkpoint (`images/` and `files/` under `directory`)."""

    job: Job
    directory: Path
    files: tuple[OpenFile, ...]
    details: dict[str, Any]
    deadline_s: float
    aside: Path  # directory that keeps every replaced file
    scratch: Path | None = None  # a rehearsal: files are put under this root, no network, killed afterwards


class Engine(Protocol):
    """A way to save a job and bring it back. Blocking; called from one worker thread per job."""

    @property
    def name(self) -> str:
        """The name used in records: `criu`, `signal`."""
        ...

    def ready(self) -> Verdict:
        """Can this engine work on this node at all? For criu a canary dump and restore with a socket."""
        ...

    def examine(self, job: Job, process: Process) -> Verdict:
        """Will this job save, and restore? Changes nothing."""
        ...

    def save(self, request: SaveRequest, frozen: Callable[[], None]) -> Saved:
        """Save; the job runs on afterwards, also when this raises EngineError. `frozen` is called at the freeze."""
        ...

    def restore(self, request: RestoreRequest) -> Process:
        """Bring the job back and return once it is proven alive and running; EngineError leaves nothing behind."""
        ...

    def freeze(self, process: Process) -> None:
        """Stop the process tree where it stands (a zombie incarnation); idempotent."""
        ...

    def thaw(self, process: Process) -> None:
        """Let a frozen or half-saved process tree run; idempotent; never raises for one that runs."""
        ...

    def end(self, process: Process) -> None:
        """Kill the process tree and reap it; returns when nothing of it lives; idempotent."""
        ...


@runtime_checkable
class HoldsContainers(Protocol):
    """An engine that knows containers by name."""

    def first_pid(self, container: str) -> int | None:
        """The first process of a living container, as the node sees it; None when there is none of that name."""
        ...


def start_ticks(pid: int) -> int | None:
    """Start time of `pid` in clock ticks since boot (field 22 of /proc/PID/stat); None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def alive(process: Process) -> bool:
    """Whether exactly this process (pid and start time) lives and is no zombie."""
    return start_ticks(process.pid) == process.start_ticks


def process_of(pid: int) -> Process | None:
    """The process `pid` of this node pinned as it is now, with its init when we brought it back; None when it is gone."""
    ticks = start_ticks(pid) if pid > 0 else None
    if ticks is None:
        return None
    facts, parent = _status(pid), 0
    inner = facts.get("NSpid", "").split()
    if len(inner) > 1:
        parent = int(facts.get("PPid", "0"))
    if not parent or not _is_our_init(parent):
        return Process(pid, ticks)
    return Process(pid, ticks, parent, int(inner[-1]))


def _is_our_init(pid: int) -> bool:
    """Whether `pid` is process 1 of a namespace that a restore by this user made (see `nsinit`)."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        mine = Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
    except OSError:
        return False
    return mine and NSINIT.encode() in words and _status(pid).get("NSpid", "").split()[-1:] == ["1"]


def _status(pid: int) -> dict[str, str]:
    """The fields of /proc/PID/status; empty when it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}

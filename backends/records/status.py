"""What a guard says of itself and its jobs: the answer of the node verb `status`."""

from __future__ import annotations

from dataclasses import dataclass

from backends.records.gpu import GpuState
from backends.records.node import NoticeState
from backends.records.restarter import RestarterRef


@dataclass(frozen=True)
class SaveStatus:
    """The newest durable save of a job, as its guard reports it."""

    checkpoint: str  # <epoch>.<seq>
    frozen_at: str  # RFC 3339 by the node's wall clock: the freeze instant, from which lost work counts
    age_s: float  # seconds since the freeze instant by the node's monotonic clock, at the time of this status
    freeze_s: float  # how long the job stood still
    size_bytes: int  # image and captured files
    upload_s: float  # freeze end to read back and reported


@dataclass(frozen=True)
class JobStatus:
    """One job on this node."""

    name: str
    uid: str
    epoch: int
    state: str  # trial | unrehearsed | protected | overdue | paused | zombie | isolated | restoring | stopped | finished | failed | ended_unknown
    engine: str
    pid: int | None = None  # outermost pid on the node
    started_at: str | None = None
    progress: str | None = None  # last line of the job's own progress, cleaned; None when unknown
    interval_s: float | None = None
    next_save_in_s: float | None = None  # negative: late by so much
    saving: bool = False  # a save is under way
    saved: SaveStatus | None = None  # None: nothing durable yet
    at_risk_s: float | None = None  # work that a loss this second would take; None when unknown
    error: str | None = None  # last failure, one line
    store: str = ""
    reclaimed: bool = False  # it ended after a notice or while the node went down: a reclaim, not an end
    rebooted: bool = False  # it ended because the node was restarted (another boot id)
    restarter: RestarterRef | None = (
        None  # who else would start it again; None: nobody, or from an older guard
    )
    interval_reason: str | None = None  # why `interval_s` is that; None from an older guard


@dataclass(frozen=True)
class NodeStatus:
    """The guard's whole answer; `protocol` lets an older console refuse what it does not know."""

    guard: str  # guard id: new at every installation, kept over restarts
    node: str  # the name the fleet gave this node at installation
    boot_id: str
    time: str  # RFC 3339 by the node's wall clock
    uptime_s: float
    notice: NoticeState
    notice_deadline_s: float | None  # seconds left by the node's monotonic clock
    jobs: tuple[JobStatus, ...]
    events_next: int  # number of the next event in the spool
    version: str
    bundle: str  # digest of the installed bundle
    protocol: int = 1
    gpus: tuple[GpuState, ...] | None = None  # None: unknown, or no NVIDIA driver; () none
    gpu_reason: str = ""  # why `gpus` is unknown

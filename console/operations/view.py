"""What the screens and listings show of a fleet: one snapshot, every value with its age or unknown.

Built by `console.operations.observe` from nodes, cloud, store and ledger; drawn by `console.tui` and
`console.cli`. Text from nodes is already clean. None is unknown and is drawn as `–`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from backends.records.event import Event
from backends.records.job import JobState
from backends.records.node import NodeState, NoticeState

Awaited = Literal["node", "controller", "operator", ""]


@dataclass(frozen=True)
class NodeRow:
    """One node."""

    name: str
    state: NodeState
    reason: str  # what is missing, since when, which proof; empty when ok
    pool: str | None
    provider: str
    age_s: float | None  # seconds since the last answer; None: never answered
    notice: NoticeState | None  # None: unknown
    notice_left_s: float | None
    jobs: tuple[str, ...]
    guard: str | None
    address: str
    facts: dict[str, str] = field(default_factory=dict)  # kernel, criu, arch, gpus … for the detail pane
    as_of: float | None = None  # wall clock that age_s and notice_left_s belong to; None: the snapshot's


@dataclass(frozen=True)
class JobRow:
    """One job."""

    name: str
    uid: str
    state: JobState
    reason: str  # why it is in this state, one sentence
    node: str | None
    engine: str | None
    epoch: int | None
    pid: int | None
    checkpoint: str | None  # newest durable save
    frozen_at: float | None  # wall clock of its freeze instant, corrected by the node's measured clock offset
    interval_s: float | None
    next_save_at: float | None  # wall clock
    freeze_s: float | None
    size_bytes: int | None
    progress: str | None
    risk_base_s: float | None  # work at risk when observed; grows with time while the job runs
    observed_at: float | None  # wall clock of the observation that risk_base_s belongs to
    stale: bool = False  # the node is silent: values are the last known ones
    store: str = ""
    lost_at: float | None = (
        None  # wall clock at which its process was gone for certain: no work is lost after that
    )
    interval_reason: str = ""  # why the interval is what it is; empty: unknown
    awaits: Awaited = ""  # in `waiting_capacity`: what the job waits for; empty: unknown


@dataclass(frozen=True)
class OperationRow:
    """One running or recent operation."""

    id: str
    kind: str  # save | restore | move | batch …
    target: str
    step: str
    state: str  # running | done | failed | cancelled
    started_at: float
    detail: str = ""


@dataclass(frozen=True)
class FleetView:
    """One snapshot of everything a screen shows."""

    context: str
    taken_at: float  # wall clock
    nodes: tuple[NodeRow, ...] = ()
    jobs: tuple[JobRow, ...] = ()
    events: tuple[Event, ...] = ()  # newest last, at most 500
    operations: tuple[OperationRow, ...] = ()
    controller: str | None = None  # id and age of a live controller
    no_controller_since: float | None = None  # wall clock; None while one is alive or none was ever seen
    read_only: bool = False
    production: bool = False
    source_ages_s: dict[str, float | None] = field(default_factory=dict)  # fleet, store, cloud, prices …


def risk_now(job: JobRow, now: float) -> float | None:
    """Work at risk of `job` at wall time `now` in seconds; None when nothing is known.

    Never below the truth: it grows from the observation on, for silent nodes too, until the end of the process is proven.
    """
    if job.risk_base_s is None or job.observed_at is None:
        return None
    if job.state in ("finished", "stopped", "failed", "ended_unknown"):
        return job.risk_base_s
    end = now if job.lost_at is None else min(now, job.lost_at)
    return job.risk_base_s + max(0.0, end - job.observed_at)

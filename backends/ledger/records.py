"""What the ledger keeps: current jobs, nodes last seen, reclaims with their three costs, measured saves, the journal.

Times are wall-clock seconds since 1970; durations are seconds. None is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

ItemState = Literal[
    "planned", "running", "restored", "already_restored", "done", "failed", "refused", "cancelled"
]
RunState = Literal["running", "done", "partial", "failed", "cancelled"]


@dataclass(frozen=True)
class JobCurrent:
    """What is known now of one job; can be rebuilt from store and nodes."""

    name: str
    uid: str
    node: str | None
    epoch: int | None
    state: str
    checkpoint: str | None = None  # newest durable save
    frozen_at: float | None = None  # its freeze instant, corrected by the node's clock offset
    seen_at: float | None = None  # last moment a node reported the job
    running_at: float | None = None  # last moment a node was known to run it
    reason: str = ""
    status: dict[str, Any] = field(default_factory=dict)  # the last JobStatus, as the node sent it


@dataclass(frozen=True)
class NodeSeen:
    """The last answer of one node."""

    name: str
    seen_at: float
    guard: str | None
    clock_offset_s: float | None  # node's wall clock minus ours
    notice: str | None
    notice_deadline_at: float | None
    events_next: int = 0  # number of the first event of this guard not yet in the ledger
    status: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reclaim:
    """One loss of a job's node and what it cost; every try to bring the job back is counted in it."""

    key: str  # unique: the run and item that brought the job back
    at: float  # when the loss was detected
    job: str
    uid: str
    from_node: str | None
    notice: bool | None  # did the provider announce it; None: nobody could see
    notice_s: float | None  # how long before
    lost_work_s: float | None  # freeze instant of the checkpoint used → death proven: never below truth
    least_lost_s: float | None  # the same → last moment it was seen running: never above the truth
    restore_s: float | None  # start of the restore to proof of life
    wait_s: float | None  # loss detected to a ready node
    from_checkpoint: str | None
    to_node: str | None
    epoch: int | None
    failed_tries: int = 0
    cause: str = "reclaim"  # reclaim | reboot | operator | move | batch
    outcome: str = "restored"  # restored | failed
    pool: str | None = None  # of the node that was lost


@dataclass(frozen=True)
class Work:
    """How long a job was seen running in one pool, market and month."""

    uid: str
    job: str
    pool: str  # empty: its node has none
    market: str  # spot | on_demand; empty: unknown, counted as spot
    month: str  # YYYY-MM, UTC
    seconds: float


@dataclass(frozen=True)
class SaveMeasure:
    """One durable save as its guard measured it."""

    uid: str
    checkpoint: str
    at: float
    freeze_s: float
    upload_s: float
    size_bytes: int


@dataclass(frozen=True)
class Word:
    """The operator's typed word: who declared what, and when; it cannot be rebuilt from anywhere."""

    at: float
    who: str
    kind: str  # dead | thaw | accept
    subject: str  # the job's name
    uid: str
    epoch: int | None
    text: str = ""


@dataclass(frozen=True)
class Run:
    """One operation of one or more items."""

    id: str
    kind: str  # restore | move | batch | rehearse | …
    created_at: float
    arguments: dict[str, Any]
    state: RunState = "running"
    finished_at: float | None = None
    detail: str = ""


@dataclass(frozen=True)
class Item:
    """One unit of a run: one job."""

    run: str
    item: str
    job: str
    arguments: dict[str, Any]
    state: ItemState = "planned"
    reason: str = ""
    result: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One journalled step: written as `intended` before the act, as `observed` after it."""

    run: str
    item: str
    number: int
    step: str
    phase: Literal["intended", "observed"]
    at: float
    data: dict[str, Any]

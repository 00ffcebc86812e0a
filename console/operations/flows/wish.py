"""What a restore is asked for, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from backends.records.job import Job
from console.operations.common.candidates import Hearing


@dataclass(frozen=True)
class RestoreWish:
    """What was asked for."""

    job: Job
    to: str | None = None  # node or pool
    checkpoint: str | None = None  # None: the newest usable
    force: dict[str, str] = field(default_factory=dict)  # gate property → recorded reason
    cause: str = "operator"  # operator | reclaim | reboot | move | batch
    detected_at: float | None = None  # wall clock; None: now
    no_node_s: float = 0.0  # of the time since then, how long no node was ready to take the job
    patience_s: float = 0.0  # how long to wait for proof
    max_tries: int = 3
    notice: bool | None = None
    notice_s: float | None = None
    wait: bool = True  # False: leave once a guard has begun; the same command goes on later
    trusted: frozenset[str] = (
        frozenset()
    )  # checkpoints that were read back a moment ago: the target verifies them again
    hearing: Hearing | None = None  # who knows which nodes answer; None: every node is asked


@dataclass(frozen=True)
class Restored:
    """One live process, confirmed by its guard."""

    state: str  # restored | already_restored
    job: str
    uid: str
    node: str
    epoch: int
    pid: int | None
    checkpoint: str | None
    lost_work_s: float | None
    restore_s: float | None
    wait_s: float | None
    gap_s: float | None = (
        None  # freeze instant of the checkpoint used → proof of life: how long the job did nothing
    )
    failed_tries: int = 0
    notes: tuple[str, ...] = ()


OnStep = Callable[[str], None]

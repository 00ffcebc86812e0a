"""What a restore is asked for, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from backends.records.job import Job
from console.operations.common.candidates import Hearing
from planner.quantities import format_duration

CLOSE_S = 2.0  # bounds this close are one figure


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
    lost_work_at_least_s: float | None = None  # to the last moment the old process was seen running
    by_word: bool = (
        False  # death was typed, not proven: lost_work_s counts to that word, the end may have been before
    )

    @property
    def lost(self) -> str:
        """The lost work in words; a range where only a typed word says when the process was gone."""
        if self.lost_work_s is None:
            return "unknown"
        most, least = self.lost_work_s, self.lost_work_at_least_s
        if not self.by_word or least is None or most - least <= CLOSE_S:
            return format_duration(most)
        return (
            f"{format_duration(round(least, 1))} to {format_duration(round(most, 1))} (from its last sign of life to the typed "
            f"word: nothing tells when its process ended)"
        )


OnStep = Callable[[str], None]

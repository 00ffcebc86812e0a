"""What the controller does now for each job, by policy; everything unasked is decided here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from backends.records.node import NodeState

ActionKind = Literal["restore", "capacity", "alert", "none"]

ZOMBIE_LIMIT = 3  # more zombie freezes than this inside ZOMBIE_WINDOW_S suspend take-overs fleet-wide
ZOMBIE_WINDOW_S = 600.0
SAME_CHECKPOINT_LIMIT = 2  # restores from one checkpoint without a new save between them


@dataclass(frozen=True)
class WatchedJob:
    """One job as the policy sees it."""

    name: str
    uid: str
    node_state: NodeState  # of the node it ran on
    proven: bool  # nothing of its newest epoch runs: proof is at hand
    state: str  # its guard's or the ledger's last word
    priority: int = 0
    policy: str = "owned"
    paused: bool = False
    leased: bool = False  # its node is silent and its lease has run out
    rebooted: bool = False  # it ended because its node was restarted
    reclaimed: bool = False  # its guard saw it end after a notice, or while the node went down
    stands_still: str = (
        ""  # why it does, although its node answers: a restore by hand was begun and never finished
    )
    checkpoint: str | None = None  # newest usable save
    restores_of_it: int = 0  # newest epochs in a row that continue from this same checkpoint
    stop: str = ""  # why the job's policy ends restores by themselves now
    busy: bool = False  # an operation works on it
    retry_in_s: float = 0.0  # back-off left after a failed restore
    node_fits: bool = True  # a node of ours can take it
    why_none_fits: str = ""


@dataclass(frozen=True)
class Action:
    """One thing to do, and the sentence that says why."""

    kind: ActionKind
    job: str
    uid: str
    reason: str


def restores_in_a_row(chain: list[tuple[str, str | None]]) -> tuple[str | None, int]:
    """Newest chosen checkpoint and how many newest epochs in a row continue from it.

    `chain` holds (kind, checkpoint) of every epoch's continues in epoch order; void epochs are no restores.
    """
    newest: str | None = None
    count = 0
    for kind, checkpoint in reversed(chain):
        if kind == "void":
            continue
        if kind != "checkpoint" or (newest is not None and checkpoint != newest):
            break
        newest = checkpoint
        count += 1
    return newest, count


def suspended(zombie_ages_s: list[float]) -> str | None:
    """Why take-overs are suspended fleet-wide, or None: too many zombies mean that proofs are wrong."""
    recent = [age for age in zombie_ages_s if age < ZOMBIE_WINDOW_S]
    if len(recent) <= ZOMBIE_LIMIT:
        return None
    return (
        f"{len(recent)} zombie jobs in the last {ZOMBIE_WINDOW_S / 60:.0f} minutes: take-overs are suspended, "
        "because processes that were proven dead came back"
    )


def decide(jobs: list[WatchedJob], zombie_ages_s: list[float]) -> list[Action]:
    """Actions in the order in which they should begin: higher priority first, then name."""
    stop = suspended(zombie_ages_s)
    actions = [_one(job, stop) for job in jobs]
    order = {job.uid: (-job.priority, job.name) for job in jobs}
    return sorted((a for a in actions if a.kind != "none"), key=lambda a: order[a.uid])


def _one(job: WatchedJob, stop: str | None) -> Action:
    def action(kind: ActionKind, reason: str) -> Action:
        return Action(kind, job.name, job.uid, reason)

    if job.stands_still and not job.busy:
        return action(
            "alert",
            f"job {job.name} stands still: {job.stands_still}; `reprieve jobs restore {job.name}` goes on, "
            "unless another console is at it",
        )
    taken = job.reclaimed or job.rebooted
    ended = job.state in ("finished", "stopped", "ended_unknown") and not taken
    if job.busy or job.paused or not job.proven or ended:
        return action("none", "")
    if job.node_state != "lost" and not taken and not job.leased:
        return action("none", "its node lives")
    if stop is not None:
        return action("alert", stop)
    if job.checkpoint is None:
        return action(
            "alert",
            f"job {job.name} was lost and has no usable checkpoint: a cold start is for you to decide",
        )
    if job.restores_of_it >= SAME_CHECKPOINT_LIMIT:
        return action(
            "alert",
            f"job {job.name} was restored {job.restores_of_it} times from {job.checkpoint} without a new save: "
            "it is not restored again until you say so",
        )
    if job.stop:
        return action(
            "alert", f"job {job.name} is not restored by itself: {job.stop}; `reprieve jobs restore` is yours"
        )
    if job.retry_in_s > 0:
        return action("none", f"next try in {job.retry_in_s:.0f} s")
    if job.node_fits:
        return action("restore", f"{_why(job)}; newest usable checkpoint {job.checkpoint}")
    return action("capacity", f"no node of the fleet fits: {job.why_none_fits}")


def _why(job: WatchedJob) -> str:
    if job.leased:
        return "its node is silent and its lease has run out"
    if job.node_state == "lost":
        return "its node is lost"
    return "its node was restarted" if job.rebooted else "it ended after a notice or a shutdown"


def back_off_s(failures: int, *, first_s: float = 10.0, most_s: float = 600.0) -> float:
    """How long to leave a job alone after `failures` failed restores in a row: 10 s, 20 s … 10 min."""
    return 0.0 if failures <= 0 else min(most_s, first_s * 2.0 ** min(failures - 1, 16))

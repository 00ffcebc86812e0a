"""The next step of a restore, from what the store and the named guard say now; never from memory alone.

A restore that was interrupted anywhere resumes by observing and asking this function again. Whoever finds a target
that was named but has not begun asks that same target to begin: (job, epoch) starts at most once there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from console.operations.decide.loss import GuardWord, Proof

StepName = Literal[
    "done", "already", "ask_node", "write_continues", "take_over", "wait", "no_proof", "give_up"
]

RACE_GRACE_S = 60.0  # how long another taker may take between its claim and its continues


@dataclass(frozen=True)
class Observed:
    """The newest epoch of the job and who speaks for it."""

    epoch: int  # highest claim
    claim_is_ours: bool  # its nonce is in our journal
    claim_seen_s: float  # how long we have been looking at this claim without a continues
    kind: Literal["none", "void", "genesis", "checkpoint", "cold"]  # its continues; none: absent
    continues_is_ours: bool
    running_epoch: int  # the epoch that the newest non-void continues belongs to; 0: none
    guard: GuardWord  # the guard named there, about that epoch
    proof: Proof | None  # that nothing of running_epoch runs
    started_from: int  # highest epoch when this restore was asked for
    tries: int  # epochs of ours that a node was asked to start and that ended
    max_tries: int = 3
    waited_s: float = 0.0  # how long this restore has waited for proof
    patience_s: float = 0.0  # how long it may
    awaits: str = ""  # what may come of the waiting


@dataclass(frozen=True)
class Step:
    """What to do next and why."""

    name: StepName
    reason: str = ""


def next_step(seen: Observed) -> Step:
    """The next step; `done` and `already` mean that its guard confirms one live process, or that it finished."""
    if seen.kind == "none" and seen.epoch > 0:
        if seen.claim_is_ours:
            return Step("write_continues", f"epoch {seen.epoch} is ours and names nothing yet")
        if seen.claim_seen_s < RACE_GRACE_S:
            return Step("wait", f"another controller has claimed epoch {seen.epoch}")
        return _take_over_or_not(seen)
    current = seen.running_epoch == seen.epoch
    guard = seen.guard
    if current and (guard.word == "running" or (guard.finished and _after_start(seen))):
        return _someone_runs(seen)
    if current and guard.word in ("restoring", "absent") and seen.kind == "checkpoint":
        return Step("ask_node", f"epoch {seen.epoch} names this guard, which has not finished it")
    if seen.continues_is_ours and guard.word == "ended" and seen.tries >= seen.max_tries:
        return Step("give_up", guard.detail or "every try failed")
    return _take_over_or_not(seen)


def _after_start(seen: Observed) -> bool:
    """Whether the newest epoch was begun after this restore was asked for."""
    return seen.continues_is_ours or seen.epoch > seen.started_from


def _someone_runs(seen: Observed) -> Step:
    if seen.continues_is_ours:
        return Step("done")
    if seen.epoch > seen.started_from:
        return Step("already", f"epoch {seen.epoch} was started by another controller")
    return Step("no_proof", "it still runs")


def _take_over_or_not(seen: Observed) -> Step:
    if seen.tries >= seen.max_tries:
        return Step("give_up", f"{seen.tries} tries failed")
    if seen.proof is not None or seen.running_epoch == 0:
        return Step("take_over", seen.proof.detail if seen.proof is not None else "nothing was ever started")
    if seen.waited_s < seen.patience_s:
        return Step("wait", seen.awaits or "no proof yet")
    return Step("no_proof", "no proof")


def extra_loss_text(skipped: list[str], extra_s: float | None) -> str:
    """What a fall-back to an older checkpoint costs, in minutes, for people."""
    names = ", ".join(skipped)
    if extra_s is None:
        return f"checkpoint {names} cannot be used; how much more work is lost is unknown"
    minutes = f"{extra_s / 60:.1f}" if extra_s >= 6 else f"{extra_s / 60:.2g}"
    return f"checkpoint {names} cannot be used; the one before costs {minutes} more minutes of work"

"""What the guard says of a job: its state word and the work at risk."""

from __future__ import annotations

from backends.guard.decide.interval import due_at, overdue
from backends.guard.decide.model import Mind


def state_word(mind: Mind, now: float) -> str:
    """The job's state in the words of the contract (section 1)."""
    if mind.phase != "running":
        return mind.phase
    if mind.frozen is not None:
        return mind.frozen
    if mind.behind is not None:
        return "unprotected"  # runs on by the operator's word; nothing it saves would count
    if mind.policy.paused:
        return "paused"
    if mind.notice.state == "notice":
        return "noticed"
    if mind.durable is None and mind.restored_from is None:
        return "trial"
    if overdue(mind, now):
        return "overdue"
    return "protected" if mind.rehearsed else "unrehearsed"


def at_risk_s(mind: Mind, now: float) -> float | None:
    """Seconds of work that a loss this instant would take; None when the job is not running work here.

    Counted from the freeze instant of the last durable save, before the first one from the start of the process
    or of its restore. A frozen job adds nothing new but what it did is still unsaved, so the count goes on:
    never below the truth.
    """
    if mind.phase != "running":
        return None
    base = mind.began_at if mind.durable is None else mind.durable.frozen_at
    return max(0.0, now - base)


def next_save_in_s(mind: Mind, now: float) -> float | None:
    """Seconds until the next save; negative when it is late; None when none is planned."""
    if mind.phase != "running" or mind.frozen or mind.behind is not None:
        return None
    if mind.policy.paused or mind.trial_refused:
        return None
    left = due_at(mind) - now
    return max(0.0, left) if mind.durable is None and mind.restored_from is None else left

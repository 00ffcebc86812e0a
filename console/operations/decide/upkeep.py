"""Which checkpoints are read back now, and whether retention may run: by time and state, without touching anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from console.operations.truth import SaveView

SAMPLE = 0.1  # share of the frames of an older checkpoint
SAMPLED_AT_ONCE = 2  # older checkpoints a round, those first that were looked at longest ago

RETAINED_STATES = ("trial", "unrehearsed", "protected", "overdue", "paused")
SCRUBBED_STATES = (*RETAINED_STATES, "stopped", "isolated", "unreachable")


@dataclass(frozen=True)
class Scrub:
    """One check of one checkpoint."""

    checkpoint: str
    at: float  # wall clock of its end
    how: str  # `full`, or `sample 0.10`: the share of its frames
    whole: bool  # nothing wrong was found
    reason: str = ""  # what was


@dataclass(frozen=True)
class Check:
    """One checkpoint to read back; `sample` None is all of it."""

    checkpoint: str
    sample: float | None


def scrub_due(known: Mapping[str, Scrub], now: float, every_s: float) -> bool:
    """Whether a round of checks is due for a job: none was made within `every_s` seconds."""
    return every_s > 0 and all(now - scrub.at >= every_s for scrub in known.values())


def first_whole(saves: Sequence[SaveView], known: Mapping[str, Scrub]) -> list[Check]:
    """Candidates for a full check, newest first, to be gone through until one is whole or was verified before."""
    checks: list[Check] = []
    for save in saves:
        scrub = known.get(save.checkpoint)
        if save.orphan or not save.usable or (scrub is not None and not scrub.whole):
            continue  # never chosen, or known to be bad
        if save.verified:
            break
        checks.append(Check(save.checkpoint, None))
    return checks


def samples(saves: Sequence[SaveView], known: Mapping[str, Scrub]) -> list[Check]:
    """Verified checkpoints to sample: media decay after the first look, so those looked at longest ago come first."""

    def looked_at(save: SaveView) -> float:
        scrub = known.get(save.checkpoint)
        return float("-inf") if scrub is None else scrub.at

    whole = [
        save
        for save in saves
        if save.verified and save.usable and not save.orphan
        if save.checkpoint not in known or known[save.checkpoint].whole
    ]
    return [Check(save.checkpoint, SAMPLE) for save in sorted(whole, key=looked_at)[:SAMPLED_AT_ONCE]]


def may_scrub(state: str) -> bool:
    """Whether the checkpoints of a job in this state are worth reading: not while it is being brought back."""
    return state in SCRUBBED_STATES


def may_retain(state: str) -> bool:
    """Whether retention runs by itself: while the job is saved and nothing is under way with it.

    Not for jobs that have ended (their checkpoints are the operator's to prune), nor under a notice or a takeover.
    """
    return state in RETAINED_STATES

"""A save of a group: what comes next, from what its members' guards have answered. Pure.

hold all at one instant → all held: keep all → all saved: commit
                        → one is not: drop all; when only time was missing, again at another instant
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

PartState = Literal["asked", "held", "again", "failed", "saved", "dropped"]
StepName = Literal["wait", "keep", "drop", "again", "commit", "give_up"]
TRIES = 3
LEAD_S, LEAD_EACH_S = 1.5, 0.2  # from the calls to the instant: each starts an interpreter on its node


@dataclass(frozen=True)
class Reading:
    """How far a node's boot clock is ahead of ours: somewhere in this range, by calls that bracket it."""

    low: float
    high: float

    @property
    def offset_s(self) -> float:
        """The middle."""
        return (self.low + self.high) / 2

    @property
    def error_s(self) -> float:
        """By how much the middle may be wrong."""
        return (self.high - self.low) / 2

    def narrowed(self, sent_at: float, theirs: float, heard_at: float) -> Reading:
        """With one more call: their clock stood at `theirs` at some moment between ours."""
        low, high = max(self.low, theirs - heard_at), min(self.high, theirs - sent_at)
        # A clock that was stepped or a node that slept: only the newest reading says anything.
        return Reading(low, high) if low <= high else Reading(theirs - heard_at, theirs - sent_at)


UNREAD = Reading(float("-inf"), float("inf"))


@dataclass(frozen=True)
class Part:
    """One member as its guard has answered."""

    name: str
    state: PartState = "asked"
    reason: str = ""
    froze: tuple[float, float] | None = None  # by our clock: freeze begun, freeze done
    error_s: float = 0.0  # of our reading of its clock
    checkpoint: str | None = None


@dataclass(frozen=True)
class Step:
    """What to do next, and why not something better."""

    name: StepName
    reason: str = ""


def lead_s(members: int, tries: int) -> float:
    """How far ahead the instant is agreed: longer after each instant that came too soon."""
    return (LEAD_S + LEAD_EACH_S * members) * 2.0**tries


def after_hold(parts: Sequence[Part]) -> Step:
    """While members are frozen: one that cannot ends it for all, at once."""
    bad = [each for each in parts if each.state not in ("asked", "held")]
    if bad:
        return Step("drop", _told(bad))
    return Step("wait" if any(each.state == "asked" for each in parts) else "keep")


def after_drop(parts: Sequence[Part], tries: int) -> Step:
    """All run on: whether another instant may do better."""
    bad = [each for each in parts if each.state not in ("held", "asked", "dropped")]
    if bad and all(each.state == "again" for each in bad) and tries < TRIES:
        return Step("again", _told(bad))
    return Step("give_up", _told(bad))


def after_keep(parts: Sequence[Part]) -> Step:
    """All run on: committed only when every member's save is durable."""
    bad = [each for each in parts if each.state != "saved"]
    return Step("give_up", _told(bad)) if bad else Step("commit")


def skew(parts: Sequence[Part]) -> tuple[float, float]:
    """(first freeze begun to last freeze done, by how much that may be wrong), seconds."""
    known = [(each.froze, each.error_s) for each in parts if each.froze is not None]
    if len(known) < 2:
        return (known[0][0][1] - known[0][0][0] if known else 0.0), 0.0
    worst = sorted((error for _, error in known), reverse=True)
    return max(froze[1] for froze, _ in known) - min(froze[0] for froze, _ in known), sum(worst[:2])


def _told(parts: Sequence[Part]) -> str:
    return "; ".join(f"{each.name}: {each.reason or each.state}" for each in parts)

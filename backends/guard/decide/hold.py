"""A save at an instant that several guards agreed on: when the job is frozen, how long it may stand, and whose word counts. Pure.

    waiting → frozen → held → kept       all of the group stand still and are saved: this save counts
         └───────┴───────┴──→ dropped    too late, too long, or somebody else could not: it does not

Nobody but the one who agreed the instant lets a held job go on early; the limit lets it go on whatever happens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

HoldState = Literal["waiting", "frozen", "held", "kept", "dropped"]
LATE_S = 0.025  # frozen later than this after the instant, a job is not frozen at all
SHARE = 0.8  # of max_freeze: the watchdog lets go at all of it, and finds nothing to do
OVER: tuple[HoldState, ...] = ("kept", "dropped")


@dataclass(frozen=True)
class Hold:
    """One job's part of a group save; instants by the node's boot clock."""

    identity: str  # of the group save, made by its caller
    at: float  # the instant agreed
    limit_s: float  # longest stand-still
    state: HoldState = "waiting"
    froze: tuple[float, float] | None = None  # before and after the freeze: all stood still at the second
    reason: str = ""  # why it was dropped
    late: bool = False  # it was dropped because the instant had passed: another instant may do

    @property
    def over(self) -> bool:
        """Whether the job may run on."""
        return self.state in OVER

    def left_s(self, now: float) -> float:
        """How long the job may still stand."""
        return self.limit_s if self.froze is None else max(0.0, self.froze[0] + self.limit_s - now)


def new_hold(identity: str, at: float, hold_s: float, max_freeze_s: float) -> Hold:
    """A hold that lasts `hold_s`, or less where the job's max_freeze says so."""
    return Hold(identity, at, min(hold_s, SHARE * max_freeze_s))


def may_freeze(hold: Hold, now: float) -> Hold:
    """Called at the instant: unchanged when the job is to be frozen now, else dropped."""
    if hold.state != "waiting" or now - hold.at <= LATE_S:
        return hold
    return drop(
        hold, f"it would have been frozen {(now - hold.at) * 1000:.0f} ms after the instant", late=True
    )


def frozen(hold: Hold, began: float, ended: float) -> Hold:
    """The job stands still since `ended`; what it did until `began` is in the save for certain."""
    if hold.state != "waiting":
        return hold
    return replace(hold, state="frozen", froze=(began, ended))


def saved(hold: Hold, now: float) -> Hold:
    """Its memory and files are copied; it stands until the word comes."""
    if hold.state != "frozen":
        return hold
    return tick(replace(hold, state="held"), now)


def word(hold: Hold, *, keep: bool) -> Hold:
    """The word of the caller: only one that is saved can be kept."""
    if hold.over:
        return hold
    if keep and hold.state == "held":
        return replace(hold, state="kept")
    return drop(hold, "it was not saved yet" if keep else "the group was not saved: every job runs on")


def tick(hold: Hold, now: float) -> Hold:
    """Let go what stands for too long."""
    if hold.over or hold.froze is None or hold.left_s(now) > 0:
        return hold
    return drop(hold, f"it stood still for {hold.limit_s:g} s and nobody said to go on")


def drop(hold: Hold, reason: str, *, late: bool = False) -> Hold:
    """Over, for this reason; one that was kept stays kept."""
    return hold if hold.over else replace(hold, state="dropped", reason=reason, late=late)

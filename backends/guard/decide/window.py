"""What to do with the time between a notice and the reclaim: pure.

A final save at once is safe and gives the rest of the window away; the latest that still fits keeps nearly all of the work,
if the window is as long as was promised. Where both fit, both are taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from backends.guard.decide.model import AskOwnSave, Decision, Mind, Report, StartSave

USABLE_SHARE = 0.7  # windows are often cut short: reference figure of the contract, section 3, definition 12
SLACK_S = 0.5  # how late the guard may wake without dropping a save that was planned

Plan = Literal["now", "now_and_later", "later", "finish", "own_save", "leave", "suspended"]
_KINDS: dict[Plan, str] = {
    "now": "notice.final_save",
    "now_and_later": "notice.final_save",
    "later": "notice.final_save",
    "finish": "notice.save_under_way",
    "own_save": "notice.own_save",
    "leave": "notice.no_final_save",
    "suspended": "notice.no_final_save",
}


@dataclass(frozen=True)
class Window:
    """What was decided, and why in one sentence; `data` holds the figures in seconds, None where unknown."""

    plan: Plan
    text: str
    data: dict[str, float | str | None] = field(default_factory=dict)


def left_s(mind: Mind, now: float) -> float:
    """Seconds until the announced reclaim; 0 without a deadline or after it."""
    deadline = mind.notice.deadline_at
    return 0.0 if deadline is None else max(0.0, deadline - now)


def fits(mind: Mind, now: float) -> bool:
    """Whether a save that begins now ends in time: its measured time against 0.7 of what is left.

    Where nothing was measured, a try can only win, unless the window is over.
    """
    left = left_s(mind, now)
    return left > 0 and (mind.costs.save_s is None or mind.costs.save_s <= USABLE_SHARE * left)


def latest_start(mind: Mind) -> float | None:
    """The last instant at which a save still `fits`; None when no time of a save was measured."""
    deadline, save_s = mind.notice.deadline_at, mind.costs.save_s
    return None if deadline is None or save_s is None else deadline - save_s / USABLE_SHARE


def decide(mind: Mind, now: float) -> Window:
    """The plan for the window that a new notice opened, at boot-clock instant `now`."""
    left, save_s, latest = left_s(mind, now), mind.costs.save_s, latest_start(mind)
    since = mind.began_at if mind.durable is None else mind.durable.frozen_at
    figures: dict[str, float | str | None] = {"window_s": left, "save_s": save_s}
    if mind.saving_since is not None:
        return Window("finish", "a save is under way and is let run", figures)
    if mind.policy.paused or mind.frozen is not None or mind.behind is not None:
        return Window("suspended", "no final save: protection is suspended", figures)
    if left <= 0:
        return Window("leave", "no final save: the window is over; the last save stands", figures)
    if not fits(mind, now):
        usable = USABLE_SHARE * left
        why = f"a save takes about {save_s:.1f} s and only {usable:.1f} s of the {left:.0f} s left can be relied on"
        if mind.policy.own_save:
            return Window("own_save", f"the program is asked to save itself: {why}", figures)
        return Window("leave", f"no final save: {why}; the last save stands", figures)
    if save_s is None or latest is None:
        return Window("now", f"nothing is measured yet: one try in the {left:.0f} s that are left", figures)
    wait, at_risk = latest - now, max(0.0, now - since)
    figures["later_in_s"] = wait
    if wait >= save_s:
        text = f"a save of about {save_s:.1f} s at once, and a last one in {wait:.0f} s: both fit the {left:.0f} s left"
        return Window("now_and_later", text, figures)
    if at_risk < wait:
        text = f"one save of about {save_s:.1f} s fits; begun in {wait:.0f} s it keeps more than the {at_risk:.0f} s at risk now"
        return Window("later", text, figures)
    return Window("now", f"a final save of about {save_s:.1f} s fits the {left:.0f} s that are left", figures)


def answer(mind: Mind, now: float) -> tuple[Mind, tuple[Decision, ...]]:
    """Answer each notice once, and begin the save that was put off when its time has come.

    A withdrawn notice drops what was put off: the job is back to its interval.
    """
    notice = mind.notice
    if notice.state != "notice":
        return replace(mind, final_owed=False), ()
    if notice.serial > mind.notice_handled:
        mind = replace(mind, notice_handled=notice.serial)
        window = decide(mind, now)
        mind = replace(mind, final_owed=window.plan in ("now_and_later", "later", "finish"))
        report = Report(_KINDS[window.plan], window.text, {"plan": window.plan, **window.data})
        if window.plan in ("now", "now_and_later"):
            return mind, (report, StartSave("final"))
        return mind, (report, AskOwnSave()) if window.plan == "own_save" else (report,)
    return _put_off(mind, now)


def _put_off(mind: Mind, now: float) -> tuple[Mind, tuple[Decision, ...]]:
    """The last save of the window: at its latest start, unless it no longer fits."""
    latest = latest_start(mind)
    busy = mind.saving_since is not None or mind.frozen is not None or mind.behind is not None
    if not mind.final_owed or busy or mind.policy.paused or latest is None or now < latest:
        return mind, ()
    mind = replace(mind, final_owed=False)
    # Woken late by a moment, it is still what was planned; late by more, it would be torn.
    if not fits(mind, now - SLACK_S):
        text = f"the last save of the window no longer fits the {left_s(mind, now):.1f} s left; the one before it stands"
        return mind, (Report("notice.no_final_save", text, {"plan": "leave", "window_s": left_s(mind, now)}),)
    left = left_s(mind, now)
    text = f"the last save of the window begins, {left:.1f} s before the reclaim"
    data = {"plan": "last", "window_s": left, "save_s": mind.costs.save_s}
    return mind, (Report("notice.final_save", text, data), StartSave("final"))


def gives_way(mind: Mind, now: float) -> bool:
    """Whether an interval save that is due must not begin: it would not end before the reclaim or the last save."""
    if mind.notice.state != "notice":
        return False
    latest, save_s = latest_start(mind), mind.costs.save_s
    if mind.final_owed and latest is not None and save_s is not None and now + save_s > latest:
        return True
    return not fits(mind, now)

"""The state machine of one job: `step(mind, event, now)` gives the new mind and what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from backends.guard.decide import lease
from backends.guard.decide.interval import due_at, in_a_pause, interval, overdue, retry_delay_s
from backends.guard.decide.lineage import take_standing, take_word
from backends.guard.decide.model import (
    Asked,
    Decision,
    Freeze,
    Gone,
    JobEvent,
    LeaseBegun,
    LeaseKept,
    Mind,
    NoticeIs,
    PolicyIs,
    Recovered,
    Rehearsed,
    Report,
    SaveDone,
    SaveFailed,
    SaveReason,
    Standing,
    StartSave,
    Stopped,
    Tick,
    Word,
)
from backends.guard.decide.window import answer, gives_way

Step = tuple[Mind, tuple[Decision, ...]]
SILENT_AFTER_S = 60.0
# An upload under way when the process ends still counts.
AFTER_THE_END = (LeaseBegun, LeaseKept, NoticeIs, PolicyIs, Recovered, Rehearsed, SaveDone, SaveFailed)
ENDED = ("stopped", "finished", "failed", "ended_unknown")


def step(mind: Mind, event: JobEvent, now: float) -> Step:
    """Take in one event at boot-clock instant `now`; return the new mind and the decisions in order."""
    if mind.phase in ENDED and not isinstance(event, AFTER_THE_END):
        return mind, ()
    take = cast("Callable[[Mind, Any, float], Step]", _TAKE[type(event)])
    mind, first = take(mind, event, now)
    mind, then = _act(mind, now)
    return mind, first + then


def _act(mind: Mind, now: float) -> Step:
    """What time and state ask for, after any event."""
    if mind.phase != "running":
        return mind, ()
    decisions: list[Decision] = []
    silent = now - mind.contact_at
    ends = lease.ends_at(mind)
    if ends is not None and mind.frozen is None and now > ends:
        mind = replace(mind, frozen="isolated")
        held = mind.policy.lease_s if mind.lease is None else mind.lease.lease_s
        what = "contact with the store" if mind.lease is None else "renewal of its lease in the store"
        text = f"no {what} for {now - ends + held:.0f} s, the lease is {held:.0f} s: frozen"
        decisions += [Freeze("isolated"), Report("job.isolated", text, {"silent_s": silent})]
    mind, silence = _silence(mind, silent)
    mind, told = answer(mind, now)
    if any(isinstance(decision, StartSave) for decision in told):
        mind = _begin(mind, now)
    decisions += silence
    mind, chosen = _interval(mind)
    decisions += chosen
    decisions += told
    late = overdue(mind, now) and not mind.policy.paused and mind.frozen is None
    if late and not mind.overdue_told:
        late_s = now - due_at(mind)
        decisions.append(Report("save.overdue", f"a save is late by {late_s:.0f} s", {"late_s": late_s}))
    mind = replace(mind, overdue_told=late)
    if not any(isinstance(decision, StartSave) for decision in decisions):
        reason = _due(mind, now)
        if reason is not None:
            mind = _begin(mind, now)
            decisions.append(StartSave(reason))
    return mind, tuple(decisions)


def _silence(mind: Mind, silent_s: float) -> Step:
    """Say once that the store is silent, and once that it answers again."""
    silent = silent_s > SILENT_AFTER_S
    if silent == mind.silence_told:
        return mind, ()
    mind = replace(mind, silence_told=silent)
    if silent:
        text = f"the store has not answered for {silent_s:.0f} s; the job runs on"
        return mind, (Report("store.silent", text, {"silent_s": silent_s}),)
    return mind, (Report("store.answers", "the store answers again"),)


def _interval(mind: Mind) -> Step:
    """Say which interval `auto` has chosen, and why, when it changes by more than a twentieth."""
    chosen = interval(mind.policy, mind.costs)
    told = mind.interval_told_s
    if mind.policy.interval_s is not None or (told is not None and abs(chosen.seconds - told) <= told / 20):
        return mind, ()
    mind = replace(mind, interval_told_s=chosen.seconds)
    text = f"saves every {chosen.seconds:.0f} s ({chosen.reason})"
    return mind, (Report("interval.chosen", text, {"interval_s": chosen.seconds}),)


def _may_save(mind: Mind) -> bool:
    return mind.saving_since is None and mind.frozen is None and mind.behind is None


def _begin(mind: Mind, now: float) -> Mind:
    return replace(mind, saving_since=now, asked=False)


def _due(mind: Mind, now: float) -> SaveReason | None:
    if not _may_save(mind):
        return None
    if mind.asked:
        return "asked"
    if mind.policy.paused or mind.trial_refused or (mind.retry_at is not None and now < mind.retry_at):
        return None
    if now < due_at(mind):
        return None
    if gives_way(mind, now) or in_a_pause(mind, now):
        return None
    if mind.durable is None:
        return "trial" if mind.restored_from is None else "first"
    return "interval"


def _tick(mind: Mind, event: Tick, now: float) -> Step:
    return mind, ()


def _asked(mind: Mind, event: Asked, now: float) -> Step:
    return replace(mind, asked=True, trial_refused=False), ()


def _save_done(mind: Mind, event: SaveDone, now: float) -> Step:
    durable = event.durable
    costs = replace(
        mind.costs,
        freeze_s=durable.freeze_s,
        upload_s=durable.upload_s,
        save_s=event.save_s,
        size_bytes=durable.size_bytes,
    )
    mind = replace(
        mind, durable=durable, costs=costs, saving_since=None, failures=0, retry_at=None, trial_refused=False
    )
    data = {
        "checkpoint": durable.checkpoint,
        "freeze_s": durable.freeze_s,
        "size_bytes": durable.size_bytes,
        "upload_s": durable.upload_s,
    }
    text = f"checkpoint {durable.checkpoint} is saved; the job stood still for {durable.freeze_s:.2f} s"
    return mind, (Report("save.committed", text, data),)


def _recovered(mind: Mind, event: Recovered, now: float) -> Step:
    mind = replace(mind, saving_since=None)
    if event.durable is None:
        return mind, ()
    text = f"checkpoint {event.durable.checkpoint} counts: it was whole when the guard was restarted"
    return replace(mind, durable=event.durable), (Report("save.recovered", text),)


def _save_failed(mind: Mind, event: SaveFailed, now: float) -> Step:
    trial = event.engine and mind.durable is None and mind.restored_from is None
    retry_at = now + retry_delay_s(mind)
    mind = replace(
        mind, saving_since=None, failures=mind.failures + 1, retry_at=retry_at, trial_refused=trial
    )
    text = (
        f"a save was not reported: {event.reason}"
        if event.behind
        else f"a save failed: {event.reason}; the job runs on"
    )
    if mind.durable is not None and not event.behind:
        text += f" and checkpoint {mind.durable.checkpoint} stands"
    return mind, (Report("save.failed", text, {"reason": event.reason, "failures": mind.failures}),)


def _gone(mind: Mind, event: Gone, now: float) -> Step:
    phase, text = _ending(mind, event)
    reclaimed = phase == "ended_unknown" and (event.shutdown or mind.notice.state == "notice")
    mind = replace(
        mind, phase=phase, frozen=None, asked=False, reclaimed=reclaimed
    )  # an upload under way may still end well
    return mind, (Report(f"job.{phase}", text, {"exit_code": event.exit_code, "reclaimed": reclaimed}),)


def _ending(mind: Mind, event: Gone) -> tuple[Any, str]:
    if event.done and event.ruled:
        return "finished", "the job is finished"
    if mind.notice.state == "notice":
        return "ended_unknown", "the process ended after a notice: counts as reclaimed, not as finished"
    if event.shutdown:
        return "ended_unknown", "the process ended while the node was going down: counts as reclaimed"
    if event.done:
        return "finished", "the job is finished"
    if event.exit_code is None:
        return "ended_unknown", "the process is gone, without a notice and without its done rule"
    return "failed", f"the process ended with status {event.exit_code}"


def _notice_is(mind: Mind, event: NoticeIs, now: float) -> Step:
    return replace(mind, notice=event.notice), ()


def _policy_is(mind: Mind, event: PolicyIs, now: float) -> Step:
    return replace(mind, policy=event.policy), ()


def _rehearsed(mind: Mind, event: Rehearsed, now: float) -> Step:
    return replace(mind, rehearsed=True), ()


def _stopped(mind: Mind, event: Stopped, now: float) -> Step:
    mind = replace(mind, phase="stopped", frozen=None, asked=False)
    return mind, (Report("job.stopped", "the process was ended on request"),)


_TAKE: dict[type, object] = {
    Tick: _tick,
    Asked: _asked,
    SaveDone: _save_done,
    SaveFailed: _save_failed,
    Recovered: _recovered,
    Standing: take_standing,
    LeaseBegun: lease.take_begun,
    LeaseKept: lease.take_kept,
    Gone: _gone,
    NoticeIs: _notice_is,
    PolicyIs: _policy_is,
    Word: take_word,
    Rehearsed: _rehearsed,
    Stopped: _stopped,
}

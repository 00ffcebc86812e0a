"""What newer epochs mean for a running job: freeze as a zombie, go on, or raise an alarm."""

from __future__ import annotations

from dataclasses import replace

from backends.guard.decide.lease import ends_at
from backends.guard.decide.model import Decision, Freeze, Mind, Report, Standing, Thaw, Word

STORM_COUNT = 3  # more zombie freezes than this within STORM_S suspend takeovers fleet-wide
STORM_S = 600.0


def take_standing(mind: Mind, event: Standing, now: float) -> tuple[Mind, tuple[Decision, ...]]:
    """Take in what the store's lineage says (architecture, decision 2).

    A newer valid epoch that is not ours freezes the job; one that names this guard and its own last commit lets it
    go on under that epoch; claims that do not verify raise an event and freeze nothing.
    """
    decisions: list[Decision] = []
    for epoch, why in event.invalid:
        if epoch not in mind.invalid_told:
            mind = replace(mind, invalid_told=(*mind.invalid_told, epoch))
            text = f"the claim of epoch {epoch} does not verify ({why}); it is ignored"
            decisions.append(Report("lineage.invalid_claim", text, {"epoch": epoch}))
    mind = replace(mind, contact_at=max(mind.contact_at, event.asked_at))
    if event.newest > mind.epoch and event.returned:
        return _go_on(mind, event.newest, decisions)
    if event.newest > max(mind.epoch, mind.excused):
        return _fall_behind(mind, event.newest, now, decisions)
    ends = ends_at(
        mind
    )  # a lapsed lease is renewed first: a claim made meanwhile is seen by a look after that
    if mind.frozen == "isolated" and (ends is None or (now <= ends and _after_renewal(mind, event))):
        mind = replace(mind, frozen=None)
        decisions += [
            Thaw("the store answers again"),
            Report("job.contact", "the store answers again: thawed"),
        ]
    return mind, tuple(decisions)


def _after_renewal(mind: Mind, event: Standing) -> bool:
    return mind.lease is None or event.asked_at >= mind.lease.renewed_at


def _go_on(mind: Mind, epoch: int, decisions: list[Decision]) -> tuple[Mind, tuple[Decision, ...]]:
    text = f"epoch {epoch} names this guard and its last save: the job goes on under it"
    if mind.frozen is not None:
        decisions.append(Thaw(text))
    mind = replace(mind, epoch=epoch, frozen=None, behind=None)
    return mind, (*decisions, Report("job.continued", text, {"epoch": epoch}))


def _fall_behind(
    mind: Mind, epoch: int, now: float, decisions: list[Decision]
) -> tuple[Mind, tuple[Decision, ...]]:
    if mind.frozen == "zombie":
        return replace(mind, behind=epoch), tuple(decisions)
    recent = (*(at for at in mind.zombie_freezes if now - at <= STORM_S), now)
    mind = replace(mind, frozen="zombie", behind=epoch, zombie_freezes=recent, asked=False)
    text = f"epoch {epoch} exists and ours is {mind.epoch}: this process is a zombie and is frozen"
    decisions += [Freeze("zombie"), Report("job.zombie", text, {"epoch": mind.epoch, "newer": epoch})]
    if len(recent) > STORM_COUNT:
        text = f"{len(recent)} zombie freezes within 10 minutes: takeovers should be suspended"
        decisions.append(Report("job.zombie_storm", text, {"count": len(recent)}))
    return mind, tuple(decisions)


def take_word(mind: Mind, event: Word, now: float) -> tuple[Mind, tuple[Decision, ...]]:
    """The operator lets a frozen job run: it runs, but nothing of a zombie is saved any more."""
    if mind.frozen is None:
        return mind, ()
    lease = None if mind.lease is None or mind.behind is not None else replace(mind.lease, renewed_at=now)
    excused = max(mind.excused, mind.behind or 0)
    mind = replace(mind, frozen=None, excused=excused, contact_at=now, lease=lease)
    text = "thawed by the operator's word"
    return mind, (Thaw(text), Report("job.thawed", text, {"behind": mind.behind}))

"""Bringing a group back: every member from the same group save, under one epoch of the group; those that live are ended first.

Looked at again whenever it is asked for: what an interrupted one left is gone on with, by the store and the guards alone.
"""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass, field

from backends.errors import FencedError, IncompatibleError, NoProofError, ReprieveError
from backends.ids import new_nonce
from backends.records.group import GroupEpoch, GroupSave, Resumed
from backends.records.job import Job
from console.operations.common.candidates import find_place
from console.operations.common.runs import Notebook
from console.operations.common.witness import Evidence, gather
from console.operations.decide.group_restore import Standing, need, open_epoch, other_members, refusals
from console.operations.decide.loss import why_no_proof
from console.operations.fleet import Fleet
from console.operations.flows.group.members import members
from console.operations.flows.restore import Restored, RestoreWish, restore
from console.operations.flows.save import OnStep, stop

AGAIN = "-again"  # item name of a member that had to be brought back twice


@dataclass(frozen=True)
class GroupPlan:
    """What a restore of a group would do now."""

    group: str
    jobs: tuple[Job, ...]
    save: GroupSave
    epoch: GroupEpoch | None  # one that was begun and is gone on with; None: a new one
    standings: tuple[Standing, ...]
    skipped: tuple[str, ...] = ()  # newer group saves that cannot be used, with the reason
    refused: tuple[str, ...] = ()

    def needs(self, word: str) -> list[str]:
        """Names of the members that need `stop`, `restore` or `nothing`."""
        return [each.name for each in self.standings if need(each, self.epoch, self.save) == word]


@dataclass(frozen=True)
class GroupRestored:
    """The group as it lives now."""

    epoch: GroupEpoch
    save: GroupSave
    restored: tuple[Restored, ...]
    failed: dict[str, ReprieveError] = field(default_factory=dict)  # by job name


async def plan(fleet: Fleet, group: str, number: int | None, on_step: OnStep) -> GroupPlan:
    """Choose the group save and see what each member needs. Changes nothing.

    Raises:
        UsageError: there is no such group. IncompatibleError: no save of it can be used.
    """
    jobs = members(fleet, group)
    truth = fleet.truth(jobs[0])
    saves = await fleet.blocking(truth.group_saves, group)
    epochs = await fleet.blocking(truth.group_epochs, group)
    found = await asyncio.gather(*(gather(fleet, job) for job in jobs))
    standings = tuple(_standing(job, evidence) for job, evidence in zip(jobs, found, strict=True))
    newest = epochs[0] if epochs else None
    begun = next((each for each in saves if newest is not None and each.number == newest.save), None)
    if newest is not None and begun is not None and open_epoch(newest, begun, standings):
        if number not in (None, begun.number):
            raise IncompatibleError(
                f"group {group}: its epoch {newest.number} brings it back to save {begun.number} and is not finished",
                hint=f"finish it: reprieve jobs restore --group {group}",
            )
        return GroupPlan(group, jobs, begun, newest, standings, (), refusals(standings, newest, begun))
    wanted = [each for each in saves if number in (None, each.number)]
    skipped: list[str] = []
    for save in wanted:
        on_step(f"group {group}: verifying save {save.number}")
        why = await _unusable(fleet, jobs, save)
        if not why:
            return GroupPlan(
                group, jobs, save, None, standings, tuple(skipped), refusals(standings, None, save)
            )
        skipped.append(f"save {save.number}: {why}")
    what = "none was ever made" if not saves else "; ".join(skipped) or f"there is no save {number}"
    raise IncompatibleError(
        f"group {group} has no save that can be used: {what}",
        hint=f"reprieve jobs save --group {group} makes one; each job alone: reprieve jobs restore NAME",
    )


async def restore_group(
    fleet: Fleet, group: str, number: int | None, to: str | None, run: str, on_step: OnStep
) -> GroupRestored:
    """Bring all members back to one group save.

    Raises:
        NoProofError: of one member nothing proves that its old process is gone; nothing was touched.
        IncompatibleError: no save can be used, or one member fits nowhere; nothing was touched.
        FencedError: another controller brings the group back.
        StillRunningError: another reprieve here works on it.
    """
    with fleet.locks.only_runner(f"group.{group}", f"group {group}"):
        seen = await plan(fleet, group, number, on_step)
        for text in seen.skipped:
            on_step(f"group {group}: {text}")
        if seen.refused:
            raise NoProofError(
                f"group {group} was not restored, none of its jobs was touched: {'; '.join(seen.refused)}",
                hint="proof of death, or your word for one of them with --i-know-it-is-dead NAME",
            )
        book = Notebook(fleet, run, "group")
        epoch = seen.epoch
        if epoch is None:
            await _check_places(fleet, seen, to)
            epoch = await _take(fleet, seen, book, on_step)
        results = await asyncio.gather(
            *(
                _bring(fleet, seen, epoch, job, standing, to, run, str(place), on_step)
                for place, (job, standing) in enumerate(zip(seen.jobs, seen.standings, strict=True), 1)
            ),
            return_exceptions=True,
        )
        restored, failed = [], {}
        for job, result in zip(seen.jobs, results, strict=True):
            if isinstance(result, ReprieveError):
                failed[job.name] = result
            elif isinstance(result, BaseException):
                raise result
            else:
                restored.append(result)
        newest = (await fleet.blocking(fleet.truth(seen.jobs[0]).group_epochs, group))[0]
        if newest.number != epoch.number:
            raise FencedError(
                f"group {group}: epoch {newest.number} was begun by {newest.controller} meanwhile: not all jobs may go on from one save",
                hint=f"reprieve jobs restore --group {group} sets it right",
            )
        book.observe(
            "brought", epoch=epoch.number, restored=[each.job for each in restored], failed=sorted(failed)
        )
        text = f"group {group} goes on from save {seen.save.number}, epoch {epoch.number}: {len(restored)} of {len(seen.jobs)} jobs"
        fleet.tell(
            "group.restored", text, data={"group": group, "save": seen.save.number, "epoch": epoch.number}
        )
        return GroupRestored(epoch, seen.save, tuple(restored), failed)


async def _take(fleet: Fleet, seen: GroupPlan, book: Notebook, on_step: OnStep) -> GroupEpoch:
    nonce = new_nonce()
    book.intend("epoch", nonce=nonce, save=seen.save.number)
    resumed = tuple(Resumed(each.uid, each.epoch) for each in seen.standings)
    epoch = await fleet.blocking(
        fleet.truth(seen.jobs[0]).take_group, seen.group, seen.save.number, resumed, nonce
    )
    if epoch is None:
        raise FencedError(f"another controller brings group {seen.group} back: nothing was touched here")
    book.observe("epoch", number=epoch.number)
    on_step(f"group {seen.group}: epoch {epoch.number} goes on from save {seen.save.number}")
    return epoch


async def _bring(
    fleet: Fleet, seen: GroupPlan, epoch: GroupEpoch, job: Job, standing: Standing, to: str | None, run: str,
    item: str, on_step: OnStep,
) -> Restored:  # fmt: skip
    """One member: ended if it lives, then restored from its checkpoint of the group save."""
    what = need(standing, epoch, seen.save)
    checkpoint = seen.save.checkpoint_of(job.uid)
    if what == "nothing":
        return Restored(
            "already_restored", job.name, job.uid, job.node, standing.running_epoch, None, checkpoint,
            None, None, None,
        )  # fmt: skip

    def told(text: str) -> None:
        on_step(f"{job.name}: {text}")

    if what == "stop":
        told("it lives, and is ended to go back with its group")
        await stop(fleet, job, run, item, told, final_save=False)
    wish = RestoreWish(job, to=to, checkpoint=checkpoint)
    result = await restore(fleet, wish, run, item, told)
    if result.checkpoint != checkpoint:  # a restore of it alone was under way, and was finished first
        told(f"it came back from {result.checkpoint}, and goes back to {checkpoint} with its group")
        await stop(fleet, job, run, item + AGAIN, told, final_save=False)
        result = await restore(fleet, wish, run, item + AGAIN, told)
    return result


def _standing(job: Job, evidence: Evidence) -> Standing:
    running = evidence.running
    highest = evidence.lineage.highest
    lives = evidence.guard.word == "running"
    node = running.target if running is not None else None
    return Standing(
        job.uid,
        job.name,
        0 if highest is None else highest.epoch,
        0 if running is None else running.epoch,
        None if running is None else running.checkpoint,
        lives,
        evidence.proof is not None or evidence.to_be_asked or running is None,
        why_no_proof(job.name, node, evidence.verdict, evidence.guard, evidence.lease),
    )


async def _unusable(fleet: Fleet, jobs: tuple[Job, ...], save: GroupSave) -> str:
    """Why a group save cannot be used now; empty: it can."""
    other = other_members(save, [(job.uid, job.name) for job in jobs])
    if other:
        return other
    for job in jobs:
        wanted = save.checkpoint_of(job.uid)
        choice = await fleet.blocking(fleet.truth(job).choose, job.uid, fleet.job_key(job.uid), wanted)
        if choice.chosen is None or choice.chosen.checkpoint != wanted:
            why = dict(choice.skipped).get(wanted or "") or choice.reason or "it is not on the job's chain"
            return f"{job.name} {wanted}: {why}"
    return ""


async def _check_places(fleet: Fleet, seen: GroupPlan, to: str | None) -> None:
    """IncompatibleError when one member fits nowhere: looked at before any other is ended."""
    for job in seen.jobs:
        checkpoint = seen.save.checkpoint_of(job.uid)
        if checkpoint is None:
            continue
        save = await fleet.blocking(fleet.truth(job).look, job.uid, checkpoint, fleet.job_key(job.uid))
        found = await find_place(fleet, job, save.fingerprint, to=to, exclude={}, force={})
        if found.node is None:
            raise IncompatibleError(
                f"group {seen.group} was not restored, none of its jobs was touched: no node can take {job.name}: {found.explain()}",
                hint="add a node, or choose one with --to",
            )


def document(result: GroupRestored) -> list[dict[str, object]]:
    """One row a member, for programs."""
    rows: list[dict[str, object]] = [
        {**dataclasses.asdict(each), "notes": list(each.notes)} for each in result.restored
    ]
    return rows + [
        {"state": "failed", "job": name, "reason": error.message} for name, error in result.failed.items()
    ]

"""Actions on a job's record and protection: set, pause, resume, unprotect, remove, thaw."""

from __future__ import annotations

import dataclasses
from typing import Any

from backends.clean import clean
from backends.errors import NotFoundError, ReprieveError, UnreachableError, UsageError
from backends.ledger.records import JobCurrent
from backends.records import strict
from backends.records.job import CONTROLLER_ONLY, Job
from backends.records.status import JobStatus
from console.operations.actions.outcome import Arguments, OnStep, Outcome
from console.operations.actions.typed import changed, changes_of
from console.operations.common.locate import check_protected, home, remember
from console.operations.fleet import Fleet


async def _tell_guard(fleet: Fleet, job: Job, verb: str, document: dict[str, Any]) -> JobStatus | None:
    node = await home(fleet, job)
    answer = await fleet.ask(node, verb, {"job": job.name, **document})
    if "job" not in answer:
        return None
    status = strict.read(JobStatus, answer["job"], what=f"answer of {node.name}", ignore_unknown=True)
    remember(fleet, node, status)
    return status


def _keep(fleet: Fleet, job: Job) -> None:
    if not fleet.records.may_write_job(job.name):
        raise UsageError(
            f"job {job.name} stands in a file of your own, which is never rewritten: edit it there"
        )
    fleet.records.put_job(job)


async def set_(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`jobs set NAME KEY=VALUE…`: the record first, then the guard that holds the job."""
    job = fleet.job(arguments["name"])
    changes = changes_of(list(arguments["changes"]))
    after = changed(job, list(arguments["changes"]))
    _keep(fleet, after)
    where = "in the record; its guard hears of it at the next start"
    plain = strict.to_document(after)
    told = {name: plain[name] for name in changes if name not in CONTROLLER_ONLY}
    if job.uid and not told:
        where = "in the record, for the controller"
    elif job.uid:
        await _tell_guard(fleet, job, "set", {"changes": told})
        where = "in the record and on its node"
    words = clean(", ".join(arguments["changes"]))
    return Outcome(f"{job.name}: {words}, {where}", {"schema": "reprieve/job/v1", **plain})


async def _paused(fleet: Fleet, arguments: Arguments, *, paused: bool) -> Outcome:
    job = fleet.job(arguments["name"])
    check_protected(job)
    verb = "pause" if paused else "resume"
    status = await _tell_guard(fleet, job, verb, {})
    if fleet.records.may_write_job(job.name):
        fleet.records.put_job(dataclasses.replace(job, paused=paused))
    word = "paused: no saves and no restore" if paused else "protected again"
    fleet.tell(f"job.{verb}d", f"protection of {job.name} is {word}", job=job.name)
    document = {"schema": "reprieve/job-state/v1", "job": job.name, "state": status.state if status else None}
    return Outcome(f"{job.name} is {word}", document)


async def pause(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`jobs pause NAME`."""
    return await _paused(fleet, arguments, paused=True)


async def resume(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`jobs resume NAME`."""
    return await _paused(fleet, arguments, paused=False)


async def unprotect(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`jobs unprotect NAME`: its guard forgets it; process and checkpoints stay."""
    job = fleet.job(arguments["name"])
    check_protected(job)
    try:
        await _tell_guard(fleet, job, "forget", {})
    except NotFoundError:
        on_step("its guard does not know it any more")
    known = fleet.ledger.jobs().get(job.uid)
    current = known or JobCurrent(job.name, job.uid, job.node, None, "unprotected")
    fleet.ledger.put_job(dataclasses.replace(current, state="unprotected", reason=""))
    fleet.tell("job.unprotected", f"{job.name} is no longer under guard", job=job.name)
    document = {"schema": "reprieve/job-state/v1", "job": job.name, "state": "unprotected"}
    return Outcome(
        f"{job.name} is no longer under guard; its process runs on, its checkpoints stay", document
    )


async def remove(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`jobs remove NAME`: a tombstone in the store, the record dropped; process and checkpoints are not touched."""
    job = fleet.job(arguments["name"])
    if not fleet.records.may_write_job(job.name):
        raise UsageError(
            f"job {job.name} stands in a file of your own, which is never rewritten: remove it there"
        )
    if job.uid:
        try:
            await _tell_guard(fleet, job, "forget", {})
        except UnreachableError as error:
            on_step(f"its guard was not told: {error.message}")
        except ReprieveError as error:
            on_step(error.message)
        await fleet.blocking(fleet.truth(job).remove, job.uid, job.name)
        fleet.ledger.forget_job(job.uid)
    fleet.records.remove_job(job.name)
    fleet.tell("job.removed", f"the record of {job.name} was removed", job=job.name)
    return Outcome(
        f"{job.name} is forgotten; its checkpoints stay",
        {"schema": "reprieve/job-state/v1", "job": job.name, "state": "removed"},
    )


async def thaw(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`jobs thaw NAME`: the operator's word that a frozen older incarnation shall run on its node."""
    job = fleet.job(arguments["name"])
    node = fleet.node(arguments["node"]) if arguments.get("node") else await home(fleet, job)
    await fleet.ask(node, "thaw", {"job": job.name, "word": job.name})
    return Outcome(
        f"{job.name} runs on {node.name}",
        {"schema": "reprieve/job-state/v1", "job": job.name, "state": "thawed"},
    )

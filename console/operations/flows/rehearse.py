"""Checks by another party than the node: reading a checkpoint back, and running it on another host for a moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backends.errors import DamagedError, EngineError, IncompatibleError, UsageError
from backends.records.job import Job
from console.operations.common.candidates import find_place
from console.operations.common.grants import grant, job_document
from console.operations.common.locate import check_protected, running_epoch
from console.operations.common.runs import Notebook
from console.operations.common.waiting import until_done
from console.operations.fleet import Fleet
from console.operations.flows.choosing import tell_fallback
from console.operations.flows.upkeep import check_one
from console.operations.truth import SaveView


async def rehearse(
    fleet: Fleet, job: Job, to: str | None, run: str, item: str, on_step: Callable[[str], None]
) -> dict[str, Any]:
    """Restore the newest whole checkpoint on another node without an epoch and end it there.

    `{node, checkpoint, seconds, skipped: {newer checkpoint: why it cannot be used}}`; what is skipped is told.

    Raises:
        IncompatibleError: no other node fits, or nothing usable was saved yet.
        EngineError: the rehearsal failed there; the job itself was never touched.
    """
    check_protected(job)
    truth, key = fleet.truth(job), fleet.job_key(job.uid)
    epoch = await running_epoch(fleet, job)
    choice = await fleet.blocking(truth.choose, job.uid, key)
    if choice.chosen is None or epoch is None:
        raise IncompatibleError(f"job {job.name} has no usable checkpoint to rehearse yet")
    save = choice.chosen
    note = tell_fallback(fleet, job, choice, "rehearsal.fallback")
    if note is not None:
        on_step(note)
    exclude = {epoch.target or "": "the job runs there: a rehearsal needs another host"}
    placement = await find_place(fleet, job, save.fingerprint, to=to, exclude=exclude, force={})
    if placement.node is None:
        raise IncompatibleError(f"no other node can rehearse job {job.name}: {placement.explain()}")
    node = fleet.node(placement.node)
    book = Notebook(fleet, run, item)
    document = {
        "request": f"rehearse-{run}-{item}",
        "job": job_document(fleet, job, node),
        "grant": grant(fleet, job, 0, "", save.checkpoint),
        "checkpoint": save.checkpoint,
    }
    book.intend("rehearse", node=node.name, checkpoint=save.checkpoint)
    on_step(f"{node.name}: rehearsing {save.checkpoint} of {job.name}")
    answer = await until_done(fleet, node, "rehearse", document, on_step)
    book.observe("rehearse", state=answer.get("state"), error=answer.get("error"))
    if answer.get("state") != "rehearsed":
        raise EngineError(
            f"checkpoint {save.checkpoint} of job {job.name} did not run on {node.name}: {answer.get('error')}",
            hint="the job itself was not touched; reprieve jobs doctor says what stands in the way",
        )
    data = {"by": fleet.who, "seconds": float(answer.get("seconds") or 0.0), "how": node.name}
    await fleet.blocking(truth.mark, job.uid, save.checkpoint, "rehearsed", data)
    fleet.tell(
        "job.rehearsed",
        f"{job.name} {save.checkpoint} ran on {node.name}",
        node=node.name,
        job=job.name,
        data=data,
    )
    return {
        "node": node.name,
        "checkpoint": save.checkpoint,
        "seconds": answer.get("seconds"),
        "skipped": dict(choice.skipped),
    }


async def verify(fleet: Fleet, job: Job, checkpoint: str | None, *, sample: float | None) -> SaveView:
    """Read a checkpoint back (the newest by default), all of it or a share, and keep what was found.

    Raises:
        DamagedError: it cannot be used; the reason names the object.
        UsageError: the job has no checkpoint.
    """
    check_protected(job)
    truth, key = fleet.truth(job), fleet.job_key(job.uid)
    if checkpoint is None:
        saves = await fleet.blocking(truth.saves, job.uid, key)
        if not saves:
            raise UsageError(f"job {job.name} has no checkpoint yet")
        checkpoint = saves[0].checkpoint
    save = await check_one(fleet, job, checkpoint, sample)
    if not save.usable:
        raise DamagedError(f"checkpoint {checkpoint} of job {job.name} cannot be used: {save.reason}")
    return save

"""Saving a job now, and stopping one: asked of its guard, journalled, told to the ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backends.errors import EngineError, ReprieveError
from backends.ledger.records import JobCurrent, SaveMeasure, Word
from backends.records.job import Job
from console.operations.common.locate import home
from console.operations.common.runs import Notebook
from console.operations.common.waiting import until_done
from console.operations.fleet import Fleet

OnStep = Callable[[str], None]


async def save(
    fleet: Fleet, job: Job, run: str, item: str, on_step: OnStep, *, wait: bool = True, full: bool = False
) -> dict[str, Any]:
    """One save outside the interval: `{checkpoint, freeze_s, size_bytes, upload_s, stored_bytes, parent, node}`.

    `stored_bytes` and `parent` (the full save it refers to) are None from an older guard. `full`: it refers to none.

    Raises:
        EngineError: the save failed; the job runs on and the older save stands.
        StillRunningError: not waited for.
    """
    node = await home(fleet, job)
    book = Notebook(fleet, run, item)
    document: dict[str, Any] = {"request": f"save-{run}-{item}", "job": job.name}
    if full:
        document["full"] = True
    book.intend("save", node=node.name, request=document["request"])
    on_step(f"{node.name}: saving {job.name}")
    answer = await until_done(fleet, node, "save", document, on_step, wait=wait)
    book.observe("save", state=answer.get("state"), checkpoint=answer.get("checkpoint"))
    if answer.get("state") != "saved":
        raise EngineError(
            f"job {job.name} was not saved: {answer.get('error') or 'no reason given'}; it runs on"
        )
    result = measured(fleet, job, answer)
    more = {name: answer.get(name) for name in ("stored_bytes", "parent")}
    return {**result, **more, "node": node.name}


def measured(fleet: Fleet, job: Job, answer: dict[str, Any]) -> dict[str, Any]:
    """What a guard's `saved` says, kept in the ledger where all of it is known."""
    result = {name: answer.get(name) for name in ("checkpoint", "freeze_s", "size_bytes", "upload_s")}
    if None not in result.values():
        fleet.ledger.add_save(
            SaveMeasure(
                job.uid,
                str(result["checkpoint"]),
                fleet.clock.wall(),
                float(answer["freeze_s"]),
                float(answer["upload_s"]),
                int(answer["size_bytes"]),
            )
        )
    return result


async def stop(
    fleet: Fleet,
    job: Job,
    run: str,
    item: str,
    on_step: OnStep,
    *,
    final_save: bool = True,
    wait: bool = True,
) -> dict[str, Any]:
    """End a job's process, after a last save unless told otherwise: `{checkpoint, node, acknowledged}`.

    The guard's acknowledgement is kept in the ledger: it proves the end of this epoch later, with the node gone too.

    Raises:
        EngineError: the last save failed; the job runs on.
        StillRunningError: not waited for.
    """
    node = await home(fleet, job)
    book = Notebook(fleet, run, item)
    document = {"request": f"stop-{run}-{item}", "job": job.name, "final_save": final_save}
    book.intend("stop", node=node.name, request=document["request"], final_save=final_save)
    on_step(f"{node.name}: {'saving and ' if final_save else ''}stopping {job.name}")
    answer = await until_done(fleet, node, "stop", document, on_step, wait=wait)
    word = answer.get("acknowledged") or {}
    book.observe("stop", state=answer.get("state"), checkpoint=answer.get("checkpoint"), acknowledged=word)
    if answer.get("state") != "stopped":
        raise EngineError(
            f"job {job.name} was not stopped: {answer.get('error') or 'no reason given'}; it runs on"
        )
    if not isinstance(word.get("epoch"), int):
        raise ReprieveError(
            f"node {node.name} stopped {job.name} without naming the epoch: no proof was kept"
        )
    now = fleet.clock.wall()
    fleet.ledger.add_word(
        Word(now, f"guard {word.get('guard')}", "stopped", job.name, job.uid, word["epoch"])
    )
    fleet.ledger.put_job(
        JobCurrent(
            job.name, job.uid, node.name, word["epoch"], "stopped", answer.get("checkpoint"), None, now, now
        )
    )
    fleet.tell("job.stopped", f"{job.name} was stopped on {node.name}", node=node.name, job=job.name)
    return {"checkpoint": answer.get("checkpoint"), "node": node.name, "acknowledged": word}

"""Frozen older copies of jobs: what a node holds of them, and ending one that nobody will thaw."""

from __future__ import annotations

from typing import Any

from backends.clean import clean
from backends.errors import EngineError, NotInstalledError, ReprieveError, UsageError
from backends.records.job import Job
from backends.records.node import Node
from backends.records.status import JobStatus
from console.operations.common.runs import Notebook
from console.operations.common.waiting import until_done
from console.operations.fleet import Fleet
from console.operations.flows.wish import OnStep

FROZEN = ("zombie", "isolated")


def end_line(job: str, node: str) -> str:
    """The command that ends the older copy of `job` on `node`."""
    return f"reprieve jobs stop {job} --zombie-on {node}"


async def without_guard(fleet: Fleet, node: Node) -> tuple[str, ...]:
    """What stands still on `node` and would stand still for ever without its guard, a line each; empty when nothing does.

    A node that does not answer, with a guard or what was one, holds what nobody knows: that is a line too.
    """
    try:
        status = await fleet.status(node)
    except NotInstalledError:
        return ()
    except ReprieveError as error:
        return (f"{node.name}: whether it holds a frozen copy of a job is unknown: {error.message}",)
    return tuple(_left(node, job) for job in status.jobs if job.state in FROZEN)


def _left(node: Node, job: JobStatus) -> str:
    name = clean(job.name, limit=64)
    what = (
        f"a frozen older copy (zombie) of {name}"
        if job.state == "zombie"
        else f"{name}, frozen because it is isolated"
    )
    more = f"; end it first: {end_line(name, node.name)}" if job.state == "zombie" else ""
    return (
        f"{node.name} holds {what} (pid {job.pid}, epoch {job.epoch}): without its guard nothing keeps it from running beside "
        f"the job, and nothing ends it{more}"
    )


async def end(fleet: Fleet, job: Job, where: str, run: str, item: str, on_step: OnStep) -> dict[str, Any]:
    """End the older copy of `job` that node `where` holds: `{node, epoch, pid}`. The job itself is not touched.

    The guard looks into the store once more: a copy that a newer epoch took up again is none, and lives on.

    Raises:
        UsageError: there is no zombie of the job there.
        EngineError: its process could not be ended.
        UnreachableError: the node, or for its guard the store, does not answer.
    """
    node = fleet.node(where)
    status, held = await fleet.job_status(node, job.uid)
    if held is None or held.state != "zombie":
        state = "nothing of it is there" if held is None else f"it is {held.state} there"
        raise UsageError(
            f"node {node.name} holds no zombie of {job.name}: {state}; nothing was ended",
            hint="reprieve fleet list names the nodes that hold one",
        )
    book = Notebook(fleet, run, item)
    request = f"zombie-{run}-{item}"
    book.intend("end zombie", node=node.name, request=request, epoch=held.epoch, guard=status.guard)
    on_step(f"{node.name}: ending the older copy of {job.name}, epoch {held.epoch}")
    document = {"request": request, "job": job.name, "final_save": False, "zombie": True}
    answer = await until_done(fleet, node, "stop", document, on_step)
    book.observe("end zombie", state=answer.get("state"))
    if answer.get("state") != "stopped":
        raise EngineError(
            f"the zombie of {job.name} on {node.name} was not ended: {answer.get('error') or 'no reason given'}"
        )
    text = f"the older copy of {job.name} on {node.name} (epoch {held.epoch}) was ended"
    fleet.tell("zombie.ended", text, node=node.name, job=job.name)
    return {"node": node.name, "epoch": held.epoch, "pid": held.pid}

"""Where a job lives now: by its lineage, or by the ledger's last knowledge when the store is silent."""

from __future__ import annotations

from backends.clean import clean
from backends.errors import NotFoundError, UnreachableError, UsageError
from backends.inventory.document import nearest
from backends.ledger.records import JobCurrent
from backends.records.job import Job
from backends.records.node import Node
from backends.records.status import JobStatus
from console.operations.fleet import Fleet
from console.operations.truth import EpochView


async def running_epoch(fleet: Fleet, job: Job) -> EpochView | None:
    """The newest epoch of the job that names a guard, None before its first start."""
    lineage = await fleet.blocking(fleet.truth(job).lineage, job.uid)
    return lineage.running


async def home(fleet: Fleet, job: Job) -> Node:
    """The node that the job's newest epoch names.

    Raises:
        UsageError: the job was never protected.
        NotFoundError: that node is not in the fleet any more.
    """
    check_protected(job)
    try:
        epoch = await running_epoch(fleet, job)
        name = epoch.target if epoch is not None else job.node
    except UnreachableError:
        name = job.node
    node = fleet.records.nodes().get(name or "")
    if node is None:
        raise NotFoundError(f"job {job.name} lives on node {name}, which is not in the fleet any more")
    return node


def check_protected(job: Job) -> None:
    """UsageError when the job has no uid yet."""
    if not job.uid:
        raise UsageError(
            f"job {job.name} was never protected", hint=f"reprieve jobs protect {job.name}, or jobs run"
        )


def check_place(fleet: Fleet, to: str | None) -> None:
    """UsageError when `to` names neither a node nor a pool of the fleet; None is any."""
    nodes = fleet.records.nodes()
    pools = {node.pool for node in nodes.values() if node.pool}
    if to is not None and to not in nodes and to not in pools:
        known = sorted({*nodes, *pools})
        raise UsageError(
            f"--to {clean(to, limit=80)!r}: no node or pool of this fleet is called so{nearest(to, known)}",
            hint="see `reprieve fleet list`",
        )


def remember(fleet: Fleet, node: Node, status: JobStatus) -> None:
    """Keep a job's state as its guard just told it."""
    now = fleet.clock.wall()
    saved = status.saved
    fleet.ledger.put_job(
        JobCurrent(
            status.name,
            status.uid,
            node.name,
            status.epoch,
            status.state,
            saved.checkpoint if saved is not None else None,
            now - saved.age_s if saved is not None else None,
            now,
            now,
            status.error or "",
        )
    )

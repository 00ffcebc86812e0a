"""Listing and removing what this fleet created at a provider and nobody uses: machines, volumes, launch templates."""

from __future__ import annotations

from typing import Any

from backends.clock import parse_utc
from backends.clouds.port import Reaper
from backends.errors import ReprieveError, UsageError
from backends.records.node import Node
from console.operations.common.witness import ENDED
from console.operations.decide.reap import YOUNG_S, Judged, judge
from console.operations.fleet import Fleet
from console.operations.flows.lending import lender

STATUS_S = 5.0


async def leftovers(
    fleet: Fleet, provider: str, regions: list[str] | None = None, *, young_s: float = YOUNG_S
) -> list[Judged]:
    """Everything at `provider` that carries this fleet's mark, each with whether it may go; nothing is changed.

    Args:
        fleet: an opened fleet.
        provider: such as aws.
        regions: where to look; None: every region that a pool of the fleet, or a rental in its history, names.
        young_s: machines younger than this that are no node of the fleet are left alone.

    Raises:
        UsageError: nothing was ever rented there, or no region is known.
        CredentialsError, UnreachableError: a region could not be asked: what is there is then not known.
    """
    cloud = lender(fleet, Node("reap", "none", provider))
    if not isinstance(cloud, Reaper):
        raise UsageError(f"nothing is created at {provider} in this version, so nothing can be reaped there")
    where = regions or regions_of(fleet, provider)
    if not where:
        raise UsageError(f"no region of {provider} is known to this fleet", hint="name one with --region")
    things = [thing for region in where for thing in await fleet.blocking(cloud.owned, region)]
    nodes = {node.instance: name for name, node in fleet.records.nodes().items() if node.instance}
    live = {
        name: await living(fleet, fleet.node(name)) for name in {nodes[t.id] for t in things if t.id in nodes}
    }
    now = fleet.clock.wall()
    ages = {
        thing.id: None if thing.created_at is None else max(0.0, now - parse_utc(thing.created_at))
        for thing in things
    }
    return judge(things, nodes, live, ages, young_s=young_s)


def regions_of(fleet: Fleet, provider: str) -> list[str]:
    """Every region of `provider` that the fleet's pools or its history name."""
    pools = {node.pool for node in fleet.records.nodes().values() if node.pool} | set(fleet.records.pools())
    for _, event in fleet.ledger.events(limit=10_000, kinds=("node.rented", "capacity.short")):
        pool = event.data.get("pool")
        pools |= {pool} if isinstance(pool, str) else set()
    parts = [pool.split("/") for pool in pools]
    return sorted({each[1] for each in parts if len(each) == 4 and each[0] == provider and each[1]})


async def living(fleet: Fleet, node: Node) -> tuple[str, ...]:
    """Names of the jobs that live on `node`, by the ledger or by its own guard's word."""
    current = fleet.ledger.jobs()
    names = set()
    for job in fleet.jobs().values():
        known = current.get(job.uid)
        if (
            job.uid
            and job.node == node.name
            and (known is None or known.state not in (*ENDED, "unprotected"))
        ):
            names.add(job.name)
    try:
        status = await fleet.status(node, timeout_s=STATUS_S)
    except ReprieveError:
        return tuple(sorted(names))
    return tuple(sorted(names | {job.name for job in status.jobs if job.state not in ENDED}))


async def remove(fleet: Fleet, provider: str, judged: list[Judged]) -> list[dict[str, Any]]:
    """Remove what may go, each looked at once more; a row for each thing with what became of it."""
    cloud = lender(fleet, Node("reap", "none", provider))
    rows = []
    for each in judged:
        row = row_of(each)
        rows.append(row)
        if not each.removable or not isinstance(cloud, Reaper):
            continue
        try:
            if each.node is not None:
                jobs = await living(fleet, fleet.node(each.node))
                if jobs:
                    raise UsageError(f"jobs live there now: {', '.join(jobs)}")
            await fleet.blocking(cloud.remove, each.thing)
        except ReprieveError as error:
            row.update(state="failed", reason=error.message)
            continue
        row.update(state="removed")
        if each.node is not None:
            fleet.records.remove_node(each.node)
        text = f"{each.thing.kind} {each.thing.id} in {each.thing.region} was removed: {each.reason}"
        fleet.tell(
            "node.returned" if each.node else "fleet.reaped", text, node=each.node, data={"id": each.thing.id}
        )
    return rows


def row_of(each: Judged) -> dict[str, Any]:
    """One thing as a row of the listing."""
    thing = each.thing
    return {
        "kind": thing.kind, "id": thing.id, "region": thing.region, "pool": thing.pool or None, "node": each.node,
        "created_at": thing.created_at, "state": "removable" if each.removable else "kept", "reason": each.reason,
    }  # fmt: skip

"""Where a job could come back: every node and every pool, each with all reasons for or against."""

from __future__ import annotations

import asyncio
from typing import Any

from backends.inventory.load import load
from backends.records.job import Job
from console.operations.common.candidates import candidate
from console.operations.decide.capacity import Request
from console.operations.decide.placement import Candidate, place, why_not
from console.operations.fleet import Fleet
from console.operations.flows.capacity import request_for
from console.operations.truth import SaveView

Document = dict[str, Any]


async def places(fleet: Fleet, arguments: Document) -> Document:
    """The gate's word on every node for one checkpoint of a job; asks each node now, changes nothing.

    Args:
        fleet: an opened fleet.
        arguments: `name`, the job; `checkpoint` (None: the newest usable one).

    Returns:
        `checkpoint` (None: nothing usable), `policy`, `best` (the node that would be taken) and `items`: kind
        (`node` or `pool`), name, fits (None: a pool that would have to be launched), reasons.

    Raises:
        ReprieveError: the job is unknown, or its store does not answer.
    """
    job = fleet.job(arguments["name"])
    save = await _save(fleet, job, arguments.get("checkpoint"))
    fingerprint = save.fingerprint if save is not None else {}
    nodes = fleet.records.nodes()
    home = nodes.get(job.node)
    home_pool = None if home is None else home.pool
    found = await asyncio.gather(*(candidate(fleet, node, job, fingerprint, {}) for node in nodes.values()))
    best = place(list(found), policy=job.restore, home_pool=home_pool).node
    items = [_node(each, job, home_pool) for each in found]
    rent = "the node it runs on is not in this fleet" if home is None else request_for(fleet, job, home, 0.0)
    items += [_pool(name, found, job, rent, home_pool) for name in _pools(fleet, found)]
    return {
        "job": job.name,
        "checkpoint": None if save is None else save.checkpoint,
        "policy": job.restore,
        "best": best if save is not None else None,
        "items": items,
    }


async def _save(fleet: Fleet, job: Job, wanted: str | None) -> SaveView | None:
    if not job.uid:
        return None
    saves = await fleet.blocking(fleet.truth(job).saves, job.uid, fleet.job_key(job.uid))
    usable = (save for save in saves if save.usable and not save.orphan)
    return next((save for save in usable if wanted in (None, save.checkpoint)), None)


def _node(each: Candidate, job: Job, home_pool: str | None) -> Document:
    against = why_not(each, None, job.restore, home_pool)
    reasons = list(each.gate_reasons)
    if against is not None and against not in (reasons, ", ".join(reasons)):
        reasons.insert(0, against)
    return {
        "kind": "node",
        "name": each.name,
        "fits": against is None,
        "word": each.gate if each.state == "ok" else each.state,
        "pool": each.pool,
        "jobs": each.jobs,
        "reasons": reasons,
    }


def _pools(fleet: Fleet, found: list[Candidate]) -> list[str]:
    """Every pool that the fleet knows."""
    return list(
        dict.fromkeys([*(each.pool for each in found if each.pool), *load(fleet.context.fleet).pools])
    )


def _pool(
    name: str, found: list[Candidate], job: Job, rent: Request | str, home_pool: str | None
) -> Document:
    """`rent` is what would be asked for if the job's node were lost now, or why nothing would be."""
    here = [each for each in found if each.pool == name]
    fitting = [each.name for each in here if why_not(each, None, job.restore, home_pool) is None]
    reasons = [
        f"{len(fitting)} of its {len(here)} nodes fit: {', '.join(fitting)}"
        if fitting
        else f"none of its {len(here)} nodes fits"
    ]
    asked = isinstance(rent, Request) and rent.pool == name
    if isinstance(rent, str):
        reasons.append(f"nothing is launched there: {rent}")
    elif asked:
        reasons.append("a new machine of it is asked for when no node fits")
    else:
        reasons.append(f"no new machine of it is asked for: {rent.pool} comes first")
    return {
        "kind": "pool",
        "name": name,
        "fits": True if fitting else None if asked else False,
        "word": "ok" if fitting else "none",
        "pool": name,
        "jobs": None,
        "reasons": reasons,
    }

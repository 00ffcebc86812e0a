"""What is done with a provider that lends machines: records of how they are launched, giving back, the gate's word on a new one."""

from __future__ import annotations

import dataclasses
from typing import Any

from backends.clouds.port import Launcher, Renter
from backends.errors import ReprieveError
from backends.inventory.model import Pool
from backends.records.job import Job
from backends.records.node import Node
from console.operations.common.candidates import candidate
from console.operations.fleet import Fleet

RENTED = "rented"  # label of a machine that the fleet pays for; its value is the market


def lender(fleet: Fleet, node: Node) -> object:
    """The provider of `node`, whoever else can turn its machine off."""
    return fleet.cloud_of(dataclasses.replace(node, fence=()))


async def take_record(fleet: Fleet, node: Node) -> str:
    """Record how machines of the node's pool are launched, tried without creating one; a sentence for people, or nothing.

    Nothing of this is needed to protect a job, so no failure of it is one of the protection.
    """
    cloud = lender(fleet, node)
    if not isinstance(cloud, Launcher) or node.pool is None or node.instance is None:
        return ""
    known = fleet.records.pools().get(node.pool)
    try:
        table = await fleet.blocking(cloud.record, node)
        if known is not None and known.launch is not None and _same(table, known.launch):
            return ""
        try:
            table["tested_at"] = await fleet.blocking(cloud.test, node.pool, table)
            said = "a trial of it passed"
        except ReprieveError as error:
            said = f"not tested, so nothing is launched by it: {error.message}"
        fleet.records.put_pool(Pool(node.pool, table))
    except ReprieveError as error:
        text = f"no launch record of pool {node.pool} was taken: {error.message}"
        fleet.tell("pool.not_recorded", text, node=node.name)
        return text
    text = f"how machines of {node.pool} are launched is recorded from {node.name}; {said}"
    fleet.tell("pool.recorded", text, node=node.name, data={"pool": node.pool})
    return text


def _same(table: dict[str, Any], known: dict[str, Any]) -> bool:
    """Whether a record says what is known already, and was tested."""
    return bool(known.get("tested_at")) and table == {k: v for k, v in known.items() if k != "tested_at"}


async def refused(fleet: Fleet, job: Job, node: Node) -> str:
    """Why a new machine cannot take the job's newest checkpoint, by the gate; empty when it may, or cannot be told."""
    truth = fleet.truth(job)
    newest = await fleet.blocking(truth.newest, job.uid)
    if newest is None:
        return ""
    save = await fleet.blocking(truth.look, job.uid, newest, fleet.job_key(job.uid))
    found = await candidate(fleet, node, job, save.fingerprint, {})
    return ", ".join(found.gate_reasons) or "incompatible" if found.gate == "refuse" else ""


async def cancel(fleet: Fleet, lost: Node, pool: str, token: str) -> None:
    """Give a request up, with whatever came of it, so that nothing is paid for that nobody waits for."""
    cloud: Any = lender(fleet, lost)
    if lost.provider == "practice" or not isinstance(cloud, Renter):
        return
    try:
        await fleet.blocking(cloud.cancel, token)
    except ReprieveError as error:
        text = f"the request in {pool} could not be cancelled: {error.message}; see `reprieve fleet reap`"
        fleet.tell("capacity.not_cancelled", text)


async def give_back(fleet: Fleet, node: Node, token: str, reason: str, data: dict[str, Any]) -> None:
    """End a rented machine that nobody can use, and take it out of the records. Practice hosts stay."""
    if node.provider == "practice":
        return
    await cancel(fleet, node, node.pool or "", token)
    if node.name in fleet.records.nodes():
        fleet.records.remove_node(node.name)
    fleet.tell("node.returned", f"{node.name} is given back: {reason}", node=node.name, data=data)
    fleet.tell("capacity.ended", f"the request that {node.name} came of is over", node=node.name, data=data)

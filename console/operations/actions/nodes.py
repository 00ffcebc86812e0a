"""Actions on nodes: install the guard, cordon, uncordon, remove from the records."""

from __future__ import annotations

import asyncio
import dataclasses

from backends.errors import ReprieveError, UsageError
from console.operations.actions.outcome import Arguments, OnStep, Outcome
from console.operations.fleet import Fleet
from console.operations.flows import fencing

AT_ONCE = 8


async def install(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`fleet install [NAME…]`: the guard on nodes, all at once; a failure of one leaves the others alone."""
    names = list(arguments.get("names") or fleet.records.nodes())
    nodes = [fleet.node(name) for name in names]
    room = asyncio.Semaphore(AT_ONCE)
    rows: list[dict[str, object]] = []

    async def one(index: int) -> None:
        node = nodes[index]
        async with room:
            on_step(f"{node.name}: installing the guard")
            try:
                await fleet.install(node)
            except ReprieveError as error:
                on_step(f"{node.name}: {error.message}")
                rows.append(
                    {
                        "node": node.name,
                        "state": "failed",
                        "reason": error.message,
                        "exit_code": error.exit_code,
                    }
                )
                return
            rows.append({"node": node.name, "state": "installed", "reason": "", "exit_code": 0})
            fleet.tell("node.installed", f"the guard runs on {node.name}", node=node.name)

    await asyncio.gather(*(one(index) for index in range(len(nodes))))
    if not nodes:
        raise UsageError("the fleet has no node yet", hint="reprieve fleet add NAME --ssh USER@HOST")
    rows.sort(key=lambda row: str(row["node"]))
    bad = [row for row in rows if row["state"] == "failed"]
    code = 0 if not bad else 3 if len(bad) < len(rows) else int(str(bad[0]["exit_code"]))
    message = f"the guard runs on {len(rows) - len(bad)} of {len(rows)} nodes"
    if bad:
        message += "; " + "; ".join(f"{row['node']}: {row['reason']}" for row in bad)
    return Outcome(message, {"schema": "reprieve/installation/v1", "items": rows}, code)


async def _cordoned(fleet: Fleet, arguments: Arguments, *, cordoned: bool) -> Outcome:
    node = fleet.node(arguments["name"])
    fleet.records.put_node(dataclasses.replace(node, cordoned=cordoned))
    word = "cordoned: nothing new is placed there" if cordoned else "open to jobs again"
    fleet.tell("node.cordoned" if cordoned else "node.uncordoned", f"{node.name} is {word}", node=node.name)
    document = {"schema": "reprieve/node-state/v1", "node": node.name, "cordoned": cordoned}
    return Outcome(f"{node.name} is {word}", document)


async def cordon(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`fleet cordon NAME`."""
    return await _cordoned(fleet, arguments, cordoned=True)


async def uncordon(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`fleet uncordon NAME`."""
    return await _cordoned(fleet, arguments, cordoned=False)


async def fence(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`fleet fence NAME`: a silent machine is turned off, and its provider or fence command confirms it."""
    node = fleet.node(arguments["name"])
    said = await fencing.fence(fleet, node, on_step)
    document = {
        "schema": "reprieve/node-state/v1",
        "node": node.name,
        "state": said.state,
        "source": said.source,
        "asked_at": said.asked_at,
    }
    return Outcome(
        f"{node.name} is off ({said.source} says {said.state}): its jobs can be restored", document
    )


async def remove(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`fleet remove NAME`: refused while jobs are under guard there; the machine is not touched."""
    node = fleet.node(arguments["name"])
    ended = ("stopped", "finished", "failed", "ended_unknown", "unprotected")
    current = fleet.ledger.jobs()
    for job in fleet.jobs().values():
        known = current.get(job.uid)
        if job.uid and job.node == node.name and (known is None or known.state not in ended):
            raise UsageError(f"node {node.name} has the protected job {job.name}: move or stop it first")
    fleet.records.remove_node(node.name)
    fleet.tell("node.removed", f"{node.name} was taken out of the fleet", node=node.name)
    return Outcome(
        f"{node.name} is out of the fleet",
        {"schema": "reprieve/node-state/v1", "node": node.name, "state": "removed"},
    )

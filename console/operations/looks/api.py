"""Looking at a fleet by named words: what screens ask for beside the snapshot. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from backends.errors import UsageError
from console.operations.audit import Audit
from console.operations.fleet import Fleet
from console.operations.looks.checkpoints import checkpoints
from console.operations.looks.journal import batches, operation
from console.operations.looks.places import places

Document = dict[str, Any]
Look = Callable[[Fleet, Document], Awaitable[Document]]


async def _pools(fleet: Fleet, arguments: Document) -> Document:
    from console.operations.looks.pools import pools

    return await pools(fleet, arguments)


async def _plan(fleet: Fleet, arguments: Document) -> Document:
    """What is known of a job for the planner: values by input name, and where each came from."""
    from console.operations.looks.known import of_job

    known = await fleet.blocking(of_job, fleet.context, fleet.clock, arguments["name"], {})
    return {"values": known.values, "sources": known.sources, "pool": known.pool}


async def _log(fleet: Fleet, arguments: Document) -> Document:
    audit = Audit(fleet.context, fleet.clock, "console")
    return {"items": await fleet.blocking(audit.tail, arguments.get("limit") or 200)}


LOOKS: dict[str, Look] = {
    "checkpoints": checkpoints,
    "places": places,
    "pools": _pools,
    "plan": _plan,
    "batches": batches,
    "operation": operation,
    "log": _log,
}


async def look(fleet: Fleet, words: str, arguments: Document) -> Document:
    """The answer to a look; UsageError for one that does not exist, ReprieveError when it cannot be answered."""
    found = LOOKS.get(words)
    if found is None:
        raise UsageError(f"{words!r} is not a look; known: {', '.join(sorted(LOOKS))}")
    return await found(fleet, arguments)

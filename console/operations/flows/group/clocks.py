"""What each node's boot clock says when ours says so much: read over a lasting channel, a few short calls each."""

from __future__ import annotations

import asyncio

from backends.records.node import Node
from console.operations.decide.groups import UNREAD, Reading
from console.operations.fleet import Fleet

GOOD_S = 0.003  # a reading that is right within this needs no more calls
CALLS = 8
AT_ONCE = 2  # more calls at a time would wait for each other here, and each reading is only as good as its call is short
CALL_S = 10.0


async def read_clocks(fleet: Fleet, nodes: list[Node]) -> dict[str, Reading]:
    """By node name.

    Raises:
        ReprieveError: a node does not answer, or its guard knows no such question: an older one.
    """
    await fleet.links.lasting()
    await asyncio.gather(*(_one(fleet, node, UNREAD) for node in nodes))  # opens the channels
    room = asyncio.Semaphore(AT_ONCE)

    async def several(node: Node) -> Reading:
        found = UNREAD
        async with room:
            for _ in range(CALLS):
                found = await _one(fleet, node, found)
                if found.error_s <= GOOD_S:
                    break
        return found

    readings = await asyncio.gather(*(several(node) for node in nodes))
    return {node.name: reading for node, reading in zip(nodes, readings, strict=True)}


async def _one(fleet: Fleet, node: Node, before: Reading) -> Reading:
    sent_at = fleet.clock.monotonic()
    answer = await fleet.ask(node, "clock", {}, timeout_s=CALL_S)
    return before.narrowed(sent_at, float(answer["boot_s"]), fleet.clock.monotonic())

"""The poller that `benchmarks.console_child` gives the console: a fleet in memory, 5 % of whose cells change each second.

Its first line is `{"rows": n}`; it is the console's own poller in all but the fleet it looks at.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import random
import sys
import time

from backends.clock import SystemClock
from console.operations.view import FleetView, NodeRow
from console.poller.child import Questions, tell

COLUMNS = 14
SHARE = 0.05  # of all cells, each second


def made(row: int) -> NodeRow:
    """One node."""
    facts = {"kernel": "6.12.9", "criu": "4.2", "gpus": "8x H100", "load": "0"}
    pool = f"aws/us-east-1/p{row % 9}.48xlarge/linux"
    address = f"ubuntu@10.0.{row % 256}.1"
    return NodeRow(
        f"node-{row:05d}", "ok", "", pool, "aws", 1.0, "none", None, (), f"g-{row}", address, facts
    )


class Memory:
    """Looks at rows in memory; as much of them is changed as the time since the last look asks for."""

    def __init__(self, rows: int) -> None:
        self._nodes = [made(row) for row in range(rows)]
        self._dice = random.Random(2)
        self._at: float | None = None

    async def view(self) -> FleetView:
        """The rows as they are now."""
        now, nodes = time.time(), self._nodes
        if self._at is not None:
            for _ in range(int(len(nodes) * COLUMNS * SHARE * min(1.0, now - self._at))):
                row = int(self._dice.random() * len(nodes))
                text = int(self._dice.random() * 10_000)
                nodes[row] = dataclasses.replace(nodes[row], address=f"ubuntu@10.0.{row % 256}.{text}")
        self._at = now
        return FleetView("bench", now, tuple(nodes), source_ages_s={"fleet": 0.0})


async def main() -> None:
    """Tell the console, until it ends."""
    rows = int(json.loads(sys.stdin.buffer.readline())["rows"])
    questions = Questions(sys.stdin.buffer, lambda: os._exit(0))
    await tell(Memory(rows), questions, sys.stdout.buffer, SystemClock())


if __name__ == "__main__":
    asyncio.run(main())

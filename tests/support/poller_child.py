"""A poller on a made-up fleet, told what to do by its first line: `python -m tests.support.poller_child`.

`{"nodes": n, "every": k, "crash": words, "hang_after": n}`: each look is another one, every k-th node's reason changes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

from backends.clock import SystemClock
from backends.errors import UnreachableError
from console.operations.view import FleetView, NodeRow
from console.poller.child import Questions, tell


class MadeUp:
    """Looks at nothing; counts its looks in every reason that changes."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._looks = 0

    async def view(self) -> FleetView:
        self._looks += 1
        if self._looks > int(self._order.get("hang_after", 1 << 30)):
            await asyncio.get_running_loop().create_future()
        if self._order.get("failing") and self._looks == 2:
            raise UnreachableError("no route", hint="look at the cable")
        every = int(self._order.get("every", 1))
        nodes = tuple(
            NodeRow(
                f"node-{n:05d}",
                "ok",
                f"look {self._looks}" if n % every == 0 else "",
                None,
                "aws",
                0.0,
                "none",
                None,
                (),
                str(os.getpid()),
                "u@h",
            )
            for n in range(int(self._order.get("nodes", 3)))
        )
        return FleetView("made up", time.time(), nodes, source_ages_s={"fleet": 0.0})


async def main() -> None:
    order = json.loads(sys.stdin.buffer.readline())
    if order.get("crash"):
        sys.exit(order["crash"])
    await tell(
        MadeUp(order), Questions(sys.stdin.buffer, lambda: os._exit(0)), sys.stdout.buffer, SystemClock()
    )


if __name__ == "__main__":
    asyncio.run(main())

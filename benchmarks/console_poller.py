"""What the console's poller costs on many SSH nodes, and how long it ever holds up the console's own loop."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from backends.clock import SystemClock
from benchmarks.ssh_nodes import context_of, nodes
from console.operations.view import FleetView
from console.tui.poll import Feed
from console.tui.polled import PolledSource

WATCH_S = 0.01
FIRST_ROUND_S = 120.0


class Idle:
    """Acts on nothing."""

    async def view(self) -> FleetView:
        """Never asked."""
        raise NotImplementedError

    async def perform(self, words: str, arguments: dict[str, Any], on_step: Any) -> str:
        """Never asked."""
        raise NotImplementedError

    async def ask(self, words: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Never asked."""
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is open."""


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _stalls(late: list[float]) -> None:
    """Notes how much later than asked for the loop comes round."""
    while True:
        begun = time.monotonic()
        await asyncio.sleep(WATCH_S)
        late.append(time.monotonic() - begun - WATCH_S)


async def _watch(folder: Path, count: int, seconds: float) -> dict[str, float]:
    source = PolledSource(context_of(folder), Idle(), SystemClock())
    feed = Feed(source, SystemClock(), lambda: None)
    running = asyncio.create_task(feed.run())

    def answered() -> int:
        return 0 if feed.view is None else sum(1 for node in feed.view.nodes if node.state == "ok")

    try:
        begun = time.monotonic()
        while answered() < count and time.monotonic() - begun < FIRST_ROUND_S:  # noqa: ASYNC110 - ten looks a second
            await asyncio.sleep(0.1)
        first_s, seen = time.monotonic() - begun, answered()
        await asyncio.sleep(5.0)
        late: list[float] = []
        watching = asyncio.create_task(_stalls(late))
        poller, own, at = cpu_s(source.pid), time.process_time(), time.monotonic()
        await asyncio.sleep(seconds)
        passed = time.monotonic() - at
        watching.cancel()
        late.sort()
        return {
            "answered": seen,
            "first_round_s": first_s,
            "poller_share_of_core": (cpu_s(source.pid) - poller) / passed,
            "console_share_of_core": (time.process_time() - own) / passed,
            "stall_p99_ms": late[int(0.99 * len(late))] * 1e3,
            "stall_worst_ms": late[-1] * 1e3,
        }
    finally:
        running.cancel()
        await source.close()


def polled(count: int, seconds: float = 20.0) -> dict[str, float]:
    """The figures of a fleet of `count` nodes."""
    with nodes(count, 0) as folder:
        return asyncio.run(_watch(folder, count, seconds))

"""News of the controller as data, and its delivery: never in the way of a restore, retried, and its failure told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

from backends.clock import Clock
from backends.errors import ReprieveError

Level = Literal["info", "news", "alert"]  # info: a step, for the log only
WAITS_S = (2.0, 15.0, 60.0)  # between tries
KEPT = 200  # news waiting for delivery; older ones are dropped and counted


@dataclass(frozen=True)
class News:
    """One thing that the controller says."""

    time: str  # RFC 3339
    level: Level
    kind: str  # node.lost, node.silent, restore.begun, restore.done, watch.alert …; `step` for a step
    text: str
    node: str | None = None
    job: str | None = None

    def document(self, fleet: str, controller: str) -> dict[str, Any]:
        """The `reprieve/news/v1` document; chat services show its `text`."""
        return {"schema": "reprieve/news/v1", **asdict(self), "fleet": fleet, "controller": controller}


class Channel(Protocol):
    """One way out."""

    name: str  # as people know it; never a secret

    async def send(self, document: dict[str, Any]) -> None:
        """Deliver once; raises ReprieveError saying why not."""
        ...


class Postman:
    """Delivers news in order on every channel, each at its own pace."""

    def __init__(
        self,
        channels: Sequence[Channel],
        fleet: str,
        controller: str,
        clock: Clock,
        complain: Callable[[str], None],
    ) -> None:
        self.channels, self.clock, self.complain = channels, clock, complain
        self._names = (fleet, controller)
        self._queues: list[asyncio.Queue[dict[str, Any]]] = [asyncio.Queue(KEPT) for _ in channels]
        self._tasks: list[asyncio.Task[None]] = []
        self._failing: set[str] = set()

    def hear(self, news: News) -> None:
        """Take one in; steps are not delivered."""
        if news.level == "info":
            return
        if not self._tasks:
            pairs = zip(self.channels, self._queues, strict=True)
            self._tasks = [asyncio.create_task(self._deliver(*pair)) for pair in pairs]
        for channel, queue in zip(self.channels, self._queues, strict=True):
            if queue.full():
                queue.get_nowait()
                self._failed(channel.name, f"more than {KEPT} news wait; the oldest was dropped")
            queue.put_nowait(news.document(*self._names))

    async def close(self, patience_s: float = 5.0) -> None:
        """Give what is waiting a moment to go out, then stop."""
        waiting = [task for task in self._tasks if not task.done()]
        if waiting:
            left = [asyncio.create_task(queue.join()) for queue in self._queues]
            await asyncio.wait(left, timeout=patience_s)
            for task in (*left, *waiting):
                task.cancel()
            await asyncio.gather(*left, *waiting, return_exceptions=True)

    async def _deliver(self, channel: Channel, queue: asyncio.Queue[dict[str, Any]]) -> None:
        while True:
            document = await queue.get()
            for wait_s in (*WAITS_S, None):
                try:
                    await channel.send(document)
                    self._failing.discard(channel.name)
                    break
                except ReprieveError as error:
                    self._failed(channel.name, error.message)
                    if wait_s is not None:
                        await self.clock.pause(wait_s)
            queue.task_done()

    def _failed(self, name: str, reason: str) -> None:
        if name not in self._failing:
            self._failing.add(name)
            self.complain(f"news are not delivered by {name}: {reason}")

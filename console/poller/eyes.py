"""Looking at a fleet without ever waiting for its slowest part: nodes answer when they do, store and facts beside."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable

from backends.clock import Clock
from console.operations.context import Context
from console.operations.fleet import Fleet
from console.operations.observe import Observer
from console.operations.polling import Poller
from console.operations.view import FleetView

EVERY_S = 2.0  # between two questions to one node
LARGE, EVERY_LARGE_S = 200, 5.0  # nodes from which they are asked less often, and how often
WAIT_S = 0.2  # for answers, before what came is told
STORE_S, FACTS_S = (
    5.0,
    1.0,
)  # between looks at the store (which itself is asked more seldom), and at one node's facts


class FleetEyes:
    """Snapshots of a context's fleet, opened at the first look."""

    def __init__(
        self,
        context: Context,
        clock: Clock,
        open_fleet: Callable[[Context, Clock], Fleet] | None = None,
    ) -> None:
        self._context = context
        self._clock = clock
        self._open_fleet = open_fleet
        self._observer: Observer | None = None
        self._beside: list[asyncio.Task[None]] = []

    async def view(self) -> FleetView:
        """What is known now; nodes whose answer is awaited are shown as they were."""
        observer = self._observer or self._opened()
        poller = observer.poller
        poller.every_s = EVERY_LARGE_S if len(poller.known) >= LARGE else EVERY_S
        return observer.build(await poller.look(WAIT_S))

    def _opened(self) -> Observer:
        if self._open_fleet is None:
            from console.operations.real.opening import open_fleet

            self._open_fleet = functools.partial(open_fleet, attend=True)
        fleet = self._open_fleet(self._context, self._clock)
        observer = self._observer = Observer(fleet, Poller(fleet, jitter=random.random))
        self._beside = [
            asyncio.create_task(self._again(observer.ask_store, STORE_S)),
            asyncio.create_task(self._again(lambda: observer.ask_facts(observer.poller.known), FACTS_S)),
        ]
        return observer

    async def _again(self, call: Callable[[], Awaitable[None]], every_s: float) -> None:
        while True:
            try:
                await call()
            except Exception as error:  # noqa: BLE001 - told like a store's own failure; the nodes are looked at on
                if self._observer is not None:
                    self._observer.store.error = f"{type(error).__name__}: {error}"
            await self._clock.pause(every_s)

    async def close(self) -> None:
        """End the calls under way."""
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        if self._observer is not None:
            await self._observer.close()
            await self._observer.fleet.close()

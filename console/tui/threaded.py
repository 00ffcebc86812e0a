"""Runs a source in a thread with an event loop of its own, so that no blocking call can freeze a key."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from console.operations.view import FleetView
from console.tui.source import FleetSource

T = TypeVar("T")


class ThreadedSource:
    """A FleetSource around another one, which is opened and used only in this source's thread."""

    def __init__(self, open_source: Callable[[], Awaitable[FleetSource]]) -> None:
        self._open_source = open_source
        self._source: FleetSource | None = None
        self._opening: asyncio.Lock | None = None
        self._looking: asyncio.Lock | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fleet-source", daemon=True)
        self._thread.start()

    async def view(self) -> FleetView:
        """The newest snapshot of the inner source."""
        return await self._there(self._view())

    async def perform(self, words: str, arguments: dict[str, Any], on_step: Callable[[str], None]) -> str:
        """Run a command in the inner source; `on_step` is called from its thread."""
        return await self._there(self._perform(words, arguments, on_step))

    async def ask(self, words: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The inner source's answer to a look."""
        return await self._there(self._ask(words, arguments))

    async def close(self) -> None:
        """Close the inner source and end the thread; at most 5 seconds are waited for."""
        try:
            async with asyncio.timeout(5):
                await self._there(self._close())
        except TimeoutError:
            pass
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _inner(self) -> FleetSource:
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._source is None:
                self._source = await self._open_source()
            return self._source

    async def _view(self) -> FleetView:
        """One look at a time: the feed and an operation's second look may ask together."""
        if self._looking is None:
            self._looking = asyncio.Lock()
        source = await self._inner()
        async with self._looking:
            return await source.view()

    async def _perform(self, words: str, arguments: dict[str, Any], on_step: Callable[[str], None]) -> str:
        return await (await self._inner()).perform(words, arguments, on_step)

    async def _ask(self, words: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return await (await self._inner()).ask(words, arguments)

    async def _close(self) -> None:
        if self._source is not None:
            await self._source.close()

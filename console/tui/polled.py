"""The console's side of the poller: starts it, reads its lines a few at a time, starts it again when it ends.

Commands and looks go to another source, in this process. The last snapshot stays when the poller dies: its ages go on,
so that what it says turns LATE and STALE by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from backends.clock import Clock
from backends.errors import DamagedError, UnreachableError
from console.operations.view import FleetView
from console.poller.process import POLLER, Child
from console.poller.wire import Listener, Told
from console.tui.source import FleetSource

FIRST_S, LAST_S = 0.5, 15.0  # before it is started again: doubled at each failure
SILENT_S = 30.0  # without a line, it is taken to hang and is ended
LINE_LIMIT = 16 << 20  # bytes of one line: rows are short, an order of all keys is the longest


class PolledSource:
    """A FleetSource, and a `console.tui.source.Following` one, around a poller and a source that acts."""

    pace_s = 0.1

    def __init__(
        self, document: dict[str, Any], acting: FleetSource, clock: Clock, argv: Sequence[str] = POLLER
    ) -> None:
        """`document` is the poller's first line. It is started here, so that it gets ready while the console does."""
        self._document = document
        self._acting = acting
        self._clock = clock
        self._argv = tuple(argv)
        self._listener = Listener()
        self._told: Told | None = None
        self._count = 0  # of what was told
        self._given = 0  # the newest that `following` gave
        self._asked = 0
        self._came = asyncio.Condition()
        self._reading: asyncio.Task[None] | None = None
        self._child = Child(self._argv, document)

    @property
    def pid(self) -> int:
        """The poller's process id."""
        return self._child.pid

    # -- what the console asks

    async def view(self) -> FleetView:
        """A snapshot whose look began after this call."""
        self._asked += 1
        number = self._asked
        self._child.say(str(number))
        return await self._wait(lambda told: told.answers >= number)

    async def following(self) -> FleetView:
        """The next snapshot that was not given yet."""
        return await self._wait(lambda _told: self._count > self._given)

    def hurry(self) -> None:
        """Look at once."""
        self._asked += 1
        self._child.say(str(self._asked))

    async def _wait(self, enough: Callable[[Told], bool]) -> FleetView:
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        begun = self._count
        async with self._came:
            await self._came.wait_for(
                lambda: (
                    self._told is not None
                    and (enough(self._told) or (self._count > begun and self._told.view is None))
                )
            )
            self._given = self._count
            told = self._told
        if told is None or told.view is None:
            failure = "" if told is None else told.failure
            raise UnreachableError(failure, hint=None if told is None else told.hint)
        return told.view

    async def perform(self, words: str, arguments: dict[str, Any], on_step: Callable[[str], None]) -> str:
        """Run a command, in this process."""
        return await self._acting.perform(words, arguments, on_step)

    async def ask(self, words: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer to a look, from this process."""
        return await self._acting.ask(words, arguments)

    async def close(self) -> None:
        """End the poller, then what acts."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        self._child.end()
        await self._acting.close()

    def abandon(self) -> None:
        """End the poller at once: the console does not start."""
        self._child.end()

    # -- the process

    async def _read(self) -> None:
        wait_s = FIRST_S
        while True:
            try:
                why = await self._follow(self._child)
                if self._told is not None and self._told.view is not None:
                    wait_s = FIRST_S
            except (OSError, DamagedError) as error:
                why = str(error)
            finally:
                words = self._child.end()
            why += f": {words}" if words else ""
            await self._take(Told(None, 0, f"the poller ended ({why}); it is started again"))
            await self._clock.pause(wait_s)
            wait_s = min(LAST_S, 2 * wait_s)
            self._listener = Listener()
            await self._start_again()
            if self._asked:  # a look that was asked of the one before
                self._child.say(str(self._asked))

    async def _start_again(self) -> None:
        while True:
            try:
                self._child = Child(self._argv, self._document)
                return
            except OSError as error:  # no memory, no process left: told, and tried again
                await self._take(Told(None, 0, f"the poller cannot be started: {error.strerror}"))
                await self._clock.pause(LAST_S)

    async def _follow(self, child: Child) -> str:
        """Take the poller's lines until it ends; returns why it did."""
        reader = asyncio.StreamReader(limit=LINE_LIMIT)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), child.out)
        try:
            while True:
                try:
                    async with asyncio.timeout(SILENT_S):
                        line = await reader.readuntil()
                except TimeoutError:
                    return f"silent for {SILENT_S:.0f} s"
                except asyncio.IncompleteReadError:
                    return await asyncio.to_thread(child.ended)
                except asyncio.LimitOverrunError:
                    return "its line is too long"
                told = self._listener.take(line)
                if told is not None:
                    await self._take(told)
                await asyncio.sleep(0)  # a turn for the keys after every line
        finally:
            transport.close()

    async def _take(self, told: Told) -> None:
        async with self._came:
            self._told = told
            self._count += 1
            self._came.notify_all()

"""The demo in the console: the story is told beside it, sentence by sentence, in the guide strip."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from backends.clock import Clock
from backends.errors import ReprieveError
from backends.practice.launch import Running
from console.operations.demo.cast import STEPS
from console.operations.demo.telling import context_of, telling

if TYPE_CHECKING:
    from console.cli.invocation import Invocation

UNHURRIED = 3 * STEPS  # with people watching, the jobs run longer
WELCOME = (
    "Welcome. This is a practice fleet on this machine; nothing here can be lost. The story tells itself: just watch, or press ? for keys.",
    "AT RISK is the work that a reclaim this second would cost each job. It grows until the next save has ended.",
)
FAREWELL = "The story is over, and its jobs are done: look around (1 to 8, ? for keys); q ends the fleet and leaves nothing behind."


class Telling:
    """The story in a thread with an event loop of its own, so that it never holds up a key."""

    def __init__(self, running: Running, clock: Clock) -> None:
        self._running, self._clock = running, clock
        self._sentences: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="demo-story", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._task = self._loop.create_task(self._tell())
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            return
        finally:
            self._sentences.put(None)
            self._loop.close()

    async def _tell(self) -> None:
        for sentence in WELCOME:
            self._sentences.put(sentence)
            await self._clock.pause(4.0)
        try:
            async with telling(
                self._running,
                self._clock,
                self._sentences.put,
                lambda _: None,
                rehearse=True,
                steps=UNHURRIED,
            ) as story:
                await story.tell()
            self._sentences.put(FAREWELL)
        except ReprieveError as error:
            self._sentences.put(f"The story stopped: {error.message}")

    async def sentences(self) -> AsyncIterator[str]:
        """Each sentence as it is said; each stays for at least three seconds."""
        while True:
            try:
                sentence = self._sentences.get_nowait()
            except queue.Empty:
                await self._clock.pause(0.2)
                continue
            if sentence is None:
                return
            yield sentence
            await self._clock.pause(3.0)

    def end(self) -> None:
        """Stop telling and wait for the thread, at most ten seconds."""
        if self._task is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(10.0)


def show(invocation: Invocation, running: Running) -> int:
    """Run the console on the practice fleet until the user leaves."""
    from console.tui.start import main

    story = Telling(running, invocation.clock)
    try:
        return main(context_of(running), invocation.clock, story.sentences())
    finally:
        story.end()

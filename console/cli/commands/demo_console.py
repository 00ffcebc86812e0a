"""The demo in the console: the story is told beside it, sentence by sentence, in the guide strip."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from backends.clock import Clock
from backends.errors import ReprieveError
from backends.practice.launch import Running
from console.operations.demo.cast import STEPS
from console.operations.demo.telling import context_of, telling
from planner.quantities import format_duration

if TYPE_CHECKING:
    from backends.ledger.records import Reclaim
    from console.cli.invocation import Invocation
    from console.operations.demo.story import Story

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
        self._story: Story | None = None
        self.document: dict[str, Any] | None = None  # of a story that was told to its end
        self.reclaims: Sequence[Reclaim] = ()
        self.fault = ""
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
                self._story = story
                try:
                    self.document = await story.tell()
                finally:
                    self.reclaims = tuple(story.reclaims())
                    self._story = None
            self._sentences.put(FAREWELL)
        except ReprieveError as error:
            self.fault = error.message
            self._sentences.put(f"The story stopped: {error.message}")

    def awaited(self) -> str:
        """What the story waits for now; empty when it waits for nothing."""
        story = self._story
        found = None if story is None else story.awaited
        return "" if found is None else found.words(self._clock.monotonic())

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


def ending(reclaims: Sequence[Reclaim], document: dict[str, Any] | None, fault: str) -> str:
    """One line on what happened: each reclaim with its costs, then the digests if both jobs ended.

    Args:
        reclaims: those whose job came back, in order.
        document: of the story told to its end, None when it was left before.
        fault: why the story stopped by itself; empty when it did not.
    """
    told = [
        f"{item.job} lost {format_duration(item.lost_work_s)} of work and was back on {item.to_node} "
        f"{_after(item.wait_s, item.restore_s)}"
        for item in reclaims
    ]
    count = f"{len(told)} reclaim{'' if len(told) == 1 else 's'}"
    line = f"{count}: {'; '.join(told)}" if told else "no job was lost and brought back"
    if fault:
        return f"Demo: {line}. It stopped: {fault}"
    if document is None:
        return f"Demo: {line}. Left before the jobs' end, so their digests were not compared."
    if document["ok"]:
        return f"Demo: {line}. Both jobs ended with the digest of an uninterrupted run."
    return f"Demo: {line}. It did not end well: see reprieve demo --headless."


def _after(wait_s: float | None, restore_s: float | None) -> str:
    """How long the way back took, the wait for a node included; unknown stays unknown."""
    if wait_s is None or restore_s is None:
        return "after an unknown time"
    return f"after {format_duration(round(wait_s + restore_s, 1))}"


def show(invocation: Invocation, running: Running) -> int:
    """Run the console on the practice fleet until the user leaves, then say what happened."""
    from console.tui.start import main

    story = Telling(running, invocation.clock)
    try:
        code = main(context_of(running), invocation.clock, story.sentences(), story.awaited)
    finally:
        story.end()
    invocation.say(ending(story.reclaims, story.document, story.fault))
    bad = story.fault or (story.document is not None and not story.document["ok"])
    return code or (1 if bad else 0)

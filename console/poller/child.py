"""The poller's process: `python -m console.poller.child`, started by the console, ended with it.

The first line on stdin is the context; further ones ask for a look at once. What changed goes to stdout in the lines
of `console.poller.wire`. The end of stdin is the end of the console, and of this process, whatever it is waiting for.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from backends.clock import Clock, SystemClock
from console.operations.context import Context
from console.operations.view import FleetView
from console.poller.wire import Teller, failed

PACE_S = 0.25  # between snapshots: four a second are told …
LARGE = 2500  # … of so many nodes; of more, fewer, as both ends look at every row of each
SLOWEST_S = 1.0
FAILING_S = 2.0  # between looks while they fail
PATHS = ("fleet", "state", "cache", "practice_socket")


class Eyes(Protocol):
    """What looks at the fleet."""

    async def view(self) -> FleetView:
        """The newest snapshot; raises ReprieveError."""
        ...


class Questions:
    """The numbers that come on stdin, read by a thread of its own; its end is the end of the process."""

    def __init__(self, stream: BinaryIO, ended: Callable[[], None]) -> None:
        self.newest = 0
        self.came = asyncio.Event()
        self._stream = stream
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, name="questions", daemon=True).start()

    def _read(self) -> None:
        for line in self._stream:
            try:
                number = int(line)
            except ValueError:
                continue
            self._loop.call_soon_threadsafe(self._take, number)
        self._ended()

    def _take(self, number: int) -> None:
        self.newest = max(self.newest, number)
        self.came.set()


async def tell(eyes: Eyes, questions: Questions, out: BinaryIO, clock: Clock) -> None:
    """Look and tell, again and again, until the console's end."""
    teller = Teller()
    while True:
        questions.came.clear()
        answers, begun = questions.newest, clock.monotonic()
        pace_s = PACE_S
        try:
            view = await eyes.view()
            lines = list(teller.lines(view, answers))
            pace_s = min(SLOWEST_S, PACE_S * max(1.0, len(view.nodes) / LARGE))
        except Exception as error:  # noqa: BLE001 - whatever the fleet does, the console is told
            lines, pace_s = [failed(error, answers)], FAILING_S
        await asyncio.to_thread(_write, out, lines)  # a console that does not read holds up nothing here
        try:
            async with asyncio.timeout(max(0.0, begun + pace_s - clock.monotonic())):
                await questions.came.wait()
        except TimeoutError:
            pass


def _write(out: BinaryIO, lines: list[bytes]) -> None:
    try:
        out.write(b"".join(lines))
        out.flush()
    except OSError:  # the console went away
        os._exit(0)


def context_document(context: Context) -> dict[str, Any]:
    """A context as the first line says it."""
    return {
        name: str(value) if isinstance(value, Path) else value for name, value in context.__dict__.items()
    }


def read_context(document: dict[str, Any]) -> Context:
    """The context that `context_document` told."""
    paths = {name: Path(document[name]) for name in PATHS if document[name] is not None}
    return Context(**{**document, **paths})


def many_files() -> None:
    """Allow as many open files as this user may have: one connection a node needs one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _run(line: bytes) -> None:
    from console.poller.eyes import FleetEyes

    many_files()
    clock = SystemClock()
    questions = Questions(sys.stdin.buffer, lambda: os._exit(0))
    await tell(FleetEyes(read_context(json.loads(line)), clock), questions, sys.stdout.buffer, clock)


if __name__ == "__main__":
    asyncio.run(_run(sys.stdin.buffer.readline()))

"""The console's side of the poller: starts it, reads its lines a few at a time, starts it again when it ends.

Commands and looks go to another source, in this process. The last snapshot stays when the poller dies: its ages go on,
so that what it says turns LATE and STALE by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from backends.clean import clean
from backends.clock import Clock
from backends.errors import DamagedError, UnreachableError
from console.operations.view import FleetView
from console.poller.wire import Listener, Told
from console.tui.source import FleetSource

ROOT = (
    Path(__file__).resolve().parents[2]
)  # where these packages are, for a child that looks nowhere else first
POLLER = (sys.executable, "-P", "-m", "console.poller.child")
FIRST_S, LAST_S = 0.5, 15.0  # before it is started again: doubled at each failure
SILENT_S = 30.0  # without a line, it is taken to hang and is ended
LINE_LIMIT = 16 << 20  # bytes of one line: rows are short, an order of all keys is the longest
WORDS = 200  # characters kept of what it wrote to stderr


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
        self._child = self._start()

    @property
    def pid(self) -> int:
        """The poller's process id."""
        return self._child.pid

    def _start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - what it writes to stderr; closed with the child
        child = subprocess.Popen(
            self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words,
            start_new_session=True, bufsize=0, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        self._say(child, json.dumps(self._document))
        return child

    @staticmethod
    def _say(child: subprocess.Popen[bytes], line: str) -> None:
        with contextlib.suppress(OSError):  # it ended: whoever reads its lines finds out
            if child.stdin is not None:
                child.stdin.write(line.encode() + b"\n")

    # -- what the console asks

    async def view(self) -> FleetView:
        """A snapshot whose look began after this call."""
        self._asked += 1
        number = self._asked
        self._say(self._child, str(number))
        return await self._wait(lambda told: told.answers >= number)

    async def following(self) -> FleetView:
        """The next snapshot that was not given yet."""
        return await self._wait(lambda _told: self._count > self._given)

    def hurry(self) -> None:
        """Look at once."""
        self._asked += 1
        self._say(self._child, str(self._asked))

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
        self._end(self._child)
        await self._acting.close()

    def abandon(self) -> None:
        """End the poller at once: the console does not start."""
        self._end(self._child)

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
                words = self._end(self._child)
            why += f": {words}" if words else ""
            await self._take(Told(None, 0, f"the poller ended ({why}); it is started again"))
            await self._clock.pause(wait_s)
            wait_s = min(LAST_S, 2 * wait_s)
            self._listener = Listener()
            self._child = self._start()
            if self._asked:  # a look that was asked of the one before
                self._say(self._child, str(self._asked))

    async def _follow(self, child: subprocess.Popen[bytes]) -> str:
        """Take the poller's lines until it ends; returns why it did."""
        reader = asyncio.StreamReader(limit=LINE_LIMIT)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), child.stdout
        )
        try:
            while True:
                try:
                    async with asyncio.timeout(SILENT_S):
                        line = await reader.readuntil()
                except TimeoutError:
                    return f"silent for {SILENT_S:.0f} s"
                except asyncio.IncompleteReadError:
                    return _end_of(await asyncio.to_thread(child.wait))
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

    def _end(self, child: subprocess.Popen[bytes]) -> str:
        """End the process, if it has not ended; its last words."""
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if self._words.closed:
            return ""
        self._words.seek(max(0, self._words.seek(0, os.SEEK_END) - 8 * WORDS))
        words = self._words.read()
        self._words.close()
        lines = words.decode("utf-8", "replace").strip().splitlines()
        return clean(lines[-1], limit=WORDS) if lines else ""


def _end_of(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"exit {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"

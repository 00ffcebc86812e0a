"""A lasting channel to a node: `reprieve-node attend` answers a line for a line, so that a look starts no process there.

For whoever asks the same nodes again and again. A node that does not attend (an older one) is asked by single commands.
"""

from __future__ import annotations

import asyncio
import contextlib

import asyncssh

from backends.errors import DamagedError
from backends.nodes.exchange import CHUNK

ATTENDED = frozenset({"status", "clock", "events", "acknowledge"})
FIRST_S = 2.0  # for the first answer: a node that has no such command may just be silent


class Attending:
    """One channel on the present connection, opened at the first question; questions go one after another."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._lock = asyncio.Lock()
        self._connection: asyncssh.SSHClientConnection | None = None
        self._process: asyncssh.SSHClientProcess[bytes] | None = None
        self._refused = False  # by this connection's node

    async def ask(
        self, connection: asyncssh.SSHClientConnection, line: bytes, *, limit: int, what: str
    ) -> bytes | None:
        """The line that answers `line`; None when the node does not attend. The caller sets the deadline.

        Raises:
            DamagedError: the answer is longer than `limit` bytes, or more than one line; names `what`.
            asyncssh.Error, OSError: the connection failed.
        """
        async with self._lock:
            if connection is not self._connection:
                self.drop()
                self._connection, self._refused = connection, False
            if self._refused:
                return None
            answered = False
            try:
                first = self._process is None
                try:
                    async with asyncio.timeout(FIRST_S if first else None):
                        answer = await self._exchange(connection, line, limit, what)
                except TimeoutError:
                    answer = None
                answered = answer is not None
                self._refused = not answered
                return answer
            finally:
                if not answered:  # an answer that comes later must not be taken for the next one's
                    self.drop()

    async def _exchange(
        self, connection: asyncssh.SSHClientConnection, line: bytes, limit: int, what: str
    ) -> bytes | None:
        process = self._process
        if process is None:
            process = self._process = await connection.create_process(
                self._command, encoding=None, request_pty=False, env=None, send_env=None, stderr=asyncssh.DEVNULL
            )  # fmt: skip
        process.stdin.write(line)
        parts: list[bytes] = []
        size = 0
        while not parts or not parts[-1].endswith(b"\n"):
            part = await process.stdout.read(CHUNK)
            if not part:
                return None
            size += len(part)
            if size > limit:
                raise DamagedError(f"{what}: more than {limit} bytes came; they are not read")
            parts.append(part)
        answer = b"".join(parts)
        if answer.count(b"\n") != 1:
            raise DamagedError(f"{what}: more than one line came")
        return answer

    def drop(self) -> None:
        """Close the channel; the next question opens another."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(OSError, asyncssh.Error):
                process.close()

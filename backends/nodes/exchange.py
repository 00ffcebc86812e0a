"""One command on one open connection: input written, output read under a cap, both streams drained."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from dataclasses import dataclass

import asyncssh

from backends.errors import DamagedError

CHUNK = 1 << 18  # bytes
ERROR_LIMIT = 64 << 10  # bytes of standard error that are kept


@dataclass(frozen=True)
class Completed:
    """What a remote command left: exit status (None: ended by a signal or without saying), output, errors."""

    status: int | None
    stdout: bytes
    stderr: bytes


def quoted(argv: tuple[str, ...]) -> str:
    """One command line from `argv`, every argument quoted on its own for a POSIX shell."""
    if not argv or any("\0" in item for item in argv):
        raise ValueError("a command needs a name and no NUL characters")
    return " ".join(shlex.quote(item) for item in argv)


async def exchange(
    connection: asyncssh.SSHClientConnection, command: str, stdin: bytes, *, limit: int, what: str
) -> Completed:
    """Run `command`, feed it `stdin`, return at most `limit` bytes of its output; the caller sets the deadline.

    Raises:
        DamagedError: the output is longer than `limit` bytes; names `what`.
        asyncssh.Error, OSError: the connection failed.
    """
    process: asyncssh.SSHClientProcess[bytes] = await connection.create_process(
        command, encoding=None, request_pty=False, env=None, send_env=None
    )
    feeding = asyncio.create_task(_feed(process.stdin, stdin))
    errors = asyncio.create_task(_drain(process.stderr))
    try:
        output = await _read(process.stdout, limit, what)
        await process.wait_closed()
        stderr = await errors
    finally:
        # Also on time-out and cancellation: the channel goes, and with it the remote command's input.
        for task in (feeding, errors):
            task.cancel()
        process.close()
        await asyncio.gather(feeding, errors, return_exceptions=True)
    return Completed(process.exit_status, output, stderr)


async def _feed(stream: asyncssh.SSHWriter[bytes], data: bytes) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):  # the command may end without reading all of it
        for start in range(0, len(data), CHUNK):
            stream.write(data[start : start + CHUNK])
            await stream.drain()
        stream.write_eof()


async def _read(stream: asyncssh.SSHReader[bytes], limit: int, what: str) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        part = await stream.read(CHUNK)
        if not part:
            return b"".join(parts)
        size += len(part)
        if size > limit:
            raise DamagedError(f"{what}: more than {limit} bytes came; they are not read")
        parts.append(part)


async def _drain(stream: asyncssh.SSHReader[bytes]) -> bytes:
    kept = bytearray()
    while True:
        part = await stream.read(CHUNK)
        if not part:
            return bytes(kept)
        kept += part[: ERROR_LIMIT - len(kept)]

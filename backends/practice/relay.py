"""One SSH port of a host on 127.0.0.1 of the machine, relayed to the host.

The port is the host's for the fleet's life. `open`: connections are passed on. `silent`: nothing is refused and
nothing answers, as in a network partition; connections that exist stay, without a byte. `closed`: refused, as after
a reclaim.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

from backends.practice import syscalls
from backends.practice.port import Streams

_CHUNK_BYTES = 256 * 1024


def bound_to_free_port() -> socket.socket:
    """A TCP socket bound to a free port of 127.0.0.1, in the calling thread's network namespace.

    Bound by number (an automatic one is given back when the socket stops listening).
    """
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("127.0.0.1", 0))
            address = probe.getsockname()
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.bind(address)
        except OSError:
            sock.close()  # somebody took it in between
            continue
        return sock


def listening(address: str, port: int) -> socket.socket:
    """A listening TCP socket in the calling thread's network namespace; port 0 takes a free one."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address, port))
    sock.listen(64)
    sock.setblocking(False)
    return sock


def readable(descriptor: int) -> Awaitable[None]:
    """Done when `descriptor` can be read; for a pidfd, when its process has ended."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def ready() -> None:
        loop.remove_reader(descriptor)
        if not done.done():
            done.set_result(None)

    loop.add_reader(descriptor, ready)
    return done


class Relay:
    """Passes connections of one port on to wherever `connect` leads."""

    def __init__(self, sock: socket.socket, connect: Callable[[], Awaitable[Streams]]) -> None:
        self._sock = sock  # bound; while it does not listen, the kernel refuses
        self._connect = connect
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        number: int = self._sock.getsockname()[1]
        return number

    def open(self) -> None:
        """Start to listen."""
        self._sock.setblocking(False)
        self._sock.listen(128)
        self._server = asyncio.create_task(self._accept())

    def set_silent(self, on: bool) -> None:
        """Swallow packets and stop the flow, or let both go on.

        Where the kernel lets nobody but root swallow packets, a new connection opens and never hears a byte.
        """
        with contextlib.suppress(PermissionError):
            syscalls.set_silent(self._sock, on)
        if on:
            self._flowing.clear()
        else:
            self._flowing.set()

    async def close(self) -> None:
        """Drop all connections and refuse new ones; the port stays taken."""
        tasks = [*self._tasks, *([self._server] if self._server else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        syscalls.set_silent(self._sock, False)
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # ends the listening; a port bound by number stays ours

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _peer = await loop.sock_accept(self._sock)
            task = asyncio.create_task(self._serve(client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader, writer = await asyncio.open_connection(sock=client)
        try:
            inner_reader, inner_writer = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        try:
            await asyncio.gather(self._pump(reader, inner_writer), self._pump(inner_reader, writer))
        except (OSError, EOFError):
            return
        finally:
            writer.transport.abort()
            inner_writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            await self._flowing.wait()
            writer.write(data)
            await writer.drain()
        await self._flowing.wait()
        with contextlib.suppress(OSError):
            writer.write_eof()

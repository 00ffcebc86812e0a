"""A kind of host made of nothing but sockets, for tests of the fleet's own rules."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field

from backends.errors import ReprieveError
from backends.practice.port import Host, HostSpec, Mode, Streams
from backends.practice.relay import bound_to_free_port, listening


@dataclass
class FakeHost:
    """Answers one banner; can be killed and cut."""

    spec: HostSpec
    metadata: socket.socket
    host_key: str = "ssh-ed25519 AAAA"
    user: str = "root"
    pid: int | None = 1
    living: bool = True
    cuts: list[bool] = field(default_factory=list)
    kills: int = 0

    def alive(self) -> bool:
        return self.living

    async def connect(self) -> Streams:
        if not self.living:
            raise ConnectionRefusedError
        here, there = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=there)
        writer.write(b"SSH-2.0-fake\r\n")
        self._peer = (reader, writer)
        return await asyncio.open_connection(sock=here)

    async def kill(self) -> None:
        self.living = False
        self.kills += 1
        self.metadata.close()

    def cut(self, on: bool) -> None:
        self.cuts.append(on)


@dataclass
class FakeKind:
    """Makes fake hosts at once, or fails when told to."""

    mode: Mode = "loopback"
    made: list[FakeHost] = field(default_factory=list)
    failure: str | None = None
    full: list[bool] = field(default_factory=list)

    def metrics_socket(self) -> socket.socket:
        return listening("127.0.0.1", 0)

    def ssh_socket(self) -> socket.socket:
        return bound_to_free_port()

    async def make(self, spec: HostSpec) -> Host:
        if self.failure is not None:
            raise ReprieveError(self.failure)
        self.made.append(FakeHost(spec, listening("127.0.0.1", 0)))
        return self.made[-1]

    def fill_store(self, on: bool) -> None:
        self.full.append(on)

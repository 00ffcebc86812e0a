"""What the fleet asks of a kind of host: real ones in namespaces, or in-process ones on loopback."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Mode = Literal["namespaces", "loopback"]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class HostSpec:
    """What makes one host: given by the fleet, never reused."""

    name: str
    number: int  # from 1; part of its address
    instance: str  # the fake cloud's id
    pool: str
    directory: Path  # its disk; removed with it


class Host(Protocol):
    """One running host."""

    spec: HostSpec
    host_key: str  # public key line
    user: str  # who may log in
    metadata: socket.socket  # listening; the host's metadata endpoint

    @property
    def pid(self) -> int | None:
        """The init's process id as the machine sees it, None when not known."""
        ...

    async def connect(self) -> Streams:
        """A connection to its SSH server; raises OSError when nothing listens."""
        ...

    def alive(self) -> bool:
        """Whether its init still runs."""
        ...

    async def kill(self) -> None:
        """End every process of the host at once (SIGKILL), wait until they are gone, remove its disk."""
        ...

    def cut(self, on: bool) -> None:
        """Cut the host off the fleet's network, or join it again."""
        ...


class HostKind(Protocol):
    """Makes hosts of one kind and knows what surrounds them."""

    mode: Mode

    def metrics_socket(self) -> socket.socket:
        """A listening socket that jobs on hosts can reach."""
        ...

    def ssh_socket(self) -> socket.socket:
        """A socket bound to a free port of 127.0.0.1 of the machine, not listening yet."""
        ...

    async def make(self, spec: HostSpec) -> Host:
        """Start a host and wait until its SSH server answers; raises ReprieveError or OSError."""
        ...

    def fill_store(self, on: bool) -> None:
        """Let writes to the store fail with ENOSPC on the hosts, or work again; raises UsageError if it can't."""
        ...

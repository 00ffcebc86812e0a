"""In-process asyncssh servers that play nodes: scripted, hanging, hostile, or running real commands."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import asyncssh

from backends.clock import SystemClock
from backends.nodes.hostkeys import key_line
from backends.nodes.ssh import LinkPool
from backends.records.node import Node

Handler = Callable[[str, bytes], Awaitable[tuple[bytes, int]]]


async def echo(command: str, stdin: bytes) -> tuple[bytes, int]:
    """Answer with the verb and the document that came."""
    return json.dumps(
        {"verb": command.rsplit(maxsplit=1)[-1], "document": json.loads(stdin or b"{}")}
    ).encode(), 0


async def hang(command: str, stdin: bytes) -> tuple[bytes, int]:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def says(answer: object, status: int = 0) -> Handler:
    """A handler that always gives `answer` (bytes as they are, else JSON)."""

    async def handler(command: str, stdin: bytes) -> tuple[bytes, int]:
        return (answer if isinstance(answer, bytes) else json.dumps(answer).encode()), status

    return handler


def real(environment: dict[str, str]) -> Handler:
    """A handler that runs the command on this machine, as sshd would with /bin/sh as login shell."""

    async def handler(command: str, stdin: bytes) -> tuple[bytes, int]:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment},
        )
        output, errors = await process.communicate(stdin)
        return output if process.returncode == 0 else output + errors, process.returncode or 0

    return handler


class _Server(asyncssh.SSHServer):
    def __init__(self, host: FakeHost) -> None:
        self._host = host

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._host.connections += 1
        self._host.open.append(conn)

    def begin_auth(self, username: str) -> bool:
        self._host.logins.append(username)
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return key_line(key) == self._host.client_line

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        self._host.forwarded.append((dest_host, dest_port))
        return self._host.forwards


@dataclass
class FakeHost:
    """One server and what happened on it."""

    name: str
    handler: Handler
    client_line: str
    forwards: bool
    key: asyncssh.SSHKey
    port: int = 0
    address: str = "127.0.0.1"
    connections: int = 0
    logins: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    environments: list[dict[str, str]] = field(default_factory=list)
    forwarded: list[tuple[str, int]] = field(default_factory=list)
    open: list[asyncssh.SSHServerConnection] = field(default_factory=list)
    acceptor: asyncssh.SSHAcceptor | None = None

    async def process(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        command = process.command or ""
        self.commands.append(command)
        self.environments.append(dict(process.env))
        stdin = await process.stdin.read()
        output, status = await self.handler(command, stdin)
        process.stdout.write(output)
        process.exit(status)

    async def listen(self) -> None:
        self.acceptor = await asyncssh.listen(
            self.address,
            self.port,
            server_factory=lambda: _Server(self),
            server_host_keys=[self.key],
            process_factory=self.process,
            encoding=None,
        )
        self.port = self.acceptor.get_port()

    async def stop(self) -> None:
        if self.acceptor is not None:
            self.acceptor.close()
            await self.acceptor.wait_closed()
            self.acceptor = None
        for connection in self.open:
            connection.abort()
        self.open.clear()

    @property
    def line(self) -> str:
        """Its public host key as a node record pins it."""
        return key_line(self.key)


class Fleet:
    """Servers and one pool of links; closes everything at the end."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.identity = directory / "id_fleet"
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(self.identity)
        self.identity.chmod(0o600)
        self.client_line = key_line(key)
        self.hosts: list[FakeHost] = []
        self.silent: list[asyncio.Server] = []
        self.known_hosts = directory / "known_hosts"
        self.config = directory / "config"
        self.pool = LinkPool(known_hosts=(self.known_hosts,), clock=SystemClock(), ssh_config=self.config)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.pool.close()
        for host in self.hosts:
            await host.stop()
        for server in self.silent:
            server.close()

    async def host(
        self,
        name: str = "n1",
        handler: Handler = echo,
        *,
        forwards: bool = False,
        address: str = "127.0.0.1",
        key: asyncssh.SSHKey | None = None,
        port: int = 0,
    ) -> FakeHost:
        """Start one server."""
        host = FakeHost(
            name,
            handler,
            self.client_line,
            forwards,
            key or asyncssh.generate_private_key("ssh-ed25519"),
            address=address,
            port=port,
        )
        await host.listen()
        self.hosts.append(host)
        return host

    async def silent_port(self) -> int:
        """A port that accepts TCP and never says a word."""

        async def quiet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(quiet, "127.0.0.1", 0)
        self.silent.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    def node(self, host: FakeHost, **changes: Any) -> Node:
        """The node record of a server, its key pinned."""
        shown = f"[{host.address}]" if ":" in host.address else host.address
        values: dict[str, Any] = {
            "name": host.name,
            "ssh": f"root@{shown}:{host.port}",
            "identity_file": str(self.identity),
            "host_key": host.line,
        }
        return Node(**{**values, **changes})

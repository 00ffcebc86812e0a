"""Hosts without root: SSH servers inside the daemon, real processes under one init each (`hostinit`).

A host is a directory with its own home, temporary directory and node root. It shares the machine's file system,
process ids and network, so it is practice in losing processes, not in isolation.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

from backends.clock import Clock
from backends.errors import UsageError
from backends.practice.hostinit import PACKET_LIMIT, descendants, kill_all
from backends.practice.port import Host, HostSpec, Mode, Streams
from backends.practice.processes import children_of
from backends.practice.relay import bound_to_free_port, listening, readable
from backends.practice.sshd import new_key

_CHUNK_BYTES = 64 * 1024
_KILL_S = 30.0


def user_name() -> str:
    """The account the daemon runs as, by name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "practice"


class Init:
    """The daemon's side of one `hostinit` process."""

    def __init__(self) -> None:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            self.process = subprocess.Popen(
                [sys.executable, "-S", "-m", "backends.practice.hostinit", str(there.fileno())],
                pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        here.setblocking(False)
        self._socket = here
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._next = 0
        asyncio.get_running_loop().add_reader(here, self._hear)

    def start(
        self, command: str, cwd: Path, environment: dict[str, str], streams: tuple[int, ...]
    ) -> asyncio.Future[int]:
        """Start a command with the three streams; the future gets its exit status (negative: the signal)."""
        self._next += 1
        request = {"id": self._next, "command": command, "cwd": str(cwd), "environment": environment}
        data = json.dumps(request).encode()
        if len(data) > PACKET_LIMIT:
            raise UsageError(f"command of {len(data)} bytes; at most {PACKET_LIMIT} are taken here")
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        socket.send_fds(self._socket, [data], list(streams))
        self._waiting[self._next] = done
        return done

    async def end(self) -> None:
        """End every process of the host and wait until they are gone."""
        with contextlib.suppress(OSError):  # it is gone already
            self._socket.send(json.dumps({"end": True}).encode())
        pidfd = os.pidfd_open(self.process.pid) if self.process.poll() is None else None
        if pidfd is not None:
            await asyncio.wait_for(readable(pidfd), _KILL_S)
            os.close(pidfd)
            self.process.wait()
        self._close()

    def _close(self) -> None:
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
        for done in self._waiting.values():
            if not done.done():
                done.set_result(-9)
        self._waiting.clear()

    def _hear(self) -> None:
        try:
            data = self._socket.recv(PACKET_LIMIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close()
            return
        message: dict[str, Any] = json.loads(data)
        if "pid" in message:
            return
        done = self._waiting.pop(message["id"], None)
        if done is not None and not done.done():
            done.set_result(int(message.get("status", 127)))


@dataclass
class LoopbackHost:
    """One running host; see `port.Host`."""

    spec: HostSpec
    host_key: str
    metadata: socket.socket
    init: Init
    options: asyncssh.SSHServerConnectionOptions
    sweep: Callable[[], None]  # ends orphans of inits that were killed from outside
    user: str = field(default_factory=user_name)
    _sessions: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def pid(self) -> int | None:
        """The init's process id."""
        return self.init.process.pid

    async def connect(self) -> Streams:
        """A connection to the SSH server inside this process."""
        if self.init.process.poll() is not None:
            raise ConnectionRefusedError(f"host {self.spec.name} has ended")
        here, there = socket.socketpair()
        task = asyncio.create_task(self._serve(there))
        self._sessions.add(task)
        task.add_done_callback(self._sessions.discard)
        return await asyncio.open_connection(sock=here)

    async def _serve(self, sock: socket.socket) -> None:
        try:
            connection = await asyncssh.run_server(sock, options=self.options)
            await connection.wait_closed()
        except (asyncssh.Error, OSError):
            return  # a client that does not log in, or left

    def alive(self) -> bool:
        """Whether its init still runs."""
        return self.init.process.poll() is None

    async def kill(self) -> None:
        """End every process below its init, drop its sessions, remove its directory."""
        await self.init.end()
        self.sweep()
        for task in self._sessions:
            task.cancel()
        self.metadata.close()
        shutil.rmtree(self.spec.directory, ignore_errors=True)

    def cut(self, on: bool) -> None:
        """Nothing beyond the SSH port can be cut here: the network is the machine's own."""


@dataclass
class Loopback:
    """Makes loopback hosts; see `port.HostKind`."""

    authorized_key: str
    clock: Clock
    mode: Mode = "loopback"
    _inits: list[Init] = field(default_factory=list)

    def metrics_socket(self) -> socket.socket:
        """Listens on a free port of 127.0.0.1."""
        return listening("127.0.0.1", 0)

    def ssh_socket(self) -> socket.socket:
        """A free port of 127.0.0.1."""
        return bound_to_free_port()

    async def make(self, spec: HostSpec) -> Host:
        """Make its directory, start its init, prepare its SSH server."""
        for name in ("home", "opt", "tmp", "keys"):
            (spec.directory / name).mkdir(parents=True, mode=0o700)
        key_file = spec.directory / "keys/ssh_host_ed25519_key"
        host_key = new_key(key_file, spec.name)
        metadata = listening("127.0.0.1", 0)
        environment = session_environment(spec.directory, metadata.getsockname()[1])
        init = Init()
        self._inits.append(init)

        async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
            await _run_command(process, init, spec.directory / "home", environment)

        options = asyncssh.SSHServerConnectionOptions(
            server_host_keys=[str(key_file)],
            authorized_client_keys=asyncssh.import_authorized_keys(self.authorized_key + "\n"),
            process_factory=serve,
            encoding=None,
            allow_pty=False,
            gss_host=None,
        )
        return LoopbackHost(spec, host_key, metadata, init, options, self._sweep)

    def _sweep(self) -> None:
        """End children of this process that are no host's init: orphans of an init that somebody killed."""
        inits = {init.process.pid for init in self._inits}
        while strays := [pid for pid in children_of(os.getpid()) if pid not in inits]:
            for pid in strays:
                kill_all([*descendants(pid), pid])
                os.waitpid(pid, 0)

    def fill_store(self, on: bool) -> None:
        """Refused: a plain directory cannot be made full without root."""
        if on:
            raise UsageError(
                "the practice store cannot be made full on a loopback fleet: that needs mounts",
                hint="run the practice fleet as root",
            )


def session_environment(directory: Path, metadata_port: int) -> dict[str, str]:
    """What commands on a loopback host find in their environment."""
    binaries = dict.fromkeys((f"{sys.prefix}/bin", f"{sys.base_prefix}/bin"))
    return {
        "PATH": ":".join([*binaries, os.environ.get("PATH", "/usr/bin:/bin")]),
        "HOME": str(directory / "home"),
        "TMPDIR": str(directory / "tmp"),
        "USER": user_name(),
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        "REPRIEVE_NODE_ROOT": str(directory / "opt"),
        "REPRIEVE_METADATA_URL": f"http://127.0.0.1:{metadata_port}",
    }


async def _run_command(
    process: asyncssh.SSHServerProcess[bytes], init: Init, cwd: Path, environment: dict[str, str]
) -> None:
    """Serve one exec request: the command's streams are pipes, its end and its streams' ends end the session."""
    pipes = [os.pipe() for _ in range(3)]
    theirs = (pipes[0][0], pipes[1][1], pipes[2][1])
    ours = [os.fdopen(pipes[0][1], "wb", 0), os.fdopen(pipes[1][0], "rb", 0), os.fdopen(pipes[2][0], "rb", 0)]
    try:
        done = init.start(process.command or "/bin/sh", cwd, environment, theirs)
    except OSError:
        process.exit(255)
        return
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    feeding = asyncio.create_task(_feed(process.stdin, ours[0]))
    try:
        await asyncio.gather(_drain(ours[1], process.stdout), _drain(ours[2], process.stderr))
        status = await done
        if status < 0:
            process.exit_with_signal({9: "KILL", 15: "TERM", 2: "INT", 1: "HUP"}.get(-status, "KILL"))
        else:
            process.exit(status)
    except (asyncssh.Error, OSError):
        return  # the client is gone; as with sshd, the command's pipes break and it goes on or not
    finally:
        feeding.cancel()
        for file in ours:
            file.close()


async def _feed(source: asyncssh.SSHReader[bytes], file: Any) -> None:
    """Carry the client's input to the command until its end."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, file)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        while True:
            try:
                data = await source.read(_CHUNK_BYTES)
            except asyncssh.SignalReceived:
                continue
            if not data:
                break
            writer.write(data)
            await writer.drain()
    except (asyncssh.Error, OSError):
        return
    finally:
        transport.close()


async def _drain(file: Any, target: asyncssh.SSHWriter[bytes]) -> None:
    """Carry one output stream of the command to the client until its end."""
    reader = asyncio.StreamReader()
    transport, _protocol = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), file
    )
    try:
        while data := await reader.read(_CHUNK_BYTES):
            target.write(data)
            await target.drain()
    finally:
        transport.close()

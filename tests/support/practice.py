"""Helpers for tests of the practice fleet: SSH with pinned keys, what is left on the machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from backends.clock import SystemClock
from backends.practice.hostinit import descendants
from backends.practice.processes import look


@dataclass(frozen=True)
class Said:
    """What a command on a host said."""

    status: int | None
    out: str
    err: str


async def connect(
    host: dict[str, Any], identity: str, *, host_key: str | None = None
) -> asyncssh.SSHClientConnection:
    """Log in to a described host; its key must be the described one."""
    known = asyncssh.import_known_hosts(f"[127.0.0.1]:{host['ssh_port']} {host_key or host['host_key']}\n")
    return await asyncssh.connect(
        "127.0.0.1",
        host["ssh_port"],
        username=host["ssh"].partition("@")[0],
        client_keys=[identity],
        known_hosts=known,
        config=None,
        agent_path=None,
        connect_timeout=15,
    )


async def ssh(
    host: dict[str, Any], identity: str, command: str, *, stdin: str | None = None, timeout_s: float = 20.0
) -> Said:
    """Run one command on a described host."""
    async with await connect(host, identity) as connection:
        done = await connection.run(command, input=stdin, timeout=timeout_s)
    return Said(done.exit_status, str(done.stdout), str(done.stderr))


def host_of(description: dict[str, Any], name: str) -> dict[str, Any]:
    """The described host of that name."""
    return next(host for host in description["hosts"] if host["name"] == name)


@dataclass(frozen=True)
class Machine:
    """What a fleet might leave in the machine's own namespaces."""

    mounts: frozenset[str]
    links: frozenset[str]

    @classmethod
    def now(cls) -> Machine:
        """As it is."""
        return cls(
            frozenset(Path("/proc/self/mounts").read_text().splitlines()),
            frozenset(path.name for path in Path("/sys/class/net").iterdir()),
        )


def processes_naming(text: str) -> list[int]:
    """Living processes with `text` in their command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if text.encode() in words:
                found.append(int(entry.name))
    return found


def namespaces_of(pids: list[int]) -> set[str]:
    """Names of the network, mount and PID namespaces these processes are in (zombies are in none)."""
    found = set()
    for pid in pids:
        process = look(pid)
        if process is None or not process.alive:
            continue
        for kind in ("net", "mnt", "pid"):
            try:
                found.add(str(Path(f"/proc/{pid}/ns/{kind}").readlink()))
            except OSError:
                continue
    return found


def hold_namespaces(pids: list[int]) -> list[int]:
    """Open descriptors of the namespaces these processes are in."""
    return [
        os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
        for pid in pids
        for kind in ("net", "mnt", "pid")
    ]


def tree_of(pid: int) -> list[int]:
    """`pid` and all processes below it."""
    return [pid, *descendants(pid)]


def wait_until(condition: Callable[[], bool], seconds: float = 15.0) -> bool:
    """Wait until `condition` holds; False when it does not within `seconds`."""
    clock = SystemClock()
    deadline = clock.monotonic() + seconds
    while not condition():
        if clock.monotonic() > deadline:
            return False
        clock.sleep(0.02)
    return True

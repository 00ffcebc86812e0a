"""The practice fleet's one process: `python -m backends.practice.daemon`, started by `launch`.

As root it is the init of its own network, PID, mount and IPC namespaces, so that its end is the end of every host.
It ends when told to, when its starter dies (the lifetime pipe closes), or by SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.clean import clean
from backends.clock import Clock, SystemClock, format_utc
from backends.errors import ReprieveError
from backends.practice import syscalls
from backends.practice.control import Control, bind_control
from backends.practice.fleet import DEFAULT_POOL, Fleet
from backends.practice.layout import Layout
from backends.practice.port import HostKind
from backends.practice.sshd import new_key


@dataclass(frozen=True)
class Options:
    """What the starter decided."""

    directory: Path
    mode: str  # namespaces | loopback
    reason: str  # why this mode
    hosts: int
    pool: str
    cache: Path
    binds: tuple[Path, ...]  # directories of the machine that hosts see, read-only
    lifetime: int | None  # descriptor whose end means that the starter is gone
    ready: int | None  # descriptor for one line: the description, or the error
    machine_network: int | None  # descriptor of the machine's network namespace


class Daemon:
    """Ties fleet, control socket and lifetime together."""

    def __init__(self, options: Options, clock: Clock) -> None:
        self.options = options
        self.clock = clock
        self.layout = Layout(options.directory)
        self.started_at = clock.wall()
        self.over = asyncio.Event()
        self.fleet: Fleet | None = None
        self.metrics_address = ""

    async def run(self) -> None:
        """Start everything, say so, and wait for the end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.over.set)
        loop.add_signal_handler(signal.SIGCHLD, self._child_ended)
        self._watch_starter()
        starting = asyncio.create_task(self._start())
        ending = asyncio.create_task(self.over.wait())
        await asyncio.wait({starting, ending}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            self._tell(self.describe())
            await ending
        else:
            starting.cancel()
        if self.options.mode == "loopback" and self.fleet is not None:
            await self.fleet.close()

    async def _start(self) -> None:
        _raise_limits()
        authorized_key = new_key(self.layout.identity, "reprieve-practice")
        kind = self._kind(authorized_key)
        fleet = Fleet(kind, self.options.directory, self.clock)
        self.fleet = fleet
        metrics = kind.metrics_socket()
        host, port = metrics.getsockname()[:2]
        self.metrics_address = f"{host}:{port}"
        await asyncio.start_server(fleet.metrics.serve, sock=metrics)
        await asyncio.gather(*(fleet.add(self.options.pool) for _ in range(self.options.hosts)))
        control = Control(fleet, self.describe, self.over.set)
        await asyncio.start_unix_server(control.serve, sock=bind_control(self.layout.control))

    def _kind(self, authorized_key: str) -> HostKind:
        if self.options.mode == "loopback":
            from backends.practice.loopback import Loopback

            syscalls.become_subreaper()  # orphans of a host whose init was killed come to us: see sweep
            return Loopback(authorized_key, self.clock)
        from backends.practice import namespaces, rootfs, sshd

        if self.options.machine_network is None:
            raise ReprieveError("the namespaces fleet needs --machine-network, the machine's own network")
        binds = rootfs.python_binds((sys.base_prefix, sys.prefix))
        kind = namespaces.Namespaces(
            directory=self.options.directory,
            store=self.layout.store,
            authorized_key=authorized_key,
            machine_network=self.options.machine_network,
            server=sshd.find_sshd(self.options.cache),
            binds=(*binds, *(rootfs.Bind(path) for path in self.options.binds)),
            clock=self.clock,
        )
        kind.open()
        return kind

    def _watch_starter(self) -> None:
        descriptor = self.options.lifetime
        if descriptor is not None:
            asyncio.get_running_loop().add_reader(descriptor, self.over.set)

    def _child_ended(self) -> None:
        """Reap; hosts that ended by themselves are recorded."""
        if self.fleet is not None:
            task = asyncio.get_running_loop().create_task(self.fleet.notice_deaths())
            task.add_done_callback(lambda _done: self._reap())

    def _reap(self) -> None:
        """As init, take every ended child: hosts' orphans come here."""
        if self.options.mode != "namespaces":
            return
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return

    def describe(self) -> dict[str, Any]:
        """The fleet as operators, tests and the fake cloud's clients see it."""
        fleet = self.fleet
        members = [] if fleet is None else sorted(fleet.members.values(), key=lambda item: item.spec.number)
        return {
            "schema": "reprieve/practice/v1",
            "mode": self.options.mode,
            "reason": self.options.reason,
            "directory": str(self.options.directory),
            "store": str(self.layout.store),
            "store_url": self.layout.store_url,
            "store_full": fleet is not None and fleet.store_full,
            "identity_file": str(self.layout.identity),
            "metrics": self.metrics_address,
            "metrics_lines": 0 if fleet is None else fleet.metrics.lines,
            "pid": own_machine_pid(),
            "started_at": format_utc(self.started_at),
            "hosts": [member.document() for member in members],
        }

    def _tell(self, document: dict[str, Any]) -> None:
        if self.options.ready is not None:
            with os.fdopen(self.options.ready, "wb") as file:
                file.write(json.dumps(document).encode() + b"\n")


def own_machine_pid() -> int:
    """This process's id as the machine's /proc has it."""
    return int(Path("/proc/self").readlink().name)


def _raise_limits() -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _options() -> Options:
    parser = argparse.ArgumentParser(prog="python -m backends.practice.daemon", description=__doc__)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--mode", choices=("namespaces", "loopback"), required=True)
    parser.add_argument("--reason", default="asked for")
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--pool", default=DEFAULT_POOL)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--bind", type=Path, action="append", default=[])
    for name in ("lifetime", "ready", "machine-network"):
        parser.add_argument(f"--{name}", type=int)
    given = parser.parse_args()
    for descriptor in (given.lifetime, given.ready, given.machine_network):
        if descriptor is not None:
            os.set_inheritable(descriptor, False)
    return Options(
        directory=given.directory,
        mode=given.mode,
        reason=given.reason,
        hosts=given.hosts,
        pool=given.pool,
        cache=given.cache,
        binds=tuple(given.bind),
        lifetime=given.lifetime,
        ready=given.ready,
        machine_network=given.machine_network,
    )


def main() -> int:
    """Run until the end; returns the exit status."""
    options = _options()

    async def live() -> None:
        daemon = Daemon(options, SystemClock())
        try:
            await daemon.run()
        except (ReprieveError, OSError) as error:
            traceback.print_exc()
            known = error if isinstance(error, ReprieveError) else ReprieveError(clean(error))
            daemon._tell({"error": known.document()})
            raise SystemExit(1) from None

    asyncio.run(live())
    return 0


if __name__ == "__main__":
    sys.exit(main())

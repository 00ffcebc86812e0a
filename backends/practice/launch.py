"""Starts and stops a practice fleet: `start(directory, hosts) -> Running`.

Whatever happens to the starter (an exception, Ctrl-C, SIGKILL), the daemon ends: it holds the other end of a pipe
that closes with us. Leftovers of a killed run are cleaned at the next start, by recorded process and start time.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedWriter
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from backends.clean import clean
from backends.clock import Clock, SystemClock
from backends.clouds.practice.client import PracticeClient
from backends.errors import ReprieveError, UnreachableError, UsageError
from backends.practice import abilities, processes, records
from backends.practice.birth import run_in_own_namespaces
from backends.practice.fleet import DEFAULT_POOL
from backends.practice.layout import Layout
from backends.practice.processes import Process
from backends.practice.rehearsed import examples
from backends.xdg import base, private

_STOP_S = 60.0  # a hundred hosts take a while to tear down
_LOCK_S = 5.0


@dataclass
class Running:
    """A fleet that runs; stop it, or use it in a `with` block."""

    layout: Layout
    description: dict[str, Any]  # as it was at the start
    daemon: Process  # the one process to kill: everything of the fleet ends with it
    clock: Clock
    _child: subprocess.Popen[bytes]
    _lifetime: BufferedWriter
    client: PracticeClient = field(init=False)

    def __post_init__(self) -> None:
        self.client = PracticeClient(self.layout.control)

    @property
    def directory(self) -> Path:
        """The fleet's directory."""
        return self.layout.directory

    @property
    def mode(self) -> str:
        """`namespaces` or `loopback`."""
        return str(self.description["mode"])

    @property
    def reason(self) -> str:
        """Why this mode, one line."""
        return str(self.description["reason"])

    def describe(self) -> dict[str, Any]:
        """The fleet as it is now."""
        return self.client.call("describe")

    def stop(self, *, keep: bool = False) -> None:
        """End every process, namespace, mount and link; remove the fleet's files unless `keep`. Safe to repeat."""
        with _interrupts_held():
            _end(self._child, self._lifetime, self.mode, self.clock)
            if not keep:
                self.layout.empty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def choose(mode: str, cache: Path) -> tuple[Literal["namespaces", "loopback"], str]:
    """The mode to use and why; raises UsageError when what is asked for cannot be had."""
    if sys.platform != "linux":
        raise UsageError(f"a practice fleet needs Linux (/proc, subreapers); this is {sys.platform}")
    if mode == "loopback":
        return "loopback", "asked for"
    if mode not in ("auto", "namespaces"):
        raise UsageError(f"practice mode {clean(mode, limit=40)!r} is not one of auto, namespaces, loopback")
    missing = abilities.why_no_namespaces(cache)
    if missing is None:
        return "namespaces", "root on Linux, with namespaces, sshd and CRIU"
    if mode == "namespaces":
        raise UsageError(f"no namespaces fleet: {missing}", hint="the loopback fleet needs none of it")
    return "loopback", missing


def start(
    directory: Path,
    hosts: int = 3,
    mode: str = "auto",
    *,
    bare: bool = False,
    cache: Path | None = None,
    clock: Clock | None = None,
    binds: tuple[Path, ...] = (),
    pool: str = DEFAULT_POOL,
    timeout_s: float = 90.0,
) -> Running:
    """Start a fleet in `directory` and wait until all its hosts answer SSH.

    Args:
        directory: of the fleet: new, empty, or of an earlier fleet, which is removed.
        hosts: how many, named host-a, host-b …
        mode: `auto`, `namespaces` or `loopback`.
        bare: write no node records; `fleet add` is then the user's to practise.
        cache: where unpacked packages are kept; the user's cache directory by default.
        clock: the machine's by default.
        binds: directories of the machine that hosts see read-only, beside the Python that runs us.
        pool: of the hosts.
        timeout_s: for the whole start.

    Raises:
        UsageError: the directory is another's, a fleet runs in it, or the mode cannot be had.
        ReprieveError: the fleet did not start; nothing is left of it.
    """
    clock = clock or SystemClock()
    place = cache or base("CACHE")
    layout = Layout(directory.absolute())
    chosen, reason = choose(mode, place)
    layout.claim()
    lock = _take_lock(layout, clock)
    try:
        clean_leftovers(layout, clock)
        for path in (layout.fleet, layout.state, layout.store, layout.hosts):
            private(path)
        argv = [
            f"--directory={layout.directory}", f"--mode={chosen}", f"--reason={reason}", f"--hosts={hosts}",
            f"--cache={place}", f"--pool={pool}", *(f"--bind={path}" for path in (*binds, examples())),
        ]  # fmt: skip
        running = _spawn(layout, chosen, argv, lock, clock, timeout_s)
    except (KeyboardInterrupt, SystemExit):  # the user's own wish: no log is needed to see why
        with _interrupts_held():
            layout.empty()
        raise
    finally:
        os.close(lock)  # the daemon holds its own copy
    try:
        records.write(layout, running.description, bare=bare)
    except BaseException:
        running.stop()
        raise
    return running


def _spawn(
    layout: Layout, mode: str, options: list[str], lock: int, clock: Clock, timeout_s: float
) -> Running:
    argv = [sys.executable, "-m", "backends.practice.daemon", *options]
    if mode == "namespaces":
        argv = run_in_own_namespaces(argv)
    lifetime_read, lifetime_write = os.pipe()
    ready_read, ready_write = os.pipe()
    network = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    lifetime = os.fdopen(lifetime_write, "wb")
    child: subprocess.Popen[bytes] | None = None
    try:
        given = {"lifetime": lifetime_read, "ready": ready_write, "machine-network": network}
        with layout.log.open("ab") as log:
            child = subprocess.Popen(
                [*argv, *(f"--{name}={number}" for name, number in given.items())],
                pass_fds=[*given.values(), lock],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=abilities.daemon_environment(),
                cwd="/",
                start_new_session=True,  # Ctrl-C in the terminal is ours to handle
            )
        for descriptor in (lifetime_read, ready_write, network):
            os.close(descriptor)
        description = _await_ready(ready_read, child, layout, clock, timeout_s)
        daemon = processes.look(int(description["pid"]))
        if daemon is None:
            raise ReprieveError(f"practice fleet ended at once; its log is {layout.log}")
        running = Running(layout, description, daemon, clock, child, lifetime)
        _record(layout, running)
        return running
    except BaseException:
        with _interrupts_held():
            if child is not None:
                _end(child, lifetime, mode, clock)
        raise
    finally:
        os.close(ready_read)


def _await_ready(
    ready: int, child: subprocess.Popen[bytes], layout: Layout, clock: Clock, timeout_s: float
) -> dict[str, Any]:
    """The daemon's first line; raises the error it names."""
    deadline = clock.monotonic() + timeout_s
    data = b""
    while not data.endswith(b"\n"):
        left = deadline - clock.monotonic()
        if left <= 0 or not select.select([ready], [], [], left)[0]:
            raise ReprieveError(
                f"practice fleet was not ready within {timeout_s:.0f} s", hint=f"its log is {layout.log}"
            )
        chunk = os.read(ready, 65536)
        if not chunk:
            break
        data += chunk
    if not data:
        last = layout.log.read_text(errors="replace").strip().splitlines()[-1:]
        said = clean(last[0], limit=500) if last else f"exit {child.poll()}"
        raise ReprieveError(f"practice fleet did not start: {said}", hint=f"its log is {layout.log}")
    document: dict[str, Any] = json.loads(data)
    if "error" in document:
        error = document["error"]
        raise ReprieveError(clean(error["message"], limit=2000), hint=error.get("hint"))
    return document


def _end(child: subprocess.Popen[bytes], lifetime: BufferedWriter, mode: str, clock: Clock) -> None:
    """End the daemon. In namespaces: kill the init and the kernel ends the rest before it can be waited for."""
    with contextlib.suppress(OSError):
        lifetime.close()
    if mode == "namespaces":
        # The init first: `unshare` ends only after it, so waiting for `unshare` waits for all of the fleet.
        inits = [found for pid in processes.children_of(child.pid) if (found := processes.look(pid))]
        for init in inits:
            init.kill()
        if not inits:
            child.kill()
    try:
        child.wait(timeout=_STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _record(layout: Layout, running: Running) -> None:
    daemon = running.daemon
    layout.record.write_text(json.dumps({"pid": daemon.pid, "start_ticks": daemon.start_ticks}) + "\n")


def recorded(layout: Layout) -> Process | None:
    """The daemon that the directory names, if that very process still lives."""
    try:
        document = json.loads(layout.record.read_text())
        process = Process(int(document["pid"]), int(document["start_ticks"]))
    except (OSError, ValueError, KeyError):
        return None
    return process if process.alive else None


def clean_leftovers(layout: Layout, clock: Clock) -> None:
    """End a daemon that the directory names and remove its files; the lock must be ours."""
    process = recorded(layout)
    if process is not None:
        process.kill()
        processes.wait_gone([process], clock, _STOP_S)
    layout.empty()


def end(directory: Path, clock: Clock) -> bool:
    """End the fleet that runs in `directory`, from any process; False when there is none.

    Asks first; a daemon that does not answer is killed, by its recorded process id and start time.
    """
    layout = Layout(directory.absolute())
    process = recorded(layout)
    if process is None:
        return False
    try:
        PracticeClient(layout.control, timeout_s=5.0).call("shutdown")
    except UnreachableError:
        process.kill()
    if not processes.wait_gone([process], clock, _STOP_S):
        process.kill()
        processes.wait_gone([process], clock, _STOP_S)
    return True


def _take_lock(layout: Layout, clock: Clock) -> int:
    """The lock's descriptor; raises UsageError while another fleet lives in the directory."""
    lock = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = clock.monotonic() + _LOCK_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = recorded(layout)
            # Without an owner on record, one is just ending (or starting): give it a moment.
            if clock.monotonic() < deadline and owner is None:
                clock.sleep(0.05)
                continue
            os.close(lock)
            who = "another process" if owner is None else f"process {owner.pid}"
            raise UsageError(
                f"a practice fleet runs in {layout.directory} already ({who})",
                hint="end it with: reprieve practice down",
            ) from None
        return lock


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C back until the body is through: it must not leave a half-ended fleet."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

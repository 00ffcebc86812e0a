"""How a namespace host comes to life: two forks from the daemon, then sshd as the host's first process.

The daemon must have no other thread. The first child takes the new namespaces and forks the init into them; the
init waits until the daemon has connected its network, mounts its root and becomes sshd.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import traceback
from dataclasses import dataclass
from pathlib import Path

from backends.errors import ReprieveError
from backends.practice import rootfs, syscalls
from backends.practice.sshd import Sshd

_HOST_NAMESPACES = (
    syscalls.CLONE_NEWNET
    | syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWUTS
    | syscalls.CLONE_NEWIPC
    | syscalls.CLONE_NEWPID
)


@dataclass(frozen=True)
class Birth:
    """What the init of a host needs."""

    name: str
    root: Path
    binds: tuple[rootfs.Bind, ...]
    server: Sshd
    log: Path  # what goes wrong before sshd runs

    def start(self) -> tuple[int, int]:
        """Fork the init; returns its process id and the descriptor that lets it go on (write `go`, then close).

        Raises:
            ReprieveError: it could not be made.
        """
        status_read, status_write = os.pipe()
        go_read, go_write = os.pipe()
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        middle = os.fork()
        if middle == 0:
            self._middle(status_write, go_read, log)
        for descriptor in (status_write, go_read, log):
            os.close(descriptor)
        try:
            os.waitpid(middle, 0)
            line = _read_line(status_read)
        finally:
            os.close(status_read)
        if not line.isdigit():
            os.close(go_write)
            raise ReprieveError(f"practice host {self.name} did not start: {line or 'no word from its init'}")
        return int(line), go_write

    def _middle(self, status: int, go: int, log: int) -> None:
        """In the first child: take new namespaces, fork the init into them, tell its process id, end."""
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            null = os.open("/dev/null", os.O_RDONLY)
            for source, target in ((null, 0), (log, 1), (log, 2)):
                os.dup2(source, target)
            low, high = sorted((status, go))
            for first, after in ((3, low), (low + 1, high), (high + 1, 1 << 20)):
                os.closerange(first, after)  # nothing of the daemon's may live on in a host
            syscalls.unshare(_HOST_NAMESPACES)
            child = os.fork()
            if child == 0:
                self._run_init(go)
            os.write(status, f"{child}\n".encode())
        except BaseException as error:  # noqa: BLE001  a forked child must never return into the daemon
            os.write(2, traceback.format_exc().encode())
            os.write(status, f"{error}\n".encode())
        os._exit(0)

    def _run_init(self, go: int) -> None:
        """In the host's first process: wait for the network, mount, become sshd."""
        try:
            os.setsid()
            if os.read(go, 2) != b"go":
                os._exit(1)
            socket.sethostname(self.name)
            rootfs.enter(self.root, self.binds)
            server = self.server
            os.execve(  # noqa: S606  no shell: this is the point
                server.program, [server.program, "-D", "-E", "/var/log/sshd.log"], server.environment
            )
        except BaseException as error:  # noqa: BLE001  a forked child must never return into the daemon
            os.write(2, f"{traceback.format_exc()}\n{error}\n".encode())
        os._exit(1)


def run_in_own_namespaces(argv: list[str]) -> list[str]:
    """The command that runs `argv` as init of new network, PID, mount and IPC namespaces; killing it ends all."""
    flags = ["--net", "--pid", "--mount", "--ipc", "--fork", "--kill-child=SIGKILL"]
    return ["unshare", *flags, "--", *argv]


def alive(pid: int) -> bool:
    """Whether a child still runs; a zombie does not."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False


def machine_pid(init: int) -> int | None:
    """The machine's process id of a child of this process; None where /proc does not tell.

    Our /proc is still the machine's, so its `children` are the machine's ids; NSpid lists the id in each namespace.
    """
    try:
        for word in Path("/proc/thread-self/children").read_text().split():
            for line in Path(f"/proc/{word}/status").read_text().splitlines():
                if line.startswith("NSpid:") and line.split()[2:3] == [str(init)]:
                    return int(word)
    except (OSError, ValueError):
        return None
    return None


def _read_line(descriptor: int) -> str:
    """One line from a pipe, or what came before its end or 10 s."""
    data = b""
    while not data.endswith(b"\n") and select.select([descriptor], [], [], 10.0)[0]:
        chunk = os.read(descriptor, 4096)
        if not chunk:
            break
        data += chunk
    return data.decode("utf-8", "replace").strip()

"""The first process of a loopback host: starts its commands, inherits its orphans, ends them all.

It speaks with the daemon over one socket (packets with JSON, the three standard streams attached as descriptors):
`{"id", "command", "environment", "cwd"}` starts a command; answers are `{"id", "pid"}`, `{"id", "status"}` and
`{"id", "error"}`. `{"end": true}`, or the daemon's death, ends every descendant, then this process. As a subreaper it
is the parent of every orphan below it, so "no child is left" means that nothing of the host is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

from backends.practice import syscalls

PACKET_LIMIT = 200_000  # bytes of one request


class HostInit:
    """State of one host's init."""

    def __init__(self, daemon: socket.socket) -> None:
        self.daemon = daemon
        self.commands: dict[int, tuple[int, subprocess.Popen[bytes]]] = {}  # by process id

    def run(self) -> None:
        """Serve until told to end or the daemon is gone; then end everything."""
        syscalls.become_subreaper()
        wake_read, wake_write = os.pipe()
        for descriptor in (wake_read, wake_write):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        going = True
        while going:
            ready, _, _ = select.select([self.daemon.fileno(), wake_read], [], [])
            if wake_read in ready:
                os.read(wake_read, 4096)
                self._reap()
            if self.daemon.fileno() in ready:
                going = self._serve()
        end_descendants()

    def _serve(self) -> bool:
        """Take one request; False when it is time to end."""
        try:
            data, streams, _flags, _address = socket.recv_fds(
                self.daemon, PACKET_LIMIT, 3, socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionError:
            return False
        request = json.loads(data) if data else {"end": True}
        if request.get("end"):
            return False
        try:
            self._start(request, streams)
        except (OSError, ValueError) as error:
            self._tell({"id": request["id"], "error": str(error)})
        finally:
            for descriptor in streams:
                os.close(descriptor)
        return True

    def _start(self, request: dict[str, object], streams: list[int]) -> None:
        command, cwd, environment = request["command"], request["cwd"], request["environment"]
        number = request["id"]
        if not (isinstance(number, int) and isinstance(environment, dict) and len(streams) == 3):
            raise ValueError("a request has an id, an environment and three streams")
        # The user's own command line, run by a shell as sshd does it.
        process = subprocess.Popen(
            ["/bin/sh", "-c", str(command)],
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            cwd=str(cwd),
            env={str(key): str(value) for key, value in environment.items()},
            start_new_session=True,
        )
        self.commands[process.pid] = (number, process)
        self._tell({"id": number, "pid": process.pid})

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            number, process = self.commands.pop(pid, (None, None))
            if process is not None:
                process.returncode = os.waitstatus_to_exitcode(status)
                self._tell({"id": number, "status": process.returncode})

    def _tell(self, document: dict[str, object]) -> None:
        try:
            self.daemon.send(json.dumps(document).encode())
        except OSError:
            return  # the daemon is gone: the next read of its socket says so


def end_descendants() -> None:
    """SIGKILL every descendant of this subreaper until none is left."""
    while True:
        kill_all(descendants(os.getpid()))
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        select.select([], [], [], 0.005)


def kill_all(pids: list[int]) -> None:
    """SIGKILL to each; the ones that are gone are passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def descendants(top: int) -> list[int]:
    """Process ids below `top`, by the parent field of /proc/PID/stat."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text(errors="replace")
            except OSError:
                continue
            parent = int(text.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [top]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def main() -> None:
    """Entry: the one argument is the number of the inherited socket to the daemon."""
    HostInit(socket.socket(fileno=int(sys.argv[1]))).run()


if __name__ == "__main__":
    main()

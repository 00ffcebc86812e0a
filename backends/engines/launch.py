"""Starting a job's own PID namespace with `nsinit` in it, and talking to it until the job is proven or killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import backends
from backends.clean import clean
from backends.clock import Clock
from backends.engines.criu_tool import LOG_LIMIT_BYTES
from backends.engines.port import NSINIT, Process, start_ticks
from backends.engines.system.trees import find_inner, only_child
from backends.environment import without_credentials
from backends.errors import EngineError

KILL_LIMIT_S = 20.0
_ANSWER_LIMIT_BYTES = 64 << 10


@dataclass
class Launched:
    """A namespace under way. Until `keep` it dies with us; `kill` ends everything in it."""

    child: subprocess.Popen[bytes]  # unshare, whose death kills the namespace's init
    link: socket.socket

    def wait(self, log: Path, deadline_s: float, clock: Clock) -> Process:
        """The job's root once it is brought back.

        Raises:
            EngineError: it failed, took longer than `deadline_s`, or its log `log` grew without end.
        """
        answer = self._answer(log, clock.monotonic() + deadline_s, deadline_s, clock)
        if answer.get("state") != "restored":
            raise EngineError(clean(answer.get("error", "the restore failed")))
        init_pid = only_child(self.child.pid)
        process = None if init_pid is None else find_inner(init_pid, int(answer["pid"]))
        if process is None:
            raise EngineError(
                "the job's process ended right after it came back", hint="use the previous checkpoint"
            )
        return process

    def _answer(self, log: Path, deadline: float, deadline_s: float, clock: Clock) -> dict[str, Any]:
        data = b""
        self.link.settimeout(0.05)
        while not data.endswith(b"\n"):
            try:
                part = self.link.recv(4096)
            except TimeoutError:
                part = None
            if part == b"" or len(data) > _ANSWER_LIMIT_BYTES:
                raise EngineError("the job's namespace ended before the job was back")
            data += part or b""
            if clock.monotonic() > deadline:
                raise EngineError(f"the restore took longer than {deadline_s:g} s and was ended")
            with contextlib.suppress(FileNotFoundError):
                if log.stat().st_size > LOG_LIMIT_BYTES:
                    raise EngineError("the restore's log grew without end: an image is incomplete")
        answer = json.loads(data)
        return answer if isinstance(answer, dict) else {}

    def keep(self) -> None:
        """Let the namespace live on without us."""
        self.link.sendall(b"keep\n")
        self.link.close()

    def kill(self) -> None:
        """End everything in the namespace and wait for that; idempotent."""
        self.link.close()
        if self.child.poll() is not None:
            return
        init_pid = only_child(self.child.pid)
        if init_pid is None:
            self.child.kill()
        else:  # the kernel ends the namespace before it lets unshare see the end of its init
            with contextlib.suppress(ProcessLookupError):
                os.kill(init_pid, signal.SIGKILL)
        try:
            self.child.wait(KILL_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.child.kill()
            raise EngineError(
                f"a half-restored job does not end within {KILL_LIMIT_S:g} s of SIGKILL",
                hint="it waits inside the kernel (state D): look at its disk or network file system",
            ) from None


def launch(spec: dict[str, Any], directory: Path, *, network: bool = True) -> Launched:
    """Start `nsinit` with `spec` in fresh PID and mount namespaces, detached from our session and output.

    The specification and init's own log go to `directory`. Without `network` the job gets an empty network namespace.

    Raises:
        EngineError: the namespaces cannot be made.
    """
    document = directory / "init.json"
    document.write_text(json.dumps(spec), "utf-8")
    document.chmod(0o600)
    ours, theirs = socket.socketpair()
    spaces = ["-p", "-f", "-m", "--propagation", "slave", "--mount-proc", "--kill-child"]
    if not network:
        spaces.append("-n")
    if os.geteuid() != 0:
        spaces = ["-U", "--map-root-user", *spaces]
    init = [sys.executable, "-S", "-s", "-m", NSINIT, str(document), str(theirs.fileno())]
    root = str(Path(backends.__file__).parent.parent)
    with theirs, (directory / "init.log").open("ab") as log:
        try:
            child = subprocess.Popen(
                ["unshare", *spaces, *init],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
                cwd="/",
                env={**without_credentials(os.environ), "PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1"},
            )
        except OSError as error:
            ours.close()
            raise EngineError(f"unshare could not be started: {clean(error.strerror)}") from None
    return Launched(child, ours)


def identify(pid: int, init_pid: int | None = None, inner_pid: int | None = None) -> Process | None:
    """Pin `pid` as it is now; None when it is gone."""
    ticks = start_ticks(pid)
    return None if ticks is None else Process(pid, ticks, init_pid, inner_pid)

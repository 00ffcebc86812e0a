"""The canary: does CRIU save and restore a process with sockets on this node, in truth and not by its own word.

`criu check` says "looks good" where no job with a socket can be saved, so readiness is a real save and restore of
a tiny process with a TCP listener, a UDP socket, a socket pair and a file, by the engine's own code.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from backends.clean import clean
from backends.engines.launch import identify
from backends.engines.port import RestoreRequest, SaveRequest, Verdict
from backends.engines.system.trees import sample
from backends.errors import EngineError
from backends.records.job import Job

if TYPE_CHECKING:
    from backends.clock import Clock
    from backends.engines.criu_tool import CriuTool
    from backends.engines.port import Engine, Process

DEADLINE_S = 20.0
_PROGRAM = """
import socket, sys, threading, time
stream = socket.socket(); stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
stream.bind(("127.0.0.1", 0)); stream.listen()
packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); packets.bind(("127.0.0.1", 0))
pair = socket.socketpair()
threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
log = open(sys.argv[1], "a", buffering=1)
while True:
    pair[0].send(b"x"); pair[1].recv(1); log.write("x\\n"); time.sleep(0.02)
"""


def key_of(tool: CriuTool) -> str:
    """What a remembered answer belongs to: this program, its version and this kernel."""
    return f"{tool.argv[-1]} {tool.version} {os.uname().release}"


def ready(engine: Engine, tool: CriuTool, run: Path, clock: Clock) -> Verdict:
    """The canary's verdict; success is remembered in `run` per tool and kernel: a node pays once (about a second).

    Jobs that start at the same moment wait for one canary: it restores into `run`, where a second one would meet it.
    """
    memory = run / "canary.json"
    if _works(memory, key_of(tool)):
        return Verdict("ok", (), None, "criu")
    if os.geteuid() != 0:
        return Verdict("impossible", ("CRIU needs root on the node: run the guard as root",), None, "criu")
    try:
        run.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(run / "canary.lock"):
            return _first(engine, tool, run, clock)
    except OSError as error:
        text = f"CRIU could not be tried on this node: {clean(error)}"
        return Verdict("impossible", (text,), None, "criu")


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold the canary's lock against other threads and processes."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _works(memory: Path, key: str) -> bool:
    """Whether an earlier canary of this tool and kernel worked."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return bool(json.loads(memory.read_text("utf-8"))["works"] == key)
    return False


def _first(engine: Engine, tool: CriuTool, run: Path, clock: Clock) -> Verdict:
    memory, key = run / "canary.json", key_of(tool)
    if _works(memory, key):  # another one was first
        return Verdict("ok", (), None, "criu")
    verdict = _try(engine, run, clock)
    if verdict.answer == "ok":
        with contextlib.suppress(OSError):
            memory.write_text(json.dumps({"works": key}), "utf-8")
    for place in run.glob("canary.*"):  # directories of the canary's own restore
        if place.is_dir():
            shutil.rmtree(place, ignore_errors=True)
    return verdict


def _try(engine: Engine, run: Path, clock: Clock) -> Verdict:
    try:
        with tempfile.TemporaryDirectory(dir=run, prefix="canary-") as folder:
            _save_and_restore(engine, Path(folder), clock)
    except EngineError as error:
        remedy = f"; {error.hint}" if error.hint else ""
        return Verdict(
            "impossible", (f"CRIU does not work on this node: {error.message}{remedy}",), None, "criu"
        )
    return Verdict("ok", (), None, "criu")


def _save_and_restore(engine: Engine, folder: Path, clock: Clock) -> None:
    log = folder / "canary.log"
    save = folder / "save"
    save.mkdir(mode=0o700)
    child = subprocess.Popen(
        [sys.executable, "-S", "-s", "-c", _PROGRAM, str(log)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=folder,
    )
    process = identify(child.pid)
    try:
        _wait_for(log, clock)
        if process is None:
            raise EngineError("the canary process ended by itself")
        job = Job("canary", "canary")
        saved = engine.save(SaveRequest(job, process, save, DEADLINE_S, DEADLINE_S), lambda: None)
        engine.end(process)
        child.wait()
        request = RestoreRequest(job, save, saved.files, saved.details, DEADLINE_S, folder / "aside")
        process = engine.restore(request)
        _check(process)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        if process is not None:
            engine.end(process)


def _wait_for(log: Path, clock: Clock) -> None:
    deadline = clock.monotonic() + DEADLINE_S
    while not (log.exists() and log.stat().st_size > 2):
        if clock.monotonic() > deadline:
            raise EngineError(f"the canary process wrote nothing within {DEADLINE_S:g} s")
        clock.sleep(0.01)


def _check(process: Process) -> None:
    if sample(process) is None:
        raise EngineError("the canary process died after its restore")

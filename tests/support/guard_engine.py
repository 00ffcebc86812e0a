"""An engine on real processes for the guard's tests: stops them, copies a state file, scripted by a file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from backends.clock import SystemClock
from backends.engines.criu import CriuEngine
from backends.engines.port import (
    Engine,
    Process,
    RestoreRequest,
    Saved,
    SaveRequest,
    Verdict,
    alive,
    start_ticks,
)
from backends.engines.signal import SignalEngine
from backends.errors import EngineError
from backends.guard.disk.layout import Layout
from backends.records.job import Job
from tests.support.engines import criu_tool

# A job that counts up in a file, and goes on from what it finds there.
PROGRAM = """
import sys, time, pathlib
path = pathlib.Path(sys.argv[1])
count = int(path.read_text() or 0) if path.exists() else 0
while True:
    count += 1
    new = path.with_suffix('.new')
    new.write_text(str(count))
    new.replace(path)
    print('count', count, flush=True)
    time.sleep(0.02)
"""


def command(state: Path) -> tuple[str, ...]:
    """Argv of the counting job."""
    return (sys.executable, "-c", PROGRAM, str(state))


def stopped(pid: int) -> bool:
    """Whether the process stands still."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 2] == "T"


class StopEngine:
    """Saves by SIGSTOP, a copy of the job's first declared file, SIGCONT."""

    name = "fake"

    def __init__(self, script: Path | None = None) -> None:
        self._script = script

    def _told(self, what: str) -> Any:
        if self._script is None or not self._script.exists():
            return None
        return json.loads(self._script.read_text()).get(what)

    def ready(self) -> Verdict:
        return Verdict("ok", engine=self.name)

    def examine(self, job: Job, process: Process) -> Verdict:
        return Verdict("ok", engine=self.name)

    def save(self, request: SaveRequest, frozen: Callable[[], None]) -> Saved:
        wall, begun = time.time(), time.monotonic()
        at = time.clock_gettime(time.CLOCK_BOOTTIME)
        if not alive(request.process):
            raise EngineError("the process is gone")
        still = stopped(request.process.pid)
        os.kill(request.process.pid, signal.SIGSTOP)
        try:
            frozen()
            time.sleep(self._told("freeze_s") or 0.0)
            if self._told("fail"):
                raise EngineError(self._told("fail"))
            images = request.directory / "images"
            images.mkdir()
            (request.directory / "files").mkdir()
            data = Path(request.job.files[0]).read_bytes()
            (images / "state").write_bytes(data)
        finally:
            if not still:
                os.kill(request.process.pid, signal.SIGCONT)
        took = time.monotonic() - begun
        return Saved(
            frozen_at=wall,
            frozen_at_monotonic=at,
            frozen_s=took,
            dump_s=took,
            size_bytes=len(data),
            files=(),
            processes=(),
            versions={},
            details={"command": list(request.job.command), "state": request.job.files[0]},
        )

    def restore(self, request: RestoreRequest) -> Process:
        time.sleep(self._told("restore_s") or 0.0)
        if self._told("fail_restore"):
            raise EngineError(self._told("fail_restore"))
        state = Path(request.details["state"])
        if request.scratch is not None:
            state = request.scratch / "state"
        state.write_bytes((request.directory / "images" / "state").read_bytes())
        argv = [*request.details["command"][:-1], str(state)]
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )
        ticks = start_ticks(child.pid)
        if ticks is None:
            raise EngineError("it did not start")
        return Process(child.pid, ticks)

    def freeze(self, process: Process) -> None:
        os.kill(process.pid, signal.SIGSTOP)
        while alive(process) and not stopped(process.pid):
            time.sleep(0.001)

    def thaw(self, process: Process) -> None:
        if alive(process):
            os.kill(process.pid, signal.SIGCONT)

    def end(self, process: Process) -> None:
        if alive(process):
            os.kill(process.pid, signal.SIGKILL)
        for _ in range(500):
            if not alive(process):
                return
            time.sleep(0.01)
        raise EngineError("it did not end")


def engines() -> Mapping[str, Engine]:
    """For the guard and watchdog processes of tests: scripted by a file under the node root."""
    root = Path(os.environ["REPRIEVE_NODE_ROOT"])
    if os.environ.get("REPRIEVE_TEST_ENGINES") != "real":
        return {"fake": StopEngine(root / "script.json")}
    run, clock = Layout(root).engines, SystemClock()
    found: dict[str, Engine] = {}
    tool = criu_tool()
    if tool is not None:
        found["criu"] = CriuEngine(tool, run, clock)
    found["signal"] = SignalEngine(run, clock)
    return found

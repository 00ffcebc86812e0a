"""An engine in memory: programs that count, saved and brought back without a process, with failures on order.

Obeys the contract suite like the real ones. Its pids are beyond the kernel's range, so that no real process is met.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from backends.clock import Clock
from backends.engines.port import OpenFile, Process, RestoreRequest, Saved, SaveRequest, Verdict
from backends.errors import EngineError
from backends.records.job import Job

FIRST_PID = 1 << 23  # Linux allows at most 1 << 22
Operation = Literal["ready", "examine", "save", "restore", "freeze", "end"]


@dataclass
class FakeProgram:
    """A program that counts up to now: one line a step in its file, as a real job would write it."""

    output: Path
    count: int = 0
    stopped: bool = False
    alive: bool = True

    def work(self, steps: int = 1) -> None:
        """Do `steps` steps unless stopped or dead."""
        if self.stopped or not self.alive:
            return
        with self.output.open("a", encoding="utf-8") as file:
            for _ in range(steps):
                self.count += 1
                file.write(f"{self.count}\n")


@dataclass
class FakeEngine:
    """The engine `fake`. `fail` schedules the texts of coming failures per operation;."""

    clock: Clock
    name: str = "fake"
    freeze_s: float = 0.5
    programs: dict[int, FakeProgram] = field(default_factory=dict)
    failures: dict[Operation, list[str]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    _pids: itertools.count[int] = field(default_factory=lambda: itertools.count(FIRST_PID))

    def fail(self, operation: Operation, text: str, times: int = 1) -> None:
        """Let the next `times` calls of `operation` fail with `text`."""
        self.failures.setdefault(operation, []).extend([text] * times)

    def start(self, program: FakeProgram) -> Process:
        """Take `program` as a running job."""
        pid = next(self._pids)
        self.programs[pid] = program
        return Process(pid, pid)

    def alive(self, process: Process) -> bool:
        """Whether the program of `process` lives."""
        program = self.programs.get(process.pid)
        return program is not None and program.alive

    def ready(self) -> Verdict:
        """`ok`, or the scheduled failure as `impossible`."""
        text = self._failure("ready")
        return Verdict(
            "ok" if text is None else "impossible", () if text is None else (text,), None, self.name
        )

    def examine(self, job: Job, process: Process) -> Verdict:
        """`ok` for a living program, or the scheduled failure as `impossible`."""
        text = self._failure("examine")
        if text is None and not self.alive(process):
            text = f"process {process.pid} of job {job.name} is gone"
        return Verdict(
            "ok" if text is None else "impossible", () if text is None else (text,), None, self.name
        )

    def save(self, request: SaveRequest, frozen: Callable[[], None]) -> Saved:
        """Write the program's count and its file; the clock passes `freeze_s`."""
        program = self._program(request.process)
        frozen_at = (self.clock.wall(), self.clock.monotonic())
        frozen()
        self.clock.sleep(min(self.freeze_s, request.max_freeze_s))
        if self.freeze_s > request.max_freeze_s:
            raise EngineError(f"the job stood still longer than its max_freeze of {request.max_freeze_s:g} s")
        if (text := self._failure("save")) is not None:
            raise EngineError(text)
        images, files = request.directory / "images", request.directory / "files"
        if images.exists() or files.exists():
            raise EngineError(f"the save failed: {request.directory} is not empty")
        for directory in (images, files):
            directory.mkdir(mode=0o700)
        data = program.output.read_bytes() if program.output.exists() else b""
        (files / "00000").write_bytes(data)
        state = json.dumps({"count": program.count, "output": str(program.output)})
        (images / "state.json").write_text(state, "utf-8")
        return Saved(
            frozen_at=frozen_at[0],
            frozen_at_monotonic=frozen_at[1],
            frozen_s=self.freeze_s,
            dump_s=self.freeze_s,
            size_bytes=len(data) + len(state),
            files=(OpenFile(str(program.output), len(data), 0o600, 0, 0, "00000", "open"),),
            processes=({"pid": request.process.pid, "tids": [request.process.pid], "name": "fake"},),
            versions={"fake": "1"},
        )

    def restore(self, request: RestoreRequest) -> Process:
        """A new program from the saved count; its file is rolled back, the replaced one kept aside."""
        if (text := self._failure("restore")) is not None:
            raise EngineError(text)
        try:
            state = json.loads((request.directory / "images" / "state.json").read_text("utf-8"))
            count, output = int(state["count"]), Path(state["output"])
        except (OSError, ValueError, KeyError):
            raise EngineError(f"the checkpoint in {request.directory} is incomplete") from None
        if request.scratch is not None:
            return Process(next(self._pids), 1)
        request.aside.mkdir(parents=True, exist_ok=True)
        for file in request.files:
            target = Path(file.path)
            if target.exists():
                target.rename(request.aside / file.copy)
            target.write_bytes((request.directory / "files" / file.copy).read_bytes())
        return self.start(FakeProgram(output, count))

    def freeze(self, process: Process) -> None:
        """Stop the program."""
        if (text := self._failure("freeze")) is not None:
            raise EngineError(text)
        if self.alive(process):
            self._program(process).stopped = True

    def thaw(self, process: Process) -> None:
        """Let the program go on."""
        self.calls.append("thaw")
        if self.alive(process):
            self._program(process).stopped = False

    def end(self, process: Process) -> None:
        """End the program."""
        if (text := self._failure("end")) is not None:
            raise EngineError(text)
        if process.pid in self.programs:
            self.programs[process.pid].alive = False

    def _program(self, process: Process) -> FakeProgram:
        program = self.programs.get(process.pid)
        if program is None or not program.alive:
            raise EngineError(f"process {process.pid} is gone")
        return program

    def _failure(self, operation: Operation) -> str | None:
        self.calls.append(operation)
        waiting = self.failures.get(operation, [])
        return waiting.pop(0) if waiting else None

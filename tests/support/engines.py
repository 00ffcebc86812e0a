"""A small job for engine tests, and the way the contract suite looks at one, whatever engine runs it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Protocol

import pytest

from backends.clock import SystemClock
from backends.engines.criu_tool import CriuTool, find_criu
from backends.engines.launch import identify
from backends.engines.port import Engine, Process
from backends.errors import ReprieveError
from backends.nodes.closures import criu_closure
from backends.records.job import Job
from backends.xdg import base
from tests.support.kinds import PRELUDE

CLOCK = SystemClock()
DEADLINE_S = 20.0
LAST_STEP = 400

_STARTED: list[subprocess.Popen[bytes]] = []  # ended through the engine; collected when the tests end

# Counts, appends a line a step with a running digest, ends with the digest in DONE; saves itself on SIGUSR1.
WORKLOAD = r"""
import hashlib, os, pathlib, signal, sys, time
home = pathlib.Path(sys.argv[1]); last = int(sys.argv[2]); pause = float(sys.argv[3])
step, digest, asked = 0, hashlib.sha256(b"seed").hexdigest(), False
if "resume" in sys.argv:
    saves = sorted(home.glob("save-*.txt"), key=lambda p: int(p.stem.split("-")[1]))
    text = saves[-1].read_text().split()
    step, digest = int(text[0]), text[1]
    lines = (home / "log.txt").read_text().splitlines()[:step]
    (home / "log.txt").write_text("".join(line + "\n" for line in lines))
def ask(*_):
    global asked
    asked = True
signal.signal(signal.SIGUSR1, ask)
log = open(home / "log.txt", "a", buffering=1)
while step < last:
    step += 1
    digest = hashlib.sha256(f"{digest}{step}".encode()).hexdigest()
    log.write(f"{step} {digest}\n")
    if asked:
        asked = False
        fresh = home / f"save-{step}.txt.tmp"
        fresh.write_text(f"{step} {digest}\n")
        fresh.rename(home / f"save-{step}.txt")
    time.sleep(pause)
(home / "DONE").write_text(digest)
"""


def expected_digest(last: int = LAST_STEP) -> str:
    """What an uninterrupted run of the workload ends with."""
    digest = hashlib.sha256(b"seed").hexdigest()
    for step in range(1, last + 1):
        digest = hashlib.sha256(f"{digest}{step}".encode()).hexdigest()
    return digest


def spawn(argv: list[str], cwd: Path | None = None) -> Process:
    """Start a detached process and pin it."""
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=cwd,
    )
    process = identify(child.pid)
    assert process is not None
    _STARTED.append(child)
    return process


def until(condition: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait for `condition()` with a deadline."""
    end = CLOCK.monotonic() + deadline_s
    while not condition():
        assert CLOCK.monotonic() < end, f"{what}: not within {deadline_s} s"
        CLOCK.sleep(0.02)


def lines_of(path: Path) -> list[str]:
    """The whole lines of a file, none when it is missing."""
    return path.read_text().splitlines() if path.exists() else []


class Bench(Protocol):
    """One engine with one job that counts, as the contract suite sees it."""

    @property
    def engine(self) -> Engine:
        """The engine under test."""
        ...

    @property
    def job(self) -> Job:
        """The job's record."""
        ...

    def start(self) -> Process:
        """A running job."""
        ...

    def advance(self) -> None:
        """Let a running job do some steps; returns at once when it is stopped."""
        ...

    def steps(self) -> list[int]:
        """The steps in its file."""
        ...

    def lives(self, process: Process) -> bool:
        """Whether it lives."""
        ...

    def finish(self) -> bool:
        """Let it run to its end: whether the outcome equals that of an uninterrupted run."""
        ...


class RealBench:
    """The workload as a real process."""

    def __init__(self, engine: Engine, home: Path, *, pause_s: float = 0.01, last: int = LAST_STEP) -> None:
        self.engine, self.home, self.last = engine, home, last
        home.mkdir(parents=True, exist_ok=True)
        self.argv = [sys.executable, "-S", "-s", "-c", WORKLOAD, str(home), str(last), str(pause_s)]
        self.job = Job(
            "bench",
            "here",
            command=tuple(self.argv),
            cwd=str(home),
            marker="save-*.txt",
            resume=(*self.argv, "resume"),
        )
        self.log = home / "log.txt"

    def start(self) -> Process:
        """Start it and wait for its first steps."""
        process = spawn(self.argv, self.home)
        until(lambda: len(lines_of(self.log)) > 2, "the workload's first steps")
        return process

    def advance(self) -> None:
        """Wait a little for more steps."""
        before, end = len(lines_of(self.log)), CLOCK.monotonic() + 0.3
        while len(lines_of(self.log)) < before + 3 and CLOCK.monotonic() < end:
            CLOCK.sleep(0.01)

    def steps(self) -> list[int]:
        """Step numbers in the log."""
        return [int(line.split()[0]) for line in lines_of(self.log)]

    def lives(self, process: Process) -> bool:
        """By pid and start time."""
        return identify(process.pid) == replace(process, init_pid=None, inner_pid=None)

    def finish(self) -> bool:
        """Wait for DONE and compare the digest and the step numbers."""
        done = self.home / "DONE"
        until(lambda: done.exists() and done.read_text() != "", "the end of the workload")
        return done.read_text() == expected_digest(self.last) and self.steps() == list(
            range(1, self.last + 1)
        )


@cache
def criu_tool() -> CriuTool | None:
    """A CRIU for tests: the one unpacked into the cache, else the node's own; None where there is none."""
    candidates = [Path("/usr/sbin/criu")]
    with suppress(ReprieveError):
        candidates.insert(0, criu_closure(base("CACHE")).root)
    return find_criu(candidates)


def criu_or_skip() -> CriuTool:
    """The CRIU for a lab test, or the test is skipped with the reason."""
    if os.geteuid() != 0:
        pytest.skip("not root: CRIU needs it")
    tool = criu_tool()
    if tool is None:
        pytest.skip("no CRIU on this machine or in the cache")
    return tool


def begin(home: Path, source: str, *flags: str) -> Process:
    """Start a program of `tests.support.kinds` and wait for its first steps."""
    home.mkdir()
    process = spawn([sys.executable, *flags, "-c", PRELUDE + source, str(home)], home)
    until(lambda: len(lines_of(home / "log.txt")) > 2, "the job's first steps")
    return process


def goes_on(home: Path) -> None:
    """The log has no gap and no repetition, and grows."""
    count = len(lines_of(home / "log.txt"))
    until(lambda: len(lines_of(home / "log.txt")) > count + 2, "the job's next steps")
    steps = [int(line) for line in lines_of(home / "log.txt")]
    assert steps == list(range(1, len(steps) + 1))


def end_all(home: Path) -> None:
    """Kill what a failed test left: processes whose command line names its directory."""
    for pid in naming(home):
        with suppress(ProcessLookupError):
            os.kill(pid, 9)


def naming(place: Path) -> list[int]:
    """Processes, but this one, whose command line names `place`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes()
                if str(place).encode() in words:
                    found.append(int(entry.name))
    return found

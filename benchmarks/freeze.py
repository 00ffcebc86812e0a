"""How long a save stops a job, against bare `criu dump` to the same disk: `python -m benchmarks.freeze [--mib N]`, as root.

The job itself measures: it looks at the clock all the time, and the longest gap between two looks while it is saved is
how long it stood still. Both leave it running; both write to `TMPDIR`. The job's declared `files` are told apart.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from backends.clock import SystemClock
from backends.engines.criu import CriuEngine
from backends.engines.criu_tool import CriuTool, find_criu
from backends.engines.launch import identify
from backends.engines.port import Process, SaveRequest
from backends.errors import ReprieveError
from backends.nodes.closures import criu_closure
from backends.records.job import Job
from backends.xdg import base
from benchmarks.common import ratio, report

REPEATS = 5
DECLARED_MIB = 64
# Holds memory that nothing compresses or shares; on SIGUSR1 it tells the longest gap since the last time.
PROGRAM = r"""
import os, pathlib, signal, sys, time
home, mib = pathlib.Path(sys.argv[1]), int(sys.argv[2])
memory = [os.urandom(1 << 20) for _ in range(mib)]
asked = False
def ask(*_):
    global asked
    asked = True
signal.signal(signal.SIGUSR1, ask)
(home / "ready").write_text("")
last, longest, number = time.monotonic(), 0.0, 0
while True:
    time.sleep(0.0005)
    now = time.monotonic()
    longest, last = max(longest, now - last), now
    if asked:
        asked, number = False, number + 1
        (home / "new").write_text(f"{number} {longest}")
        (home / "new").rename(home / "gap")
        last, longest = time.monotonic(), 0.0
"""


class Victim:
    """The job under measurement."""

    def __init__(self, home: Path, mib: int) -> None:
        self._home, self._number = home, 0
        self._child = subprocess.Popen(
            [sys.executable, "-S", "-c", PROGRAM, str(home), str(mib)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", start_new_session=True,
        )  # fmt: skip
        wait((home / "ready").exists)
        found = identify(self._child.pid)
        if found is None:
            raise SystemExit("freeze: the job did not start")
        self.process: Process = found

    def gap_s(self) -> float:
        """The longest gap since the last call."""
        self._number += 1
        os.kill(self.process.pid, 10)
        told: list[str] = []

        def answered() -> bool:
            path = self._home / "gap"
            told[:] = path.read_text().split() if path.exists() else []
            return bool(told) and int(told[0]) == self._number

        wait(answered)
        return float(told[1])

    def end(self) -> None:
        """Kill and reap it."""
        self._child.kill()
        self._child.wait()


def wait(condition: Callable[[], bool]) -> None:
    """Until it holds; ends the program after a minute."""
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("freeze: the job does not answer")
        time.sleep(0.01)


def bare(tool: CriuTool, job: Victim, where: Path) -> float:
    """The gap of one `criu dump` with nothing around it."""
    where.mkdir()
    job.gap_s()
    argv = tool.command(
        "dump", "--tree", str(job.process.pid), "--images-dir", str(where), "--leave-running", "--log-file", "log"
    )  # fmt: skip
    subprocess.run(argv, env={**os.environ, **tool.environment}, check=True, stdin=subprocess.DEVNULL)
    return job.gap_s()


def ours(engine: CriuEngine, job: Victim, where: Path, files: tuple[str, ...] = ()) -> float:
    """The gap of one save."""
    where.mkdir(mode=0o700)
    job.gap_s()
    record = Job("bench", "node", command=("x",), engine="criu", files=files)
    engine.save(SaveRequest(record, job.process, where, 120.0, 120.0), lambda: None)
    return job.gap_s()


def find_tool() -> CriuTool | None:
    """CRIU of the cache, else this machine's own."""
    candidates = [Path("/usr/sbin/criu")]
    with contextlib.suppress(ReprieveError):
        candidates.insert(0, criu_closure(base("CACHE")).root)
    return find_criu(candidates)


def freezable() -> bool:
    """Whether this machine can measure it."""
    return os.geteuid() == 0 and find_tool() is not None


def freezes(mib: int) -> dict[str, float]:
    """Median gaps in seconds of a job with `mib` of memory: bare CRIU, ours, ours with declared files."""
    tool = find_tool()
    if tool is None:
        raise SystemExit("freeze: no CRIU on this machine or in the cache")
    found: dict[str, list[float]] = {"bare_s": [], "ours_s": [], "ours_with_files_s": []}
    with TemporaryDirectory(prefix="bench.") as name:
        home = Path(name)
        declared = home / "declared"
        declared.write_bytes(os.urandom(DECLARED_MIB << 20))
        engine = CriuEngine(tool, home / "run", SystemClock())
        job = Victim(home, mib)
        ways: dict[str, Callable[[], float]] = {
            "bare_s": lambda: bare(tool, job, home / "save"),
            "ours_s": lambda: ours(engine, job, home / "save"),
            "ours_with_files_s": lambda: ours(engine, job, home / "save", (str(declared),)),
        }
        try:
            for turn in range(REPEATS + 1):
                for label, measure in ways.items():
                    os.sync()
                    gap = measure()
                    shutil.rmtree(home / "save")
                    if turn:  # the first one warms up
                        found[label].append(gap)
        finally:
            job.end()
    return {label: round(statistics.median(gaps), 4) for label, gaps in found.items()}


def main() -> None:
    """Measure and print."""
    if os.geteuid() != 0:
        raise SystemExit("freeze: CRIU needs root")
    arguments = sys.argv[1:]
    mib = int(arguments[arguments.index("--mib") + 1]) if "--mib" in arguments else 256
    found = freezes(mib)
    figures = {"memory_mib": float(mib), "declared_files_mib": float(DECLARED_MIB), **found}
    report("freeze", figures, {"freeze_over_bare_criu": ratio(found["ours_s"] / found["bare_s"], 1.1)})


if __name__ == "__main__":
    main()

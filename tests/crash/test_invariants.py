"""All nine invariants in one printed table: how often each was looked at, by what; a broken one ends the test.

`make prove`, or `pytest tests/crash/test_invariants.py -s`. REPRIEVE_CRASH_EVERY=n strikes at every n-th operation only.
I7 is looked at with a real process and a real stop of it here; with criu and a killed guard `tests/lab/test_kills.py` counts it.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from backends.engines.port import Process, SaveRequest, start_ticks
from backends.errors import EngineError, ReprieveError
from backends.fakes.fileops import FAULTS, FailingOps, FaultKind, SimulatedOps
from backends.guard.decide.job import step
from backends.guard.decide.model import SaveDone, SaveFailed, Tick
from backends.guard.decide.show import at_risk_s
from backends.records.job import Job
from backends.store.files import FileStore
from tests.crash.test_store_crashes import run_all
from tests.support.guard_engine import StopEngine, command, stopped
from tests.support.seeded_batches import play_batch
from tests.support.store import Bench, make_save
from tests.unit.backends.guard.test_guard_decide_job import durable, mind

pytestmark = pytest.mark.prove
EVERY = int(os.environ.get("REPRIEVE_CRASH_EVERY", "1"))
BATCHES, LIVES = 200, 200
ERRORS: tuple[FaultKind, ...] = ("ENOSPC", "EDQUOT", "EIO", "timed_out_but_done")
LEAST_POINTS = 40


def test_all_invariants_in_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, counts = list[str](), Counter[str]()
    for kind in FAULTS:
        (directory := tmp_path / kind).mkdir()
        points, judged = run_all(directory, kind, cuts=6 if kind.startswith("crash") else 1, every=EVERY)
        assert EVERY > 1 or points >= LEAST_POINTS
        lines.append(
            f"{kind:20} {points:4} points, {judged.counts['outcomes']:5} outcomes, {len(judged.seen):5} different"
        )
        counts += judged.counts
    kills = sum(play_batch(seed) for seed in range(BATCHES))
    counts["I6"] = BATCHES
    counts["I7"] = failed_saves(tmp_path)
    counts["I8"] = risks()
    said = {
        "I1": "after what was reported as saved, it or a later one restores",
        "I2": "what was left behind publishes nothing",
        "I3": "no restore without a proof of death",
        "I4": "a listed save verifies, or is listed as damaged",
        "I5": "retention leaves the newest verified",
        "I6": f"each job of a batch lives once or failed by name, {kills} kills of the console",
        "I7": "a failed save leaves the job running",
        "I8": "shown work at risk is not below the truth, nor 2 s above",
        "I9": "errors are told in clean words",
    }
    with capsys.disabled():
        print("\n" + "\n".join(lines))
        for name, words in said.items():
            print(f"{name}  looked at {counts[name]:6}  broken 0  {words}")
    assert all(counts[name] for name in said)


def failed_saves(tmp_path: Path) -> int:
    """Saves of a counting process that fail in the engine or at any call of the store: it counts on after each."""
    state, script, failed = tmp_path / "state", tmp_path / "script", 0
    child = subprocess.Popen(command(state), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        process = Process(child.pid, start_ticks(child.pid) or 0)
        goes_on(child.pid, state)
        for number, (kind, at) in enumerate(
            [(kind, at) for kind in (None, *ERRORS) for at in range(1, 100, max(8, EVERY))]
        ):
            if kind is None:
                script.write_text('{"fail": "it broke"}')
            (directory := tmp_path / f"save{number}").mkdir(mode=0o700)
            request = SaveRequest(Job("count", "n", files=(str(state),)), process, directory, 60.0, 60.0)
            try:
                StopEngine(script).save(request, lambda: None)
                files = SimulatedOps()
                bench = Bench(FileStore(Path("/store"), files))
                bench.begin()
                bench.store = FileStore(Path("/store"), FailingOps(files, at, kind or "EIO"))
                bench.committer().commit(1, make_save(directory, {}))
            except (EngineError, ReprieveError):
                failed += 1
            script.unlink(missing_ok=True)
            goes_on(child.pid, state)
    finally:
        child.kill()
        child.wait()
    return failed


def goes_on(pid: int, state: Path) -> None:
    """The process is not stopped and its counter moves."""
    before, end = state.read_bytes() if state.exists() else b"", time.monotonic() + 30
    while not state.exists() or state.read_bytes() == before:
        assert time.monotonic() < end, "the job stands still after a failed save"
        time.sleep(0.01)
    assert not stopped(pid)


def risks() -> int:
    """What a guard shows at random moments of lives with saves that work and saves that fail."""
    looked = 0
    for seed in range(LIVES):
        chance, current, now, frozen_at = random.Random(seed), mind(), 100.0, 100.0
        for _ in range(40):
            now += chance.uniform(0, 90)
            current, _ = step(current, Tick(), now)
            if current.saving_since is not None and chance.random() < 0.6:
                since = current.saving_since
                worked = chance.random() < 0.6
                frozen_at = since if worked else frozen_at
                event = SaveDone(durable(since), 1.0) if worked else SaveFailed("no room", True)
                current, _ = step(current, event, now)
            risk = at_risk_s(current, now)
            if risk is not None:
                assert now - frozen_at - 1e-6 <= risk <= now - frozen_at + 2.0
                looked += 1
    return looked

"""`kill -9` of the guard and of criu at random moments: the job, its older saves, and the save after.

A seed is printed; REPRIEVE_TEST_SEED repeats it. `make prove` makes 200 of each.

A guard's death must never hurt the job. A criu that somebody else kills can take the job with it: for some moments of
a dump the job's registers are criu's (`backends.engines.system.seized`). Then the guard must see it and say so, the
older save must be whole, and the job must come back from it.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from backends.clock import SystemClock
from backends.errors import UnreachableError
from backends.ids import CheckpointId
from backends.store.open import open_store
from backends.store.verify import verify_checkpoint
from tests.support.engines import RealBench
from tests.support.guard_node import Fleet, Node, request, wait_for

pytestmark = pytest.mark.lab
Make = Callable[[str], Node]


class Scene:
    """One node, its counting job under CRIU, and the rules that hold after every kill."""

    def __init__(self, node: Node, fleet: Fleet, home: Path) -> None:
        self.node, self.fleet = node, fleet
        self.bench = RealBench(None, home, pause_s=0.02, last=1_000_000)  # type: ignore[arg-type]  # its engine is not used
        self.job: dict[str, Any] = fleet.job(
            engine="criu", command=self.bench.argv, cwd=str(home), files=[], interval_s=0.5, max_freeze_s=5.0
        )
        answer = node.call("start", request=request(), job=self.job, grant=fleet.genesis(node.guard))
        self.pid = int(answer["job"]["pid"])
        wait_for("the first save", node.checkpoint, 60)

    def goes_on(self) -> None:
        """The job runs, nothing holds it, and no step is lost or made twice."""
        before = len(self.bench.steps())
        wait_for("the job goes on", lambda: len(self.bench.steps()) > before, 30)
        wait_for(
            "nothing holds it", lambda: _state(self.pid) in ("R", "S", "D") and not _tracer(self.pid), 30
        )
        steps = self.bench.steps()
        assert steps == list(range(1, len(steps) + 1))

    def stands(self, checkpoint: str) -> None:
        """A save from before the kill is whole."""
        verify_checkpoint(
            open_store(self.fleet.url),
            self.fleet.uid,
            CheckpointId.parse(checkpoint),
            self.fleet.job_key,
            SystemClock(),
        )

    def next_save(self, before: str, *, asked: bool = False) -> None:
        """A newer one comes, by its interval or asked for (a failed save is else tried again after 5 s)."""
        if asked:
            self.node.call("save", request=request(), job="count", wait_s=30)
        newer = partial(_newer, self.node, before)
        try:
            self.stands(wait_for("the next good save", newer, 60))
        except AssertionError:
            raise AssertionError(
                [(event["kind"], event["text"]) for event in self.node.events()[-12:]]
            ) from None

    def bring_back(self) -> None:
        """What a controller does with a dead job: the next epoch from the newest save, here."""
        checkpoint = self.node.checkpoint()
        assert checkpoint is not None
        order = {"request": request(), "job": self.job, "checkpoint": checkpoint}
        grant = self.fleet.next_epoch(self.node.guard, checkpoint)
        answer = self.node.call("restore", grant=grant, **order, wait_s=60)
        assert answer["state"] == "restored", answer
        self.pid = int(answer["pid"])


def _state(pid: int) -> str:
    """The state letter of a process; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _tracer(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("TracerPid:"):
                return int(line.split()[1])
    return 0


def _newer(node: Node, before: str) -> str | None:
    found = node.checkpoint()
    return found if found is not None and CheckpointId.parse(found) > CheckpointId.parse(before) else None


def _answers(node: Node) -> bool:
    try:
        node.call("status")
    except UnreachableError:
        return False
    return True


def _alone(node: Node) -> bool:
    """Whether the guard that this test started is the one that serves, or has seen that the watchdog's was first."""
    return node.process is None or node.process.poll() is not None or node.process.pid == node.guard_pid()


def _seeded() -> random.Random:
    seed = int(os.environ.get("REPRIEVE_TEST_SEED", random.randrange(1 << 30)))
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.mark.parametrize("kills", [12, pytest.param(200, marks=pytest.mark.prove)])
def test_the_guard_killed_at_random_moments_of_saves(
    make_node: Make, job_fleet: Fleet, tmp_path: Path, kills: int
) -> None:
    rng = _seeded()
    scene = Scene(make_node("a"), job_fleet, tmp_path / "home")
    node, pid = scene.node, scene.pid
    for number in range(kills):
        before = node.checkpoint()
        assert before is not None
        if rng.random() < 0.8:
            wait_for("a save is under way", lambda: node.job()["saving"])
        time.sleep(rng.uniform(0, 0.15))
        node.kill()
        if number % 7 != 6:  # else the watchdog does it
            node.start()
        wait_for("the guard is back", lambda: _answers(node), 60)
        wait_for("one guard is left of two that started", lambda: _alone(node), 60)
        scene.goes_on()
        scene.stands(before)
        scene.next_save(before)
        assert node.job()["pid"] == pid
    print(f"{kills} kills of the guard: the job lived through each")


def _criu_of(node: Node) -> int | None:
    """The criu that dumps this node's job now."""
    mark = str(node.layout.staging).encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if b"dump" in words and any(word.startswith(mark) for word in words):
                    return int(entry.name)
    return None


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=pytest.mark.prove)])
def test_criu_killed_by_somebody_else_at_random_moments(
    make_node: Make, job_fleet: Fleet, tmp_path: Path, kills: int
) -> None:
    rng = _seeded()
    scene = Scene(make_node("a"), job_fleet, tmp_path / "home")
    node = scene.node
    counts: Counter[str] = Counter()
    while sum(counts.values()) < kills:
        before = node.checkpoint()
        assert before is not None
        criu = wait_for("criu at work", lambda: _criu_of(node), 60)
        time.sleep(rng.uniform(0, 0.06))
        try:
            os.kill(criu, signal.SIGKILL)
        except ProcessLookupError:
            continue  # the dump was over already
        time.sleep(0.3)
        if _state(scene.pid) in ("", "Z"):
            counts["the job died"] += 1
            wait_for("the guard sees it", lambda: node.state() in ("failed", "ended_unknown"), 10)
            assert {"job.failed", "job.ended_unknown"} & set(node.kinds()[-12:]), "a death is never silent"
            wait_for("no upload is under way", lambda: not node.job()["saving"])
            scene.stands(before)
            scene.bring_back()
        else:
            counts["the job lived"] += 1
            scene.stands(before)
        scene.goes_on()
        scene.next_save(before, asked=True)
    print(f"{kills} kills of criu by somebody else: {dict(counts)}")

"""The whole way with the engine `signal`: a program that saves itself is lost and ends with the same digest elsewhere."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.engines import RealBench, expected_digest
from tests.support.guard_node import Fleet, Node, request, wait_for

pytestmark = pytest.mark.slow
Make = Callable[..., Node]


class Nothing:
    """Stands in for an engine: only the workload's record is wanted."""


def test_a_self_saving_job_comes_back_with_its_digest(make_node: Make, fleet: Fleet, tmp_path: Path) -> None:
    first = make_node("a", REPRIEVE_TEST_ENGINES="real")
    second = make_node("b", REPRIEVE_TEST_ENGINES="real")
    bench = RealBench(Nothing(), tmp_path / "home", pause_s=0.02)  # type: ignore[arg-type]  # its engine is not used
    job = fleet.job(
        engine="signal",
        command=bench.argv,
        cwd=str(bench.home),
        files=[],
        marker="save-*.txt",
        resume=[*bench.argv, "resume"],
        done_file=str(bench.home / "DONE"),
        interval_s=1.5,
    )
    answer = first.call("start", request=request(), job=job, grant=fleet.genesis(first.guard))
    pid = answer["job"]["pid"]
    wait_for("a save", first.checkpoint)
    os.kill(pid, signal.SIGKILL)
    wait_for("its end is seen", lambda: first.state() in ("failed", "ended_unknown"))
    wait_for("no upload is under way", lambda: not first.job()["saving"])
    checkpoint = first.checkpoint()
    assert checkpoint is not None
    grant = fleet.next_epoch(second.guard, checkpoint)
    order = {"job": job, "grant": grant, "checkpoint": checkpoint}
    answer = second.call("restore", request=request(), **order, wait_s=60)
    assert answer["state"] == "restored", answer
    wait_for("the first new save", lambda: second.checkpoint() == "2.1")
    wait_for("it is finished", lambda: second.state() == "finished", 60)
    assert (bench.home / "DONE").read_text() == expected_digest()

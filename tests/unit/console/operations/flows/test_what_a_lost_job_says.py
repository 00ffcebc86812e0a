"""What listings say of a job that was lost: what it waits for, and a loss that does not grow once it is proven."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from backends.errors import NotFoundError
from backends.fakes.clock import run
from console.operations import api
from console.operations.observe import Observer
from console.operations.view import FleetView, JobRow, risk_now
from tests.support.operations import Practice
from tests.unit.console.operations.flows.test_watch_flow import watch_for


@pytest.fixture
def practice(tmp_path: Path) -> Practice:
    return Practice(tmp_path)


def views(practice: Practice, *after_s: float) -> list[FleetView]:
    """Views of one console, each so many seconds after the one before."""

    async def main() -> list[FleetView]:
        observer, found = Observer(practice.fleet()), []
        for seconds in after_s:
            await asyncio.sleep(seconds)
            found.append(await observer.view(wait_s=5.0))
        await observer.close()
        return found

    return run(practice.clock, main())


def risks(found: list[FleetView]) -> list[float]:
    rows = [(view.jobs[0], view.taken_at) for view in found]
    values = [risk_now(row, at + 30) for row, at in rows]
    assert None not in values
    return [value for value in values if value is not None]


def test_the_loss_stands_once_the_end_is_proven(practice: Practice) -> None:
    practice.running_job("train", "n0")
    views(practice, 0)
    practice.nodes["n0"].partitioned = True
    growing = risks(views(practice, 20, 60))
    assert growing[1] >= growing[0] + 60
    practice.reclaim("n0")
    first, second, third = risks(views(practice, 5, 100, 1000))
    assert first == second == third
    assert first >= growing[1] - 40, "never below the work of the time until the proof"


def test_a_second_console_takes_the_moment_of_proof_from_the_history(practice: Practice) -> None:
    practice.running_job("train", "n0")
    watch, _ = watch_for(practice, 30)
    practice.reclaim("n0")
    fleet = watch.fleet
    fleet.tell("node.lost", "n0 is lost", node="n0")
    practice.clock.advance(500)
    (late,) = risks(views(practice, 0))
    assert late < 100


def test_a_lost_job_that_nobody_restores_says_that_a_person_is_missing(practice: Practice) -> None:
    practice.running_job("train", "n0")
    views(practice, 0)
    practice.reclaim("n0")
    row = views(practice, 5)[0].jobs[0]
    assert row.state == "waiting_capacity"
    assert "no controller restores it: reprieve jobs restore train" in row.reason


def test_with_a_controller_its_last_word_is_the_reason(practice: Practice) -> None:
    practice.running_job("train", "n0", stop_after_reclaims=0)
    watch_for(practice, 60, {10: lambda: practice.reclaim("n0")})
    row = views(practice, 0)[0].jobs[0]
    assert "stop_after_reclaims is 0" in row.reason


def test_a_node_asked_once_in_vain_is_late_and_its_job_unreachable(practice: Practice) -> None:
    practice.running_job("train", "n0")
    views(practice, 0)
    practice.nodes["n0"].partitioned = True
    view = views(practice, 1)[0]
    node = next(each for each in view.nodes if each.name == "n0")
    row: JobRow = view.jobs[0]
    assert node.state == "late"
    assert (row.state, "no answer now" in row.reason) == ("unreachable", True)


def test_a_checkpoint_that_is_not_there_is_told_before_anything_else(practice: Practice) -> None:
    job = practice.running_job("train", "n0", saves=2)
    practice.nodes["n0"].partitioned = True  # no proof either: that is not what is wrong
    with pytest.raises(NotFoundError, match=r"has no checkpoint 9\.9: its newest are 1\.2, 1\.1"):
        run(
            practice.clock,
            api.perform(
                practice.fleet(), "jobs restore", {"name": "train", "checkpoint": "9.9"}, lambda text: None
            ),
        )
    assert practice.side.newest_epoch(job.uid) == 1


@pytest.mark.parametrize("rebooted", [True, False])
def test_a_job_of_a_node_that_was_restarted_comes_back_there(practice: Practice, rebooted: bool) -> None:
    job = practice.running_job("train", "n0")
    node = practice.nodes["n0"]
    for other in ("n1", "n2", "n3"):
        practice.reclaim(other)

    def restarted() -> None:
        held = node.held[job.uid]
        assert held.process is not None
        held.process.alive, held.state, held.rebooted = False, "ended_unknown", rebooted
        held.error = "the node was restarted (its boot id changed): the process is gone"

    _, told = watch_for(practice, 60, {10: restarted})
    assert practice.where(job.uid) == ([("n0", 2)] if rebooted else [])
    if rebooted:
        (kept,) = practice.fleet().ledger.reclaims()
        assert kept.cause == "reboot", "the provider took nothing: its pool's figures stay as they are"
        assert any("its node was restarted" in line for line in told)

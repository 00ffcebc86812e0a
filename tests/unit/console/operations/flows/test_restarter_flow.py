"""A job that its scheduler starts again is not started twice."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from backends.errors import NoProofError, UsageError
from backends.fakes.clock import run
from backends.records.job import Job
from backends.records.restarter import RestarterRef
from backends.schedulers.port import Answer, Word
from console.operations.common.forcing import forced
from console.operations.fleet import Fleet
from console.operations.flows.restore import RestoreWish, restore
from console.operations.polling import Poller
from tests.support.operations import Practice
from tests.unit.console.operations.flows.test_watch_flow import watch_for


class Told:
    """A scheduler that says what it is told to."""

    def __init__(self, word: Word) -> None:
        self.word: Word = word
        self.asked: list[str] = []

    def ask(self, identity: str) -> Answer:
        self.asked.append(identity)
        return Answer(self.word, f"Slurm will requeue job {identity} itself", f"scancel {identity}")


@pytest.fixture
def practice(tmp_path: Path) -> Practice:
    return Practice(tmp_path)


def under(practice: Practice, word: Word | None) -> tuple[Fleet, Job, Told]:
    """A running job of Slurm, and a console that can ask Slurm and has looked once."""
    job = practice.running_job("train", "n0")
    practice.nodes["n0"].held[job.uid].restarter = RestarterRef("slurm", "123")
    fleet, slurm = practice.fleet(), Told(word or "no")
    if word is not None:
        fleet.restarters["slurm"] = slurm
    run(practice.clock, Poller(fleet).look())
    return fleet, job, slurm


@pytest.mark.parametrize("word", ["will", "did", "unknown", None])
def test_nothing_is_restored_that_may_run_twice(practice: Practice, word: Word | None) -> None:
    fleet, job, _ = under(practice, word)
    practice.reclaim("n0")
    with pytest.raises(NoProofError, match="123") as refused:
        run(practice.clock, restore(fleet, RestoreWish(job), "r1", "1", lambda text: None))
    assert "--force restarter=REASON" in (refused.value.hint or "")
    assert practice.side.newest_epoch(job.uid) == 1


@pytest.mark.parametrize(("word", "force"), [("no", {}), ("will", {"restarter": "held by hand"})])
def test_a_scheduler_that_says_no_or_a_reason_of_the_operator_lets_it_go(
    practice: Practice, word: Word, force: dict[str, str]
) -> None:
    fleet, job, slurm = under(practice, word)
    practice.reclaim("n0")
    result = run(practice.clock, restore(fleet, RestoreWish(job, force=force), "r1", "1", lambda text: None))
    assert result.epoch == 2
    assert slurm.asked == ["123"]
    assert any("held by hand" in note for note in result.notes) == bool(force)


def test_the_controller_leaves_it_to_the_scheduler_and_says_so(practice: Practice) -> None:
    fleet, job, _ = under(practice, "will")
    _, told = watch_for(practice, 60, {10: lambda: practice.reclaim("n0")}, fleet)
    assert practice.side.newest_epoch(job.uid) == 1
    assert any("Slurm will requeue job 123 itself" in line for line in told)


def test_the_refusal_is_set_aside_with_a_reason_only() -> None:
    assert forced(["restarter=requeue is off for this user"]) == {"restarter": "requeue is off for this user"}
    with pytest.raises(UsageError, match="a reason is needed"):
        forced(["restarter"])


def test_a_scaling_group_is_a_note_and_no_refusal(practice: Practice) -> None:
    fleet, job, _ = under(practice, "no")
    practice.reclaim("n0")
    told = fleet.cloud_of(fleet.node("n0"))
    assert told is not None
    state = dataclasses.replace(told.instance(fleet.node("n0")), group="trainers")
    practice.cloud.instance = lambda node: state  # type: ignore[method-assign]  # one answer for every node
    result = run(practice.clock, restore(fleet, RestoreWish(job), "r1", "1", lambda text: None))
    assert result.epoch == 2
    assert any(
        "scaling group trainers starts a new machine itself when n0 ends" in note for note in result.notes
    )

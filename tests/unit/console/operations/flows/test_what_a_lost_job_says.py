"""What listings say of a job that was lost: what it waits for, and a loss that does not grow once it is proven."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from backends.errors import IncompatibleError, NotFoundError
from backends.fakes.clock import run
from backends.ledger.records import Word
from console import operations
from console.operations import api
from console.operations.common import runs
from console.operations.observe import Observer
from console.operations.steps import step_words
from console.operations.view import FleetView, JobRow, risk_now
from console.tui.model.columns import job_state
from tests.support.operations import Practice
from tests.unit.console.operations.flows.test_watch_flow import watch_for

OPERATIONS = Path(operations.__file__).parent


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


def test_the_loss_stands_between_consoles_too_where_the_provider_does_not_date_it(practice: Practice) -> None:
    practice.running_job("train", "n0")
    views(practice, 0)
    practice.reclaim("n0")
    (first,) = risks(views(practice, 5))
    practice.clock.advance(3600)
    (later,) = risks(views(practice, 0))  # a command line an hour later: another program
    assert later == pytest.approx(first, abs=1)


def test_a_typed_word_ends_the_loss_that_is_shown(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    views(practice, 0)
    practice.nodes["n0"].partitioned = True
    practice.clock.advance(200)
    fleet = practice.fleet()
    fleet.ledger.add_word(Word(practice.clock.wall(), "root", "dead", "train", job.uid, 1))
    (first,) = risks(views(practice, 5))
    practice.clock.advance(900)
    (later,) = risks(views(practice, 5))
    assert later == first
    practice.nodes["n0"].partitioned = False  # the word was wrong
    assert risks(views(practice, 5))[0] >= 1100


def test_a_lost_job_that_nobody_restores_says_that_a_person_is_missing(practice: Practice) -> None:
    practice.running_job("train", "n0")
    views(practice, 0)
    practice.reclaim("n0")
    row = views(practice, 5)[0].jobs[0]
    assert row.state == "waiting_capacity"
    assert row.reason.startswith("no controller restores it: reprieve jobs restore train; node n0: ")
    assert row.awaits == "operator"
    assert str(job_state(row).text) == "⋯ waits: you", "no machine is missing"


def test_with_a_controller_its_last_word_is_the_reason(practice: Practice) -> None:
    practice.running_job("train", "n0", stop_after_reclaims=0)
    watch_for(practice, 60, {10: lambda: practice.reclaim("n0")})
    row = views(practice, 0)[0].jobs[0]
    assert "stop_after_reclaims is 0" in row.reason
    assert row.awaits == "operator"


@pytest.mark.parametrize(
    ("awaits", "word"),
    [("node", "⋯ waits: node"), ("controller", "⋯ waits: watch"), ("operator", "⋯ waits: you")],
)
def test_what_is_awaited_is_the_controllers_own_word(practice: Practice, awaits: str, word: str) -> None:
    practice.running_job("train", "n0", stop_after_reclaims=0)
    watch, _ = watch_for(practice, 60, {10: lambda: practice.reclaim("n0")})
    watch.fleet.tell("watch.alert", "job train: for a reason", job="train", data={"awaits": awaits})
    row = views(practice, 0)[0].jobs[0]
    assert (row.state, row.awaits, job_state(row).text) == ("waiting_capacity", awaits, word)
    watch.fleet.tell("restore.done", "train came back", job="train")  # what was told before is over
    assert views(practice, 0)[0].jobs[0].awaits == "controller"


def test_a_controller_without_a_machine_says_that_a_node_is_awaited(tmp_path: Path) -> None:
    practice = Practice(tmp_path)
    job = practice.running_job("train", "n0")
    watch, _ = watch_for(practice, 1)
    watch._failed(
        job,
        runs.open_run(watch.fleet, "watch", [("1", "train", {})]).id,
        IncompatibleError("no node fits"),
        {},
    )
    alerts = [event for _, event in practice.fleet().ledger.events() if event.kind == "watch.alert"]
    assert alerts[-1].data == {"awaits": "node"}


def test_a_job_that_came_back_tells_when_its_save_was_made(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    frozen_at = practice.clock.wall()
    practice.clock.advance(50)
    practice.reclaim("n0")
    run(
        practice.clock,
        api.perform(practice.fleet(), "jobs restore", {"name": "train", "to": "n1"}, lambda text: None),
    )
    held = practice.nodes["n1"].held[job.uid]
    assert held.saved is None, "not saved again yet"
    row = views(practice, 0)[0].jobs[0]
    assert row.checkpoint == "1.1"
    assert row.frozen_at == pytest.approx(frozen_at, abs=1)
    practice.nodes["n1"].partitioned = True
    row = views(practice, 0)[0].jobs[0]
    assert row.risk_base_s is None, "not the time it stood still: unknown until it is heard"


def test_steps_of_a_restore_are_told_in_plain_words() -> None:
    assert [step_words(name) for name in ("claim", "ask")] == [
        "taking over: claims the next epoch",
        "its node fetches, verifies and restores",
    ]
    assert step_words("something new") == "something new"
    used = re.findall(
        r'\.(?:intend|observe)\(\s*"([a-z ]+)"', "".join(p.read_text() for p in OPERATIONS.rglob("*.py"))
    )
    assert {name for name in used if step_words(name) == name} == set()


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

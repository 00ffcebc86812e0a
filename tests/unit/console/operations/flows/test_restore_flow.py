"""Restores on fakes: one live process or one named refusal, whatever fails, whenever the console dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backends.clock import format_utc
from backends.errors import (
    FencedError,
    IncompatibleError,
    NoProofError,
    ReprieveError,
    UnreachableError,
    UsageError,
)
from backends.fakes.clock import FakeClock, run
from backends.ledger.records import NodeSeen, Word
from backends.records.job import Job
from console.operations.common import runs
from console.operations.fleet import Fleet
from console.operations.flows.restore import Restored, RestoreWish, restore
from console.operations.polling import Poller
from tests.support.operations import Crash, Practice


def one(fleet: Fleet, wish: RestoreWish, run_id: str | None = None) -> Restored:
    async def main() -> Restored:
        nonlocal run_id
        if run_id is None:
            run_id = runs.open_run(fleet, "restore", [("1", wish.job.name, {})]).id
        return await restore(fleet, wish, run_id, "1", lambda text: None)

    clock = fleet.clock
    assert isinstance(clock, FakeClock)
    return run(clock, main())


def seen_running(fleet: Fleet) -> None:
    """A console looks at the fleet once, and keeps what it saw."""

    async def main() -> None:
        poller = Poller(fleet)
        await poller.look()
        await poller.close()

    assert isinstance(fleet.clock, FakeClock)
    run(fleet.clock, main())


@pytest.fixture(params=["memory", "store"])
def practice(request: pytest.FixtureRequest, tmp_path: Path) -> Practice:
    """On a store in memory that keeps the rules, and on the real format 1."""
    return Practice(tmp_path, real=request.param == "store")


def test_a_reclaimed_job_comes_back_once_from_its_newest_save(practice: Practice) -> None:
    job = practice.running_job("train", "n0", saves=3)
    practice.clock.advance(25)
    practice.reclaim("n0")
    fleet = practice.fleet()
    result = one(fleet, RestoreWish(job))
    assert (result.state, result.epoch, result.checkpoint) == ("restored", 2, "1.3")
    assert practice.where(job.uid) == [(result.node, 2)]
    assert result.lost_work_s == pytest.approx(25, abs=2)
    assert result.restore_s == pytest.approx(3, abs=1)
    assert result.wait_s == pytest.approx(0, abs=1)
    reclaims = fleet.ledger.reclaims()
    assert [(r.from_node, r.to_node, r.epoch, r.from_checkpoint) for r in reclaims] == [
        ("n0", result.node, 2, "1.3")
    ]
    assert reclaims[0].lost_work_s == result.lost_work_s
    assert "restore.done" in [event.kind for _, event in fleet.ledger.events()]
    assert fleet.job("train").node == result.node


def test_an_outage_that_nobody_watched_is_no_lost_work_where_the_provider_tells_the_end(
    practice: Practice,
) -> None:
    job = practice.running_job("train", "n0", saves=3)
    practice.clock.advance(25)
    practice.reclaim("n0")
    practice.cloud.ended_at["i-n0"] = format_utc(practice.clock.wall())
    practice.clock.advance(3600)  # the night, without a controller
    fleet = practice.fleet()
    result = one(fleet, RestoreWish(job))
    assert result.lost_work_s == pytest.approx(25, abs=2)
    assert [each.cause for each in fleet.ledger.reclaims()] == ["reclaim"], (
        "the provider took it, whoever restored it"
    )


def test_lost_work_is_never_below_the_truth_with_a_wrong_node_clock(practice: Practice) -> None:
    practice.nodes["n0"].offset_s = 3600.0
    job = practice.running_job("train", "n0")
    fleet = practice.fleet()
    fleet.ledger.put_node(NodeSeen("n0", practice.clock.wall(), "g", 3600.0, "none", None))
    practice.clock.advance(40)
    practice.reclaim("n0")
    result = one(fleet, RestoreWish(job))
    assert result.lost_work_s == pytest.approx(40, abs=2)
    assert result.lost_work_s is not None
    assert result.lost_work_s >= 40


def test_nodes_under_load_are_asked_once_more_before_anything_is_refused(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    for node in practice.nodes.values():
        node.answers_in_s = 8.0
    with pytest.raises(NoProofError, match="still runs on n0"):
        one(practice.fleet(), RestoreWish(job))
    practice.reclaim("n0")
    assert one(practice.fleet(), RestoreWish(job)).state == "restored"


@pytest.mark.parametrize("cloud", ["running", "stopping", "unknown", "silent"])
def test_a_partition_without_proof_restores_nothing(practice: Practice, cloud: str) -> None:
    job = practice.running_job("train", "n0")
    practice.nodes["n0"].partitioned = True
    practice.cloud.silent = cloud == "silent"
    if cloud in ("running", "stopping", "unknown"):
        practice.cloud.states["i-n0"] = cloud  # type: ignore[assignment]  # parametrised words of the port's Literal
    with pytest.raises(NoProofError) as caught:
        one(practice.fleet(), RestoreWish(job))
    assert caught.value.exit_code == 10
    assert "n0" in caught.value.message
    assert practice.side.newest_epoch(job.uid) == 1
    assert practice.where(job.uid) == [("n0", 1)]


def test_a_job_that_runs_is_not_restored_beside_itself(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    with pytest.raises(NoProofError, match="still runs on n0"):
        one(practice.fleet(), RestoreWish(job))


def test_after_a_typed_word_the_loss_is_told_from_the_last_sign_of_life_to_that_word(
    practice: Practice,
) -> None:
    job = practice.running_job("train", "n0")
    fleet = practice.fleet()
    practice.clock.advance(10)
    seen_running(fleet)
    practice.nodes["n0"].partitioned = True
    practice.clock.advance(290)
    fleet.ledger.add_word(Word(practice.clock.wall(), "root", "dead", "train", job.uid, 1))
    practice.clock.advance(3600)  # nobody had a node meanwhile, and the word is typed again
    fleet.ledger.add_word(Word(practice.clock.wall(), "root", "dead", "train", job.uid, 1))
    result = one(fleet, RestoreWish(job))
    assert result.lost_work_s == pytest.approx(300, abs=3), (
        "to the first word that stands, not to this moment"
    )
    assert result.lost_work_at_least_s == pytest.approx(10, abs=3)
    assert "to the typed word" in result.lost
    news = [event.text for _, event in fleet.ledger.events() if event.kind == "restore.done"]
    assert "lost work 10" in news[0]


def test_a_word_that_the_process_outlived_does_not_date_its_end(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    fleet = practice.fleet()
    fleet.ledger.add_word(Word(practice.clock.wall(), "root", "dead", "train", job.uid, 1))
    practice.clock.advance(100)
    seen_running(fleet)
    practice.nodes["n0"].partitioned = True
    practice.clock.advance(50)
    fleet.ledger.add_word(Word(practice.clock.wall(), "root", "dead", "train", job.uid, 1))
    result = one(fleet, RestoreWish(job))
    assert result.lost_work_s is not None
    assert result.lost_work_s >= 150


def test_the_word_counts_in_silence_but_not_against_a_running_guard(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    fleet = practice.fleet()
    fleet.ledger.add_word(Word(practice.clock.wall(), "root", "dead", "train", job.uid, 1))
    with pytest.raises(NoProofError):
        one(fleet, RestoreWish(job))
    practice.nodes["n0"].partitioned = True
    assert one(fleet, RestoreWish(job)).epoch == 2


def test_a_word_for_an_older_epoch_proves_nothing_for_a_newer_one(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    fleet = practice.fleet()
    fleet.ledger.add_word(Word(practice.clock.wall(), "root", "dead", "train", job.uid, 1))
    practice.nodes["n0"].partitioned = True
    first = one(fleet, RestoreWish(job))
    practice.nodes[first.node].partitioned = True
    with pytest.raises(NoProofError):
        one(fleet, RestoreWish(job))


def test_a_damaged_checkpoint_falls_back_and_tells_the_minutes(practice: Practice) -> None:
    job = practice.running_job("train", "n0", saves=3)
    practice.side.damage(job.uid, "1.3")
    practice.reclaim("n0")
    result = one(practice.fleet(), RestoreWish(job))
    assert result.checkpoint == "1.2"
    assert any("0.2 more minutes" in note for note in result.notes)


def test_a_failed_try_goes_to_the_next_node_under_a_new_epoch(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    practice.nodes["n1"].failures = ["died after 1.0 s, signal 4"]
    practice.reclaim("n0")
    result = one(practice.fleet(), RestoreWish(job))
    assert (result.node, result.epoch, result.failed_tries) == ("n2", 3, 1)
    assert practice.where(job.uid) == [("n2", 3)]


def test_every_try_failing_is_one_named_failure(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    for name in ("n1", "n2", "n3"):
        practice.nodes[name].failures = ["no room"] * 3
    practice.reclaim("n0")
    with pytest.raises(ReprieveError, match="no room"):
        one(practice.fleet(), RestoreWish(job))
    assert practice.where(job.uid) == []


def test_no_node_fits_is_said_before_an_epoch_is_spent(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    for name in ("n1", "n2", "n3"):
        practice.nodes[name].facts = {"arch": "aarch64"}
    practice.reclaim("n0")
    with pytest.raises(IncompatibleError, match="arch: image x86_64, node aarch64"):
        one(practice.fleet(), RestoreWish(job))
    assert practice.side.newest_epoch(job.uid) == 1


def test_a_target_lost_during_the_restore_is_followed_by_another(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    practice.reclaim("n0")
    hits: list[str] = []

    def moment(label: str) -> None:
        if label == "call restore":
            hits.append(label)
            if len(hits) == 2:
                return
            asyncio.get_running_loop().call_later(1.0, practice.reclaim, "n1")

    practice.world.moment = moment
    result = one(practice.fleet(), RestoreWish(job))
    assert practice.where(job.uid) == [(result.node, result.epoch)]
    assert (result.node, result.epoch) == ("n2", 3)


def raising(error: ReprieveError) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def answer(document: dict[str, Any]) -> dict[str, Any]:
        raise error

    return answer


BREAKS = UnreachableError("the connection was lost")
# What a guard may say that promises nothing; the last two are guards that are older than the verb.
NO_PROMISES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "it was begun": lambda document: {"declined": False, "guard": "guard-n1"},
    "another guard": lambda document: {"declined": True, "guard": "guard-other"},
    "no such field": lambda document: {"guard": "guard-n1"},
    "no truth": lambda document: {"declined": "yes", "guard": "guard-n1"},
    "unknown to the guard": raising(
        UsageError("verb 'decline' is not known to this guard; update its bundle")
    ),
    "unknown to the command": raising(UnreachableError("the call decline did not happen: exit 2")),
}


def test_calls_that_break_off_are_a_failure_once_the_guard_declines(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    documents: list[dict[str, Any]] = []

    def breaks(document: dict[str, Any]) -> dict[str, Any]:
        documents.append(document)
        raise BREAKS

    practice.nodes["n1"].on_verb["restore"] = breaks
    practice.reclaim("n0")
    result = one(practice.fleet(), RestoreWish(job))
    assert (result.node, result.epoch, result.failed_tries) == ("n2", 3, 1)
    del practice.nodes["n1"].on_verb["restore"]
    late = practice.nodes["n1"].call("restore", documents[0], timeout_s=60)
    with pytest.raises(FencedError):
        run(practice.clock, late)
    assert practice.where(job.uid) == [("n2", 3)]
    assert practice.nodes["n1"].calls.count("decline") == 1


@pytest.mark.parametrize("said", NO_PROMISES)
@pytest.mark.parametrize("refused", [False, True])
def test_without_the_promise_no_second_process_begins_and_one_line_says_why(
    practice: Practice, said: str, refused: bool
) -> None:
    job = practice.running_job("train", "n0")
    node = practice.nodes["n1"]
    node.on_verb["restore"] = raising(FencedError("epoch 2 was started here") if refused else BREAKS)
    node.on_verb["decline"] = NO_PROMISES[said]
    practice.reclaim("n0")
    fleet = practice.fleet()
    with pytest.raises(NoProofError, match="epoch 2 may still begin on n1") as caught:
        one(fleet, RestoreWish(job))
    assert "\n" not in caught.value.message
    assert "reprieve fleet install n1" in (caught.value.hint or "")
    assert node.calls.count("restore") <= 10, "it ends"
    assert practice.side.newest_epoch(job.uid) == 2
    assert practice.where(job.uid) == []
    fleet.ledger.add_word(Word(practice.clock.wall(), "root", "dead", "train", job.uid, 2))
    assert one(fleet, RestoreWish(job)).epoch == 3, "the typed word goes on"


def test_a_guard_that_is_killed_in_a_restore_is_followed_by_the_next_node(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    node = practice.nodes["n1"]

    def moment(label: str) -> None:
        if label == "call restore" and node.calls.count("restore") == 0:
            asyncio.get_running_loop().call_later(1.0, node.restart_guard)

    practice.world.moment = moment
    practice.reclaim("n0")
    result = one(practice.fleet(), RestoreWish(job))
    assert (result.node, result.epoch) == ("n2", 3)
    assert practice.where(job.uid) == [("n2", 3)]


def test_a_zombie_that_returns_is_never_chosen(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    practice.nodes["n0"].partitioned = True
    practice.nodes["n0"].store_away = True
    fleet = practice.fleet()
    fleet.ledger.add_word(Word(practice.clock.wall(), "root", "dead", "train", job.uid, 1))
    result = one(fleet, RestoreWish(job))
    old = practice.nodes["n0"]
    old.partitioned = old.store_away = False
    old.save_now(old.held[job.uid])  # commits under epoch 1 once more: an orphan
    assert old.held[job.uid].state == "zombie"
    practice.nodes[result.node].tick()
    practice.reclaim(result.node)
    again = one(fleet, RestoreWish(job))
    assert again.checkpoint is not None
    assert again.checkpoint.startswith("2.")
    assert practice.where(job.uid) == [(again.node, 3)]


def test_asking_again_after_it_is_done_changes_nothing(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    practice.reclaim("n0")
    fleet = practice.fleet()
    run_id = runs.open_run(fleet, "restore", [("1", "train", {})]).id
    first = one(fleet, RestoreWish(job), run_id)
    second = one(practice.fleet(), RestoreWish(job), run_id)
    assert (second.state, second.epoch, second.node) == ("restored", first.epoch, first.node)
    assert (second.lost_work_s, second.restore_s) == (first.lost_work_s, first.restore_s)
    assert len(fleet.ledger.reclaims()) == 1
    assert practice.where(job.uid) == [(first.node, 2)]


class Killer:
    """Kills the console at the n-th moment."""

    def __init__(self, at: int) -> None:
        self.at, self.seen = at, 0

    def __call__(self, label: str) -> None:
        self.seen += 1
        if self.seen == self.at:
            raise Crash(label)


def crash_then_resume(directory: Path, at: int, *, real: bool) -> tuple[bool, Practice, Job, Restored]:
    practice = Practice(directory, real=real)
    job = practice.running_job("train", "n0", saves=2)
    practice.reclaim("n0")
    fleet = practice.fleet()
    run_id = runs.open_run(fleet, "restore", [("1", "train", {})]).id
    killer = Killer(at)
    practice.kill_at(killer)
    crashed = False
    try:
        result = one(fleet, RestoreWish(job), run_id)
    except Crash:
        crashed = True
        practice.kill_at(lambda label: None)
        practice.clock.advance(30)
        result = one(practice.fleet(), RestoreWish(job), run_id)
    return crashed, practice, job, result


@pytest.mark.parametrize("real", [False, True])
def test_killed_at_any_moment_and_resumed_there_is_one_process(tmp_path: Path, real: bool) -> None:
    at = 0
    while True:
        at += 1
        crashed, practice, job, result = crash_then_resume(tmp_path / str(at), at, real=real)
        assert practice.where(job.uid) == [(result.node, result.epoch)], at
        assert all(practice.world.starts(job.uid, epoch) <= 1 for epoch in range(5)), at
        if not crashed:
            break
    assert at > 15
    print(f"{at - 1} moments of a restore killed and resumed")


@pytest.mark.parametrize("real", [False, True])
def test_killed_at_any_moment_another_console_finishes_it(tmp_path: Path, real: bool) -> None:
    """Without the first one's journal: the take-over must work from the store and the node alone."""
    for at in range(1, 60):
        practice = Practice(tmp_path / str(at), real=real)
        job = practice.running_job("train", "n0", saves=2)
        practice.reclaim("n0")
        practice.kill_at(Killer(at))
        try:
            one(practice.fleet("first"), RestoreWish(job))
            break
        except Crash:
            pass
        practice.kill_at(lambda label: None)
        practice.directory = tmp_path / f"{at}-other"
        said = "still runs"
        try:
            one(practice.fleet("second"), RestoreWish(job))
        except NoProofError as error:
            said = error.message
        assert "still runs" in said, at
        assert len(practice.where(job.uid)) == 1, at


@pytest.mark.parametrize("ending", ["finished", "failed"])
def test_a_job_that_ends_right_after_its_restore(practice: Practice, ending: str) -> None:
    """Finished is done; died is a failed try, and there are only so many of them."""
    job = practice.running_job("train", "n0")
    practice.reclaim("n0")

    def moment(label: str) -> None:
        if label != "answered restore":
            return
        for node in practice.nodes.values():
            held = node.held.get(job.uid)
            if held is not None and held.process is not None and held.epoch > 1 and held.process.alive:
                held.process.alive, held.state = False, ending

    practice.world.moment = moment
    if ending == "finished":
        assert one(practice.fleet(), RestoreWish(job)).epoch == 2
    else:
        with pytest.raises(ReprieveError, match="after 3 tries"):
            one(practice.fleet(), RestoreWish(job))
    assert practice.where(job.uid) == []
    assert practice.side.newest_epoch(job.uid) == (2 if ending == "finished" else 4)

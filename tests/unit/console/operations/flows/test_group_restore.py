"""Bringing a group back on fakes: all from one group save, none twice, nothing touched unless all can come."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from backends.errors import IncompatibleError, NoProofError, ReprieveError
from backends.fakes.clock import FakeClock, run
from backends.records.job import Job
from console.operations.common import runs
from console.operations.fleet import Fleet
from console.operations.flows.group.restore import GroupRestored, restore_group
from tests.support.operations import Crash, Practice
from tests.unit.console.operations.flows.test_group_save import GROUP, Killer, group_of, save


def bring(fleet: Fleet, number: int | None = None) -> GroupRestored:
    async def main() -> GroupRestored:
        opened = runs.open_run(fleet, "group-restore", [("1", "", {})])
        return await restore_group(fleet, GROUP, number, None, opened.id, lambda text: None)

    assert isinstance(fleet.clock, FakeClock)
    return run(fleet.clock, main())


@pytest.fixture(params=["memory", "store"])
def practice(request: pytest.FixtureRequest, tmp_path: Path) -> Practice:
    """On a store in memory that keeps the rules, and on the real format 1."""
    return Practice(tmp_path, real=request.param == "store")


def saved_group(practice: Practice, count: int = 3) -> list[Job]:
    """A group that was saved together, and whose members have each saved alone since."""
    jobs = group_of(practice, count)
    save(practice.fleet())
    for job in jobs:
        practice.clock.advance(10)
        node = practice.nodes[job.node]
        node.save_now(node.held[job.uid])
    return jobs


def continued(practice: Practice, job: Job) -> tuple[int, str]:
    """Epoch and origin of the one live process."""
    live = practice.world.live(job.uid)
    assert len(live) == 1, live
    return live[0].epoch, live[0].continues


def test_one_lost_member_takes_all_back_to_the_save_they_share(practice: Practice) -> None:
    jobs = saved_group(practice)
    practice.reclaim("n1")
    fleet = practice.fleet()
    result = bring(fleet)
    assert [each.state for each in result.restored] == ["restored"] * 3
    assert not result.failed
    assert {each.checkpoint for each in result.restored} == {"1.2"}, "not the newer ones of each alone"
    assert [continued(practice, job) for job in jobs] == [(2, "1.2")] * 3
    assert (result.epoch.number, result.epoch.save) == (1, 1)
    assert fleet.truth(jobs[0]).group_epochs(GROUP)[0].members == result.epoch.members
    assert all("n1" not in where for job in jobs for where, _ in practice.where(job.uid))


def test_a_second_loss_goes_back_to_the_newest_group_save(practice: Practice) -> None:
    jobs = saved_group(practice)
    practice.reclaim("n1")
    bring(practice.fleet())
    practice.clock.advance(30)
    for job in jobs:
        node = next(each for each in practice.nodes.values() if practice.where(job.uid)[0][0] == each.name)
        node.save_now(node.held[job.uid])
    second = save(practice.fleet())
    assert second.number == 2
    practice.reclaim(practice.where(jobs[0].uid)[0][0])
    result = bring(practice.fleet())
    assert (result.epoch.number, result.save.number) == (2, 2)
    for job in jobs:
        assert continued(practice, job) == (3, second.checkpoint_of(job.uid))


def test_without_proof_for_one_none_is_touched(practice: Practice) -> None:
    jobs = saved_group(practice)
    practice.nodes["n1"].partitioned = True
    fleet = practice.fleet()
    with pytest.raises(NoProofError, match="none of its jobs was touched: rank1"):
        bring(fleet)
    assert [practice.where(job.uid) for job in jobs] == [[(f"n{n}", 1)] for n in range(3)]
    assert not fleet.truth(jobs[0]).group_epochs(GROUP)


def test_where_one_fits_nowhere_none_is_ended(practice: Practice) -> None:
    jobs = saved_group(practice)
    practice.reclaim("n1")
    for node in practice.nodes.values():
        node.facts = {"arch": "aarch64", "kernel": "6.1"}
    with pytest.raises(IncompatibleError, match="none of its jobs was touched: no node can take rank0"):
        bring(practice.fleet())
    assert [practice.where(job.uid) for job in jobs if job.name != "rank1"] == [[("n0", 1)], [("n2", 1)]]


def test_a_damaged_member_means_the_group_save_before(practice: Practice) -> None:
    jobs = saved_group(practice)
    second = save(practice.fleet())
    practice.side.damage(jobs[2].uid, second.checkpoint_of(jobs[2].uid) or "")
    practice.reclaim("n1")
    result = bring(practice.fleet())
    assert result.save.number == 1
    assert {each.checkpoint for each in result.restored} == {"1.2"}


def test_a_changed_group_is_not_brought_back_by_halves(practice: Practice) -> None:
    jobs = saved_group(practice)
    practice.running_job("rank9", "n3", group=GROUP)
    practice.reclaim("n1")
    with pytest.raises(IncompatibleError, match="rank9 was not in it"):
        bring(practice.fleet())
    assert practice.where(jobs[0].uid) == [("n0", 1)]
    practice.records.remove_job("rank9")
    practice.records.remove_job("rank2")
    with pytest.raises(IncompatibleError, match="rank2 was in it and is not any more"):
        bring(practice.fleet())


def test_no_group_save_is_said_with_what_makes_one(practice: Practice) -> None:
    group_of(practice)
    with pytest.raises(IncompatibleError, match="none was ever made") as caught:
        bring(practice.fleet())
    assert "reprieve jobs save --group ranks" in (caught.value.hint or "")


def test_a_member_that_fails_is_named_and_the_next_try_sets_all_right(practice: Practice) -> None:
    jobs = saved_group(practice)
    practice.reclaim("n1")
    for node in practice.nodes.values():
        node.failures = ["criu restore ended with 1"] * 3
    result = bring(practice.fleet())
    assert result.failed
    for node in practice.nodes.values():
        node.failures = []
    practice.clock.advance(60)
    again = bring(practice.fleet())
    assert not again.failed
    for job in jobs:
        assert continued(practice, job)[1] == "1.2"


@pytest.mark.parametrize(("real", "each"), [(False, 25), pytest.param(True, 1, marks=pytest.mark.prove)])
def test_killed_at_any_moment_another_console_brings_all_back_to_one_save(
    tmp_path: Path, real: bool, each: int
) -> None:
    """By the store and the guards alone: the second console has another journal."""
    at = 0
    while True:
        at += each
        practice = Practice(tmp_path / str(at), real=real)
        jobs = saved_group(practice, 2)
        practice.reclaim("n1")
        killer = Killer(at)
        practice.kill_at(killer)
        with contextlib.suppress(Crash):
            bring(practice.fleet("first", state="first"))
        practice.kill_at(lambda label: None)
        practice.clock.advance(90)
        for node in practice.nodes.values():
            node.tick()
        fleet = practice.fleet("second", state="second")
        for _ in range(3):
            try:
                bring(fleet)
                break
            except (
                ReprieveError
            ) as error:  # a member that the first one ended: only its journal holds that word
                assert "proof" in error.message or "still" in error.message, at
                typed(practice, fleet, jobs)
        assert {continued(practice, job)[1] for job in jobs} == {"1.2"}, at
        assert all(practice.world.starts(job.uid, epoch) <= 1 for job in jobs for epoch in range(6)), at
        if killer.seen < at:
            break
    assert at > 25


def typed(practice: Practice, fleet: Fleet, jobs: list[Job]) -> None:
    """The operator's word for members of which nothing runs."""
    from backends.ledger.records import Word

    for job in jobs:
        if not practice.world.live(job.uid):
            epochs = [view.epoch for view in fleet.truth(job).lineage(job.uid).epochs]
            for epoch in epochs:
                fleet.ledger.add_word(Word(fleet.clock.wall(), "me", "dead", job.name, job.uid, epoch))


def test_the_controller_does_not_bring_one_member_back_alone(practice: Practice) -> None:
    from console.operations.flows.watch import Watch

    jobs = saved_group(practice)
    practice.reclaim("n1")
    fleet = practice.fleet()
    told: list[str] = []
    watch = Watch(fleet, told.append)
    actions = run(practice.clock, watch.once())
    assert [(each.kind, each.job) for each in actions] == [("alert", "rank1")]
    assert "`reprieve jobs restore --group ranks`" in actions[0].reason
    assert practice.where(jobs[1].uid) == []

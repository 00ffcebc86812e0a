"""The controller on fakes: it restores what was proven lost, by policy and priority, and nothing else."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backends.clock import parse_utc
from backends.errors import StillRunningError, UnreachableError
from backends.fakes.clock import run
from backends.inventory.model import Renting
from backends.ledger.records import Word
from backends.records.job import Job
from backends.records.node import Node
from console.operations.common import runs
from console.operations.decide.batch import BatchItem
from console.operations.fleet import Fleet
from console.operations.flows import batch
from console.operations.flows.restore import RestoreWish, restore
from console.operations.flows.watch import Watch
from console.operations.observe import Observer
from tests.support.operations import Practice


@pytest.fixture
def practice(tmp_path: Path) -> Practice:
    return Practice(tmp_path)


def watch_for(
    practice: Practice,
    seconds: float,
    script: dict[float, Callable[[], None]] | None = None,
    fleet: Fleet | None = None,
) -> tuple[Watch, list[str]]:
    """Let a controller, and the guards, live for so long; `script` acts at given moments."""
    told: list[str] = []

    async def main() -> Watch:
        watch = Watch(fleet or practice.fleet("controller"), told.append, every_s=2.0)
        task = asyncio.create_task(watch.run())
        acts = sorted((script or {}).items(), key=lambda pair: pair[0])
        passed = 0.0
        while passed < seconds:
            await asyncio.sleep(1.0)
            passed += 1.0
            while acts and acts[0][0] <= passed:
                acts.pop(0)[1]()
            for node in practice.nodes.values():
                node.tick()
        watch.stopping = True
        await task
        return watch

    return run(practice.clock, main()), told


def kinds(practice: Practice) -> list[str]:
    return [event.kind for _, event in practice.fleet().ledger.events()]


def test_a_silent_reclaim_is_found_and_the_job_comes_back(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    watch_for(practice, 60, {10: lambda: practice.reclaim("n0")})
    assert [epoch for _, epoch in practice.where(job.uid)] == [2]
    reclaim = practice.fleet().ledger.reclaims()[0]
    assert reclaim.from_node == "n0"
    assert reclaim.notice is False
    assert reclaim.lost_work_s is not None
    assert reclaim.lost_work_s >= 10
    assert reclaim.lost_work_s <= 10 + 2 + 3
    assert reclaim.least_lost_s is not None
    assert reclaim.least_lost_s <= 10.01
    assert reclaim.wait_s == 0, "a node of ours was ready at once"
    assert reclaim.restore_s is not None
    assert reclaim.restore_s >= practice.nodes["n1"].restore_takes_s
    assert "node.lost" in kinds(practice)
    assert "save.committed" in kinds(practice)


def test_a_silent_node_is_not_waited_for(practice: Practice) -> None:
    practice.running_job("train", "n0")
    watch_for(practice, 90, {5: cut(practice, "n3"), 10: lambda: practice.reclaim("n0")})
    reclaim = practice.fleet().ledger.reclaims()[0]
    assert reclaim.wait_s == 0
    assert reclaim.restore_s is not None
    assert reclaim.restore_s < practice.nodes["n1"].restore_takes_s + 4


def test_twenty_five_time_outs_kill_nothing(practice: Practice) -> None:
    job = practice.running_job("train", "n0")

    def silent() -> None:
        practice.nodes["n0"].partitioned = True

    def back() -> None:
        practice.nodes["n0"].partitioned = False

    watch_for(practice, 400, {5: silent, 350: back})
    assert practice.where(job.uid) == [("n0", 1)]
    assert practice.side.newest_epoch(job.uid) == 1
    assert "node.lost" not in kinds(practice)


@pytest.mark.parametrize("noticed", [True, False])
def test_a_job_that_ends_after_a_notice_was_reclaimed_one_that_just_vanishes_is_left_alone(
    practice: Practice, noticed: bool
) -> None:
    job = practice.running_job("train", "n0")
    node = practice.nodes["n0"]

    def ends() -> None:
        held = node.held[job.uid]
        assert held.process is not None
        held.process.alive, held.state, held.reclaimed = False, "ended_unknown", noticed
        node.notice = "notice" if noticed else "none"

    watch, _ = watch_for(practice, 60, {10: ends})
    where = practice.where(job.uid)
    assert [epoch for _, epoch in where] == ([2] if noticed else [])
    assert [name for name, _ in where if name == "n0"] == [], "its node is about to be taken"
    row = Observer(watch.fleet, watch.poller).build(watch.poller.known).jobs[0]
    assert row.state == ("unrehearsed" if noticed else "ended_unknown")


def terminates(practice: Practice, *, obeys: bool = True) -> None:
    """Node n0 asks to be terminated when silent; its provider obeys, or says that it still runs."""
    node = dataclasses.replace(
        practice.records.nodes()["n0"], on_unreachable="terminate", terminate_after_s=120.0
    )
    practice.records.put_node(node)

    def ended(instance: str) -> None:
        if obeys:
            practice.nodes["n0"].reclaim()
        else:
            practice.cloud.states[instance] = "stopping"

    practice.cloud.on_terminate = ended


def cut(practice: Practice, *names: str) -> Callable[[], None]:
    def act() -> None:
        for name in names:
            practice.nodes[name].partitioned = True

    return act


def test_a_silent_node_is_terminated_where_its_record_asks_for_it_and_its_job_comes_back(
    practice: Practice,
) -> None:
    job = practice.running_job("train", "n0")
    terminates(practice)
    watch_for(practice, 115, {5: cut(practice, "n0")})
    assert practice.cloud.ended == []
    watch_for(practice, 60)
    assert practice.cloud.ended == ["i-n0"]
    assert [epoch for _, epoch in practice.where(job.uid)] == [2]
    assert "node.fencing" in kinds(practice)


def test_a_termination_that_nobody_confirms_proves_nothing(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    terminates(practice, obeys=False)
    watch_for(practice, 500, {5: cut(practice, "n0")})
    assert practice.cloud.ended == ["i-n0"]
    assert practice.where(job.uid) == [("n0", 1)]
    assert practice.side.newest_epoch(job.uid) == 1


def test_a_controller_that_hears_less_than_it_misses_terminates_nothing(practice: Practice) -> None:
    practice.running_job("train", "n0")
    terminates(practice)
    _, told = watch_for(practice, 300, {5: cut(practice, "n0", "n1", "n2")})
    assert practice.cloud.ended == []
    assert any("cut off" in text for text in told)


def test_no_capacity_asks_for_a_replacement_and_installs_the_guard(tmp_path: Path) -> None:
    practice = Practice(tmp_path, nodes=1)
    job = practice.running_job("train", "n0")
    watch_for(practice, 60, {10: lambda: practice.reclaim("n0")})
    assert practice.installed == ["r1"]
    assert practice.where(job.uid) == [("r1", 2)]
    reclaim = practice.fleet().ledger.reclaims()[0]
    assert reclaim.wait_s is not None
    assert reclaim.wait_s >= 5
    assert reclaim.restore_s is not None
    assert reclaim.restore_s >= practice.nodes["r1"].restore_takes_s
    began = next(e for _, e in practice.fleet().ledger.events() if e.kind == "node.lost")
    ended = next(e for _, e in practice.fleet().ledger.events() if e.kind == "restore.done")
    whole_s = parse_utc(ended.time) - parse_utc(began.time)
    assert reclaim.wait_s + reclaim.restore_s == pytest.approx(whole_s, abs=0.01)


HOME, OTHER = "aws/r-1/big/linux", "aws/r-2/big/linux"
LIMITS = Renting(rent=True, on_demand=True, max_usd=50.0, max_nodes=2)


def rented(tmp_path: Path, policy: str, limits: Renting = LIMITS, **fields: Any) -> tuple[Practice, Job]:
    """A fleet of one machine of AWS whose job may be restored under `policy`."""
    practice = Practice(tmp_path, nodes=1, pool=HOME, provider="aws")
    practice.records.limits = limits
    return practice, practice.running_job("train", "n0", restore=policy, **fields)


def test_a_machine_is_rented_within_limits_and_marked(tmp_path: Path) -> None:
    practice, job = rented(tmp_path, "same-pool")
    watch_for(practice, 60, {10: lambda: practice.reclaim("n0")})
    assert practice.cloud.rented[0] == (HOME, "spot", 50.0)
    assert practice.where(job.uid) == [("r1", 2)]
    assert practice.records.nodes()["r1"].labels == {"rented": "spot"}


def test_nothing_is_rented_unless_the_fleet_says_so(tmp_path: Path) -> None:
    practice, job = rented(tmp_path, "any-pool", Renting())
    _, told = watch_for(practice, 60, {10: lambda: practice.reclaim("n0")})
    assert practice.cloud.rented == []
    assert practice.where(job.uid) == []
    assert sum("renting is off" in text for text in told) == 1


def test_a_rented_machine_that_never_answers_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    practice, job = rented(tmp_path, "same-pool")
    fleet = practice.fleet("controller")

    async def never(node: Node) -> None:
        raise UnreachableError(f"node {node.name}: connection refused")

    monkeypatch.setattr(fleet.installer, "install", never)
    _, told = watch_for(practice, 400, {10: lambda: practice.reclaim("n0")}, fleet)
    assert practice.where(job.uid) == []
    assert practice.cloud.cancelled[0] == practice.cloud.asked_tokens[0], "what was asked for is given up"
    assert "r1" not in practice.records.nodes()
    happened = kinds(practice)
    assert happened.index("node.rented") < happened.index("node.returned")
    assert len(set(practice.cloud.asked_tokens)) <= 2, "the next try is another request"
    assert any("does not answer yet" in text for text in told)


def test_any_pool_goes_on_to_the_next_one(tmp_path: Path) -> None:
    practice, job = rented(tmp_path, "any-pool")
    practice.add_node("far", pool=OTHER)
    practice.records.put_node(dataclasses.replace(practice.records.nodes()["far"], cordoned=True))
    practice.cloud.short.add((HOME, "spot"))
    watch_for(practice, 120, {10: lambda: practice.reclaim("n0")})
    asked = [pool for pool, _, _ in practice.cloud.rented]
    assert asked[0] == HOME
    assert asked[-1] == OTHER
    assert asked.count(HOME) == 1, "a pool that had nothing is left alone for a minute"
    assert [practice.records.nodes()[node].pool for node, _ in practice.where(job.uid)] == [OTHER]


def test_on_demand_after_so_long_without_spot(tmp_path: Path) -> None:
    practice, job = rented(tmp_path, "on-demand-after=10m")
    practice.cloud.delay_s = 10_000.0  # spot stays pending

    def cheaper() -> None:
        practice.cloud.delay_s = 5.0

    watch_for(practice, 700, {10: lambda: practice.reclaim("n0"), 615: cheaper})
    assert practice.cloud.cancelled, "the pending spot request is given up"
    assert practice.cloud.rented[-1][1] == "on_demand"
    assert [epoch for _, epoch in practice.where(job.uid)] == [2]
    node = practice.where(job.uid)[0][0]
    assert practice.records.nodes()[node].labels == {"rented": "on_demand"}


def test_a_job_is_restored_by_itself_only_as_often_as_its_policy_says(practice: Practice) -> None:
    job = practice.running_job("train", "n0", stop_after_reclaims=1)

    def again() -> None:
        practice.reclaim(practice.where(job.uid)[0][0])

    _, told = watch_for(practice, 200, {10: again, 120: again})
    assert practice.where(job.uid) == []
    assert practice.side.newest_epoch(job.uid) == 2
    assert any("stop_after_reclaims is 1" in text for text in told)


def test_a_job_that_does_not_pay_any_more_is_left_to_the_operator(practice: Practice) -> None:
    job = practice.running_job("train", "n0", discount=0.05, stop_when_unpaid=True)
    practice.fleet().tell("job.protected", "under guard", job="train")

    def again() -> None:
        practice.reclaim(practice.where(job.uid)[0][0])

    _, told = watch_for(practice, 300, {60: again, 200: again})
    assert practice.where(job.uid) == []
    assert any("does not pay for it any more" in text for text in told)


def test_jobs_of_one_lost_node_share_one_replacement(tmp_path: Path) -> None:
    practice = Practice(tmp_path, nodes=1)
    jobs = [practice.running_job(f"j{number}", "n0") for number in range(3)]
    watch_for(practice, 90, {10: lambda: practice.reclaim("n0")})
    assert set(practice.installed) == {"r1"}
    assert all(practice.where(job.uid) == [("r1", 2)] for job in jobs)


def test_owned_only_rents_nothing_elsewhere(tmp_path: Path) -> None:
    practice = Practice(tmp_path, nodes=1)
    job = practice.running_job("train", "n0")
    from dataclasses import replace

    node = replace(practice.records.nodes()["n0"], provider="aws")
    practice.records.put_node(node)
    fleet = practice.fleet("controller")
    fleet.cloud_of = lambda node: practice.cloud
    _, told = watch_for(practice, 60, {10: lambda: practice.reclaim("n0")}, fleet)
    assert practice.cloud.asked == {}
    assert practice.where(job.uid) == []
    assert any("nothing is rented" in text for text in told)


def test_higher_priority_comes_back_first(practice: Practice) -> None:
    for number in range(6):
        practice.running_job(f"j{number}", "n0", priority=number)
    watch_for(practice, 90, {10: lambda: practice.reclaim("n0")})
    order = [uid[:2] for uid, epoch, _ in practice.book.chosen if epoch == 2]
    assert sorted(order[:6], reverse=True) == order[:6]


def test_two_restores_from_one_checkpoint_stop_with_an_alert(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    for node in practice.nodes.values():
        node.tick = lambda: None  # type: ignore[method-assign]  # no new save is ever taken

    def lose() -> None:
        for name, _ in practice.where(job.uid):
            practice.reclaim(name)

    _, told = watch_for(practice, 200, {10: lose, 60: lose, 110: lose})
    assert practice.where(job.uid) == []
    assert practice.side.newest_epoch(job.uid) == 3
    assert sum("without a new save" in text for text in told) == 1


def test_finished_stopped_and_paused_jobs_are_left_alone(practice: Practice) -> None:
    jobs = [practice.running_job(name, "n0") for name in ("a", "b", "c")]
    for job, state in zip(jobs, ("finished", "stopped", "paused"), strict=True):
        practice.nodes["n0"].held[job.uid].state = state
    watch_for(practice, 60, {10: lambda: practice.reclaim("n0")})
    assert all(practice.where(job.uid) == [] for job in jobs)


def test_a_job_frozen_behind_an_epoch_that_nobody_finished_is_told_once(practice: Practice) -> None:
    job = practice.running_job("train", "n0")

    def claimed() -> None:  # by a console that was killed before it named a guard
        practice.side.truth("killed").claim(job.uid, 2, "ab" * 16, {"kind": "word"})

    _, told = watch_for(practice, 60, {10: claimed})
    found = [text for text in told if "train stands still" in text]
    assert len(found) == 1
    assert found[0].startswith("ALERT")
    assert "`reprieve jobs restore train`" in found[0]


def test_a_restore_by_hand_that_failed_behind_a_killed_console_is_told(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    practice.reclaim("n0")
    fleet = practice.fleet()
    run_id = runs.open_run(fleet, "restore", [("1", "train", {})]).id
    with pytest.raises(StillRunningError):
        run(
            practice.clock,
            restore(fleet, RestoreWish(job, wait=False), run_id, "1", lambda text: None),
        )
    assert practice.nodes["n1"].held[job.uid].state == "restoring"

    _, told = watch_for(practice, 60, {1.5: practice.nodes["n1"].restart_guard})
    assert [text for text in told if "train stands still: its restore on n1 was not finished" in text]
    row = run(practice.clock, batch.plan(fleet, [BatchItem("train")], refusals=True))[0]
    assert (row["node"], row.get("refused")) == ("n1", None), "what the alert tells to type is not refused"
    run(practice.clock, restore(fleet, RestoreWish(job), run_id, "1", lambda text: None))
    assert [epoch for _, epoch in practice.where(job.uid)] == [3]


def test_a_zombie_beside_the_copy_that_runs_does_not_stand_still(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    fleet = practice.fleet()
    fleet.ledger.add_word(Word(practice.clock.wall(), "root", "dead", "train", job.uid, 1))
    practice.nodes["n0"].partitioned = True
    run_id = runs.open_run(fleet, "restore", [("1", "train", {})]).id
    run(practice.clock, restore(fleet, RestoreWish(job), run_id, "1", lambda text: None))
    practice.nodes["n0"].partitioned = False
    _, told = watch_for(practice, 30)
    assert practice.nodes["n0"].held[job.uid].state == "zombie"
    assert not [text for text in told if "stands still" in text]


def test_many_zombies_suspend_takeovers(practice: Practice) -> None:
    job = practice.running_job("train", "n0")
    fleet = practice.fleet("controller")
    for _ in range(4):
        fleet.tell("job.zombie", "a zombie")
    _, told = watch_for(practice, 60, {10: lambda: practice.reclaim("n0")}, fleet)
    assert practice.where(job.uid) == []
    assert any("suspended" in text for text in told)


def test_a_killed_controller_is_followed_by_one_that_goes_on(practice: Practice) -> None:
    job = practice.running_job("train", "n0")

    class Stop(BaseException):
        """Killed."""

    calls: list[str] = []

    def moment(label: str) -> None:
        if label == "answered restore":
            calls.append(label)
            raise Stop

    practice.world.moment = moment

    async def first() -> None:
        watch = Watch(practice.fleet("controller"), lambda text: None, every_s=2.0)
        practice.reclaim("n0")
        await watch.once()

    with pytest.raises(Stop):
        run(practice.clock, first())
    practice.world.moment = lambda label: None
    _, told = watch_for(practice, 30)
    assert any("going on" in text for text in told)
    assert len(practice.where(job.uid)) == 1
    assert practice.side.newest_epoch(job.uid) == 2
    assert practice.fleet().ledger.reclaims()[0].from_node == "n0"


def test_no_controller_since_is_seen_by_every_console(practice: Practice) -> None:
    watch_for(practice, 20)
    stopped = practice.clock.wall()

    async def views() -> tuple[str | None, float | None, str | None, float | None]:
        observer = Observer(practice.fleet())
        first = await observer.view()
        await asyncio.sleep(120)
        second = await observer.view()
        await observer.close()
        return first.controller, first.no_controller_since, second.controller, second.no_controller_since

    alive, none_yet, dead, since = run(practice.clock, views())
    assert alive is not None
    assert alive.startswith("controller (")
    assert none_yet is None
    assert dead is None
    assert since == pytest.approx(stopped, abs=5)


def test_a_controller_of_a_fleet_without_a_default_store_is_seen(practice: Practice) -> None:
    practice.running_job("train", "n0")
    fleet = practice.fleet("controller")
    fleet.context = dataclasses.replace(fleet.context, store=None)
    watch_for(practice, 20, fleet=fleet)

    async def view() -> str | None:
        looker = practice.fleet()
        looker.context = dataclasses.replace(looker.context, store=None)
        observer = Observer(looker)
        try:
            return (await observer.view()).controller
        finally:
            await observer.close()

    assert (run(practice.clock, view()) or "").startswith("controller (")


def test_two_controllers_on_one_store_restore_each_job_once(practice: Practice) -> None:
    jobs = [practice.running_job(f"j{number}", "n0") for number in range(5)]
    first = practice.fleet("one")
    practice.directory = practice.directory / "second"
    second = practice.fleet("two")

    async def main() -> None:
        watches = [Watch(fleet, lambda text: None, every_s=2.0) for fleet in (first, second)]
        tasks = [asyncio.create_task(watch.run()) for watch in watches]
        await asyncio.sleep(4)
        practice.reclaim("n0")
        await asyncio.sleep(120)
        for watch in watches:
            watch.stopping = True
        await asyncio.gather(*tasks)

    run(practice.clock, main())
    for job in jobs:
        assert len(practice.where(job.uid)) == 1
        assert all(practice.world.starts(job.uid, epoch) <= 1 for epoch in range(9))

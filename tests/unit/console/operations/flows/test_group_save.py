"""Saving a group on fakes: one moment for all, all or nothing, and nobody stands still for ever."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.errors import EngineError, ReprieveError, StillRunningError, UsageError
from backends.fakes.clock import FakeClock, run
from backends.ids import CheckpointId
from backends.records.group import GroupSave
from backends.records.job import Job
from console.operations.common import runs
from console.operations.fleet import Fleet
from console.operations.flows.group.save import save_group
from tests.support.operations import Crash, Practice

GROUP = "ranks"


def save(fleet: Fleet) -> GroupSave:
    async def main() -> GroupSave:
        opened = runs.open_run(fleet, "group-save", [("1", "", {})])
        return await save_group(fleet, GROUP, opened.id, lambda text: None)

    assert isinstance(fleet.clock, FakeClock)
    return run(fleet.clock, main())


def group_of(practice: Practice, count: int = 4) -> list[Job]:
    return [practice.running_job(f"rank{n}", f"n{n}", group=GROUP) for n in range(count)]


@pytest.fixture(params=["memory", "store"])
def practice(request: pytest.FixtureRequest, tmp_path: Path) -> Practice:
    """On a store in memory that keeps the rules, and on the real format 1."""
    return Practice(tmp_path, real=request.param == "store")


def all_run(practice: Practice, jobs: list[Job], but: str = "") -> bool:
    for node in practice.nodes.values():
        node.tick()
    return all(practice.where(job.uid) == [(job.node, 1)] for job in jobs if job.name != but)


def test_all_members_stand_still_at_one_instant_and_one_record_says_so(practice: Practice) -> None:
    jobs = group_of(practice)
    for number, node in enumerate(practice.nodes.values()):
        node.boot_ahead_s = 1000.0 * number  # each machine was started at another time
    stood: dict[str, float] = {}

    def moment(label: str) -> None:
        if label.startswith("frozen "):
            stood[label.removeprefix("frozen ")] = practice.clock.monotonic()
        if label == "answered release" and len(stood) == 4:
            assert [each for job in jobs for each in practice.world.live(job.uid)], "the first one runs again"

    practice.kill_at(moment)
    fleet = practice.fleet()
    record = save(fleet)
    assert sorted(stood) == [f"rank{n}" for n in range(4)]
    assert max(stood.values()) - min(stood.values()) < 1e-6
    assert [(each.name, each.checkpoint) for each in record.members] == [
        (f"rank{n}", "1.2") for n in range(4)
    ]
    assert (record.number, record.name) == (1, GROUP)
    assert record.skew_s < 0.05
    assert fleet.truth(jobs[0]).group_saves(GROUP) == (record,)
    assert all_run(practice, jobs)
    assert save(practice.fleet()).number == 2
    events = [event.text for _, event in fleet.ledger.events(kinds=("group.saved",))]
    assert "4 jobs" in events[0]
    assert "stood still within" in events[0]


def test_nobody_runs_on_before_all_are_saved(practice: Practice) -> None:
    jobs = group_of(practice)
    practice.nodes["n2"].dump_takes_s = 7.0
    ran: list[str] = []

    def moment(label: str) -> None:
        if label == "frozen rank2":
            ran.append("frozen")
        if label == "call release":
            ran.append("release")
            assert practice.clock.monotonic() >= begun + 7.0

    begun = practice.clock.monotonic()
    practice.kill_at(moment)
    save(practice.fleet())
    assert ran.count("release") == 4
    assert all_run(practice, jobs)


@pytest.mark.parametrize("how", ["dies frozen", "dies before", "cannot", "its store is away", "refuses"])
def test_one_that_cannot_means_no_group_save_and_all_others_run_on(practice: Practice, how: str) -> None:
    jobs = group_of(practice)
    node = practice.nodes["n2"]
    if how == "cannot":
        node.hold_failures = ["the staging disk is full"]
    elif how == "its store is away":
        node.store_away = True
    elif how == "refuses":
        node.on_verb["hold"] = refuse
    else:

        def moment(label: str) -> None:
            if label == ("frozen rank2" if how == "dies frozen" else "call hold"):
                node.reclaim()

        practice.kill_at(moment)
    fleet = practice.fleet()
    with pytest.raises(ReprieveError) as caught:
        save(fleet)
    assert "rank2" in caught.value.message or "n2" in caught.value.message
    assert not fleet.truth(jobs[0]).group_saves(GROUP)
    practice.clock.advance(5)
    assert all_run(practice, jobs, but="rank2"), "before any guard's limit: they were told"


def refuse(document: dict[str, object]) -> dict[str, object]:
    raise UsageError(
        "job rank2 cannot be saved with its group: NCCL's connections between nodes do not come back"
    )


def test_a_late_or_busy_member_means_another_instant(practice: Practice) -> None:
    jobs = group_of(practice)
    node = practice.nodes["n1"]
    asked: list[str] = []

    def hold(document: dict[str, object]) -> dict[str, object]:
        asked.append(str(document["group"]))
        if len(asked) == 1:
            raise StillRunningError("job rank1 is being saved")
        del node.on_verb["hold"]
        return {"state": "failed", "froze": None, "late": True, "error": "it came too late"}

    node.on_verb["hold"] = hold
    assert save(practice.fleet()).number == 1
    assert len(set(asked)) == 2
    assert all_run(practice, jobs)


def test_what_is_late_again_and_again_is_given_up(practice: Practice) -> None:
    jobs = group_of(practice)
    late = {"state": "failed", "froze": None, "late": True, "error": "it came too late"}
    practice.nodes["n1"].on_verb["hold"] = lambda document: dict(late)
    with pytest.raises(EngineError, match="rank1: it came too late; every job runs on"):
        save(practice.fleet())
    assert practice.nodes["n0"].calls.count("hold") == 3
    assert all_run(practice, jobs)


class Killer:
    """Kills the console at its nth act."""

    def __init__(self, at: int) -> None:
        self.at, self.seen = at, 0

    def __call__(self, label: str) -> None:
        self.seen += 1
        if self.seen == self.at:
            raise Crash(label)


@pytest.mark.parametrize(
    ("real", "each"),
    [
        (False, 5),
        pytest.param(False, 1, marks=pytest.mark.prove),
        pytest.param(True, 1, marks=pytest.mark.prove),
    ],
)
def test_a_console_killed_at_any_moment_leaves_a_whole_group_save_or_none(
    tmp_path: Path, real: bool, each: int
) -> None:
    at = 0
    while True:
        at += each
        practice = Practice(tmp_path / str(at), nodes=3, real=real)
        jobs = group_of(practice, 3)
        killer = Killer(at)
        practice.kill_at(killer)
        with contextlib.suppress(Crash):
            save(practice.fleet())
        practice.kill_at(lambda label: None)
        practice.clock.advance(11)  # hold_s, by the freezes known
        assert all_run(practice, jobs), at
        fleet = practice.fleet("second", state="other")
        for record in fleet.truth(jobs[0]).group_saves(GROUP):
            for member in record.members:
                held = fleet.truth(jobs[0]).names(member.job_uid)
                assert member.checkpoint in held, at
                assert CheckpointId.parse(member.checkpoint).epoch == 1
            assert len(record.members) == 3
        before = len(fleet.truth(jobs[0]).group_saves(GROUP))
        assert save(fleet).number == before + 1, "and the next one is made as ever"
        if killer.seen < at:
            break
    assert at > 20
    print(f"{at - 1} moments of a group save killed")


def changed(name: str) -> Callable[[Practice], None]:
    def no_group(practice: Practice) -> None:
        practice.records.known_jobs.clear()

    def not_protected(practice: Practice) -> None:
        practice.records.put_job(Job("rank9", "n0", group=GROUP))

    def two_stores(practice: Practice) -> None:
        job = practice.records.known_jobs["rank1"]
        practice.records.put_job(Job("rank1", "n1", job.uid, store="memory://other", group=GROUP))

    return {"no_group": no_group, "not_protected": not_protected, "two_stores": two_stores}[name]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_group", "no job of this fleet is in a group 'ranks'"),
        ("not_protected", "rank9 was never protected"),
        ("two_stores", "lie in 2 stores"),
    ],
)
def test_what_cannot_be_one_group_is_said_and_nobody_is_frozen(
    practice: Practice, name: str, said: str
) -> None:
    group_of(practice)
    changed(name)(practice)
    with pytest.raises(UsageError, match=said):
        save(practice.fleet())
    assert "hold" not in practice.nodes["n0"].calls


def test_retention_keeps_what_the_group_may_go_back_to(tmp_path: Path) -> None:
    practice = Practice(tmp_path, real=True)
    job, *_ = group_of(practice, 2)
    save(practice.fleet())
    node = practice.nodes["n0"]
    for _ in range(5):
        practice.clock.advance(60)
        node.save_now(node.held[job.uid])
    fleet = practice.fleet()
    truth, key = fleet.truth(job), fleet.job_key(job.uid)
    for name in ("1.6", "1.7"):
        truth.mark(job.uid, name, "verified", {"by": "me", "seconds": 1.0, "how": "full"})
    plan = truth.prune(job.uid, key, keep_last=1, min_age_s=0.0, dry_run=True)
    assert plan["keep"]["1.2"] == "pinned"
    assert "1.3" in plan["delete"]

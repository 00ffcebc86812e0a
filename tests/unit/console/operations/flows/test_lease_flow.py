"""A job whose guard promised to freeze it is taken over once that promise has come due, and never before."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from backends.errors import NoProofError
from backends.fakes.clock import run
from console.operations.flows.restore import Restored, RestoreWish, restore
from console.operations.truth import LeaseView
from tests.support.operations import Practice
from tests.unit.console.operations.flows.test_watch_flow import watch_for


@pytest.fixture
def practice(tmp_path: Path) -> Practice:
    return Practice(tmp_path)


def renewed(practice: Practice, uid: str, number: int) -> None:
    guard = practice.book.epochs[uid][1].guard
    assert guard is not None
    practice.book.leases[(uid, 1)] = LeaseView(guard, 60.0, f"n{number}")


def partition(practice: Practice) -> None:
    practice.nodes["n0"].partitioned = True


def test_the_controller_restores_after_the_lease_has_run_out(practice: Practice) -> None:
    job = practice.running_job("train", "n0", on_isolated="freeze", lease_s=60.0)
    renewed(practice, job.uid, 1)
    begun = practice.clock.monotonic()
    _, told = watch_for(practice, 200, {5: lambda: partition(practice)})
    assert practice.side.newest_epoch(job.uid) == 2
    claim = practice.book.epochs[job.uid][2]
    assert claim.proof["kind"] == "lease"
    assert claim.target == "n1"
    assert any("its lease has run out" in line for line in told)
    assert practice.clock.monotonic() - begun >= 60 * 1.1 + 15


def test_a_lease_that_is_renewed_keeps_the_job_where_it_is(practice: Practice) -> None:
    job = practice.running_job("train", "n0", on_isolated="freeze", lease_s=60.0)
    script = {float(at): (lambda at=at: renewed(practice, job.uid, at)) for at in range(10, 390, 20)}
    watch_for(practice, 400, {5: lambda: partition(practice), **script})
    assert practice.side.newest_epoch(job.uid) == 1


@pytest.mark.parametrize("withdrawn", [True, False])
def test_without_a_promise_silence_proves_nothing(practice: Practice, withdrawn: bool) -> None:
    job = practice.running_job("train", "n0", on_isolated="freeze", lease_s=60.0)
    if withdrawn:
        guard = practice.book.epochs[job.uid][1].guard
        assert guard is not None
        practice.book.leases[(job.uid, 1)] = LeaseView(guard, None, "n1")
    watch_for(practice, 400, {5: lambda: partition(practice)})
    assert practice.side.newest_epoch(job.uid) == 1


def test_a_restore_by_hand_waits_for_the_lease(practice: Practice) -> None:
    job = practice.running_job("train", "n0", on_isolated="freeze", lease_s=60.0)
    renewed(practice, job.uid, 1)
    partition(practice)
    fleet, told = practice.fleet(), list[str]()
    run(practice.clock, practice.clock.pause(200.0))
    result = run(practice.clock, restore(fleet, RestoreWish(job), "r1", "1", told.append))
    assert (result.node, result.epoch) == ("n1", 2)
    assert any("its lease runs out in" in line for line in told)


def test_a_renewal_between_look_and_claim_starts_nothing(practice: Practice) -> None:
    """The guard renews, looks, sees no claim and runs on; only then the claim comes: its epoch must start nothing."""
    job = practice.running_job("train", "n0", on_isolated="freeze", lease_s=60.0)
    renewed(practice, job.uid, 1)
    partition(practice)

    def moment(label: str) -> None:
        if label == "claimed":
            renewed(practice, job.uid, 2)

    practice.book.moment = moment
    run(practice.clock, practice.clock.pause(200.0))
    fleet, told = practice.fleet(), list[str]()
    task = restore(fleet, RestoreWish(job), "r1", "1", told.append)
    with pytest.raises(NoProofError):
        run(practice.clock, _renewing(practice, job.uid, task))
    assert practice.book.epochs[job.uid][2].kind == "void"
    assert practice.side.newest_epoch(job.uid) == 2
    assert any("renewed meanwhile" in line for line in told)


async def _renewing(practice: Practice, uid: str, task: Coroutine[Any, Any, Restored]) -> Restored:
    """Run `task` while the guard goes on renewing from its second renewal on."""
    running = asyncio.ensure_future(task)
    number = 3
    while not running.done():
        await asyncio.sleep(5.0)
        if practice.side.newest_epoch(uid) >= 2:
            renewed(practice, uid, number)
            number += 1
    return await running

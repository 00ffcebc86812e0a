"""A lease is a promise: whoever read it may act on it, so it binds until its withdrawal is known to be written."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from backends.guard.decide.interval import wake_at
from backends.guard.decide.job import step
from backends.guard.decide.lease import ends_at, renew_in_s
from backends.guard.decide.model import (
    Freeze,
    Gone,
    Lease,
    LeaseBegun,
    LeaseKept,
    Mind,
    Policy,
    PolicyIs,
    Standing,
    Thaw,
    Tick,
    Word,
)

FREEZE = Policy(interval_s=3600.0, on_isolated="freeze", lease_s=90.0)
HELD = Mind(
    epoch=1, began_at=0.0, contact_at=100.0, policy=FREEZE, lease=Lease(90.0, 100.0), first_delay_s=9e9
)


def frozen_at(mind: Mind, now: float) -> bool:
    return any(isinstance(each, Freeze) for each in step(mind, Tick(), now)[1])


def test_reads_of_the_store_do_not_hold_a_lease_that_cannot_be_renewed() -> None:
    read, _ = step(HELD, Standing(189.0, newest=1), 189.0)
    assert not frozen_at(read, 190.0)
    assert frozen_at(read, 190.1)
    assert wake_at(HELD, 150.0) == 190.0


def test_a_renewal_that_may_or_may_not_have_been_written_binds() -> None:
    first = replace(HELD, lease=None, contact_at=100.0)
    begun, _ = step(first, LeaseBegun(30.0, 110.0), 110.0)
    assert ends_at(begun) == 140.0, "others may have read it"
    shorter, _ = step(HELD, LeaseBegun(30.0, 110.0), 110.0)
    assert ends_at(shorter) == 130.0
    longer, _ = step(HELD, LeaseBegun(300.0, 110.0), 110.0)
    assert ends_at(longer) == 190.0
    kept, _ = step(longer, LeaseKept(300.0, 110.0), 112.0)
    assert ends_at(kept) == 410.0


def test_a_change_to_continue_counts_once_it_is_in_the_store() -> None:
    asked, _ = step(HELD, PolicyIs(replace(FREEZE, on_isolated="continue")), 110.0)
    assert renew_in_s(asked, 110.0) == 0.0
    begun, _ = step(asked, LeaseBegun(None, 110.0), 110.0)
    assert frozen_at(begun, 190.1), "nobody has heard of the change"
    kept, _ = step(begun, LeaseKept(None, 110.0), 111.0)
    assert not frozen_at(kept, 1e6)
    assert renew_in_s(kept, 1e6) is None


def test_a_lapsed_job_runs_again_only_by_a_look_after_its_renewal() -> None:
    frozen, _ = step(HELD, Tick(), 191.0)
    seen, decisions = step(frozen, Standing(195.0, newest=1), 195.5)
    assert not any(isinstance(each, Thaw) for each in decisions), "a claim may have been made since the lapse"
    kept, _ = step(seen, LeaseKept(90.0, 200.0), 201.0)
    early, decisions = step(kept, Standing(199.0, newest=1), 201.5)
    assert not any(isinstance(each, Thaw) for each in decisions), "that look began before the renewal"
    _, decisions = step(early, Standing(202.0, newest=1), 202.5)
    assert any(isinstance(each, Thaw) for each in decisions)
    zombie, decisions = step(early, Standing(202.0, newest=2), 202.5)
    assert not any(isinstance(each, Thaw) for each in decisions)
    assert zombie.frozen == "zombie"


def test_a_zombie_and_a_job_that_ended_hold_no_lease() -> None:
    zombie, _ = step(HELD, Standing(110.0, newest=2), 110.0)
    assert renew_in_s(zombie, 1000.0) is None
    by_word, _ = step(zombie, Word(), 120.0)
    assert by_word.lease is None
    assert not frozen_at(by_word, 200.0)
    ended, _ = step(HELD, Gone(done=True, exit_code=0), 110.0)
    assert renew_in_s(ended, 110.0) == 0.0, (
        "to be withdrawn: a finished job is not restored because its lease lapses"
    )
    assert step(ended, LeaseKept(None, 110.0), 111.0)[0].lease is None


@given(st.floats(1.0, 600.0), st.floats(0.0, 600.0))
def test_renewals_come_three_times_in_a_lease_and_every_half_minute(lease_s: float, since: float) -> None:
    mind = replace(HELD, policy=replace(FREEZE, lease_s=lease_s), lease=Lease(lease_s, 0.0))
    left = renew_in_s(mind, since)
    assert left is not None
    assert since + left <= max(since, min(lease_s / 3, 30.0)) + 1e-9

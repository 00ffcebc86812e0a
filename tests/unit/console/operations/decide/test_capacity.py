"""What is asked for when no node fits: policy, limits, back-off; nothing is rented unless both limits are set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.inventory.model import Renting
from console.operations.decide.capacity import (
    RECLAIM_MOST_S,
    SHORT_MOST_S,
    PoolEvent,
    Request,
    age_limited,
    back_off_s,
    choose,
)

HOME, OTHER = "aws/r-1/p5.48xlarge/linux", "aws/r-2/p5.48xlarge/linux"
LIMITS = Renting(rent=True, on_demand=True, max_usd=100.0, max_nodes=2)
SPOT = Renting(rent=True, max_usd=100.0, max_nodes=2)


@pytest.mark.parametrize(
    ("policy", "change", "expected"),
    [
        ("owned", {}, "owned: nothing is rented"),
        ("same-pool", {}, (HOME, "spot")),
        ("any-pool", {}, (HOME, "spot")),
        ("any-pool", {"backing_off": {HOME: 40.0}}, (OTHER, "spot")),
        ("same-pool", {"backing_off": {HOME: 40.0}}, "left alone for 40 s more"),
        ("any-pool", {"backing_off": {HOME: 40.0, OTHER: 20.0}}, f"{OTHER} is left alone for 20 s more"),
        ("same-pool", {"limits": Renting()}, "renting is off: set rent = true with max_usd and max_nodes"),
        ("same-pool", {"rented": 2}, "2 machines are rented already, and max_nodes is 2"),
        ("on-demand-after=2h", {}, (HOME, "spot")),
        ("on-demand-after=2h", {"waited_s": 7200.0}, (HOME, "on_demand")),
        ("on-demand-after=2h", {"waited_s": 7200.0, "limits": SPOT}, (HOME, "spot")),
        ("on-demand-after=2h", {"limits": Renting(on_demand=True, max_usd=9.0, max_nodes=1), "waited_s": 7100.0}, "on demand in 100 s"),
        ("on-demand-after=2h", {"limits": Renting(on_demand=True, max_usd=9.0, max_nodes=1), "waited_s": 7300.0}, (HOME, "on_demand")),
        ("same-pool", {"limits": Renting(on_demand=True, max_usd=9.0, max_nodes=1)}, "rent is off"),
    ],
)  # fmt: skip
def test_what_is_asked_for(policy: str, change: dict[str, object], expected: tuple[str, str] | str) -> None:
    given_: dict[str, object] = {
        "home": HOME, "others": (HOME, OTHER), "waited_s": 0.0, "backing_off": {}, "limits": LIMITS, "rented": 0,
    }  # fmt: skip
    found = choose(policy, **{**given_, **change})  # type: ignore[arg-type]  # parametrised keywords
    if isinstance(expected, str):
        assert isinstance(found, str)
        assert expected in found
    else:
        assert isinstance(found, Request)
        assert (found.pool, found.market) == expected


def test_waiting_for_spot_ends_when_on_demand_begins() -> None:
    found = choose(
        "on-demand-after=10m", home=HOME, others=(), waited_s=400.0, backing_off={}, limits=LIMITS, rented=0
    )
    assert isinstance(found, Request)
    assert found.give_up_s == 200.0


@pytest.mark.parametrize(
    "limits", [{"rent": True}, {"on_demand": True, "max_usd": 5.0}, {"rent": True, "max_nodes": 1}]
)
def test_renting_needs_both_limits(limits: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="max_usd and max_nodes"):
        Renting(**limits)  # type: ignore[arg-type]  # parametrised keywords


def test_back_off_doubles_and_a_machine_that_came_ends_it() -> None:
    def short(*ages: float) -> float:
        return back_off_s([PoolEvent(HOME, "short", age) for age in ages]).get(HOME, 0.0)

    assert short(0.0) == 60
    assert short(0.0, 100.0) == 120
    assert short(50.0, 100.0) == 70
    assert short(*range(30)) == SHORT_MOST_S
    assert back_off_s([PoolEvent(HOME, "ready", 5.0), PoolEvent(HOME, "short", 10.0)]) == {}
    assert back_off_s([PoolEvent(HOME, "short", 5.0), PoolEvent(HOME, "ready", 10.0)]) == {HOME: 55.0}


def test_a_pool_that_is_emptied_is_left_alone_but_not_for_ages_that_ran_out() -> None:
    taken = [PoolEvent(HOME, "reclaim", age) for age in (10.0, 500.0, 3000.0)]
    assert back_off_s(taken) == {HOME: 590.0}
    assert back_off_s(taken[:2]) == {}
    assert back_off_s([PoolEvent(HOME, "age_limit", age) for age in range(20)]) == {}
    assert back_off_s([PoolEvent(HOME, "reclaim", age) for age in (10.0, 4000.0, 8000.0)]) == {}


EVENTS = st.builds(
    PoolEvent, st.sampled_from([HOME, OTHER]), st.sampled_from(["short", "reclaim", "age_limit", "ready"]),
    st.floats(0, 1e6),
)  # fmt: skip


@given(st.lists(EVENTS, max_size=30))
def test_no_pool_is_ever_blacklisted(events: list[PoolEvent]) -> None:
    found = back_off_s(events)
    assert all(0 < left <= max(SHORT_MOST_S, RECLAIM_MOST_S) for left in found.values())
    later = [PoolEvent(each.pool, each.kind, each.age_s + RECLAIM_MOST_S) for each in events]
    assert back_off_s(later) == {}


@pytest.mark.parametrize(
    ("provider", "reason", "lived_s", "expected"),
    [
        ("gcp", "compute.instances.preempted", 86_390.0, True),
        ("gcp", "compute.instances.preempted", 40_000.0, False),
        ("aws", "Server.SpotInstanceTermination", 86_390.0, False),
        ("gcp", "maxRunDuration reached", 100.0, True),
        ("vast", "age limit", None, True),
        ("aws", "", None, False),
    ],
)
def test_age_limits(provider: str, reason: str, lived_s: float | None, expected: bool) -> None:
    assert age_limited(provider, reason, lived_s) == expected

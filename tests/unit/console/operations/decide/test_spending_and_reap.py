"""What rented machines cost, what may still be spent, and what may be removed."""

from __future__ import annotations

import pytest

from backends.clock import format_utc, parse_utc
from backends.clouds.port import Owned
from backends.inventory.model import Renting
from backends.records.event import Event
from console.operations.decide.capacity import UNFIT_S, PoolEvent, Request, back_off_s, choose
from console.operations.decide.reap import judge
from console.operations.decide.spending import Rental, left_usd, month_start, over, rentals

NOW = parse_utc("2026-12-02T00:00:00Z")
H = 3600.0
LIMITS = Renting(rent=True, max_usd=10.0, max_nodes=2, max_usd_month=50.0)


def event(kind: str, node: str, hours_ago: float, **data: object) -> Event:
    return Event(
        f"e/{kind}{node}{hours_ago}", format_utc(NOW - hours_ago * H), kind, node, None, "", dict(data)
    )


def test_a_rental_runs_from_its_launch_to_its_return_or_loss() -> None:
    found = rentals([
        event("node.rented", "a", 5, usd_per_hour=2.0, uid="u", rented_at=format_utc(NOW - 6 * H)),
        event("node.rented", "b", 4, usd_per_hour=1.0, uid="v"),
        event("node.lost", "a", 1),
        event("node.lost", "own", 1),
        event("node.returned", "b", 2),
        event("node.rented", "c", 1, uid="u"),
    ])  # fmt: skip
    assert [(row.node, row.usd(NOW)) for row in found] == [("a", 10.0), ("b", 2.0), ("c", None)]
    assert found[0].usd(NOW, since=NOW - 2 * H) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("mine", "rows", "expected"),
    [
        (None, [], 10.0),
        (None, [Rental("a", "v", 45 / 24, NOW - 24 * H)], 5.0),
        (None, [Rental("a", "v", 50 / 24, NOW - 24 * H)], "max_usd_month is 50"),
        (None, [Rental("a", "v", 50.0, NOW - 90 * 24 * H, NOW - 60 * 24 * H)], 10.0),  # another month
        (3.0, [Rental("a", "u", 1.0, NOW - 2 * H)], 1.0),
        (3.0, [Rental("a", "u", 1.0, NOW - 90 * 24 * H, NOW - 90 * 24 * H + 3 * H)], "max_rent_usd is 3"),
        (3.0, [Rental("a", "other", 1.0, NOW - 4 * H)], 3.0),
        (None, [Rental("a", "u", None, NOW - 4 * H)], "not known"),
    ],
)
def test_what_is_left_is_the_least_of_all_limits_and_unknown_is_not_nothing(
    mine: float | None, rows: list[Rental], expected: float | str
) -> None:
    found = left_usd(LIMITS, "u", mine, rows, NOW)
    if isinstance(expected, str):
        assert isinstance(found, str)
        assert expected in found
    else:
        assert found == pytest.approx(expected)


def test_the_month_begins_in_utc_and_dear_machines_are_named() -> None:
    assert month_start(NOW) == parse_utc("2026-12-01T00:00:00Z")
    rows = [
        Rental("a", "u", 1.0, NOW - 11 * H),
        Rental("b", "u", 1.0, NOW - 9 * H),
        Rental("c", "u", 9.0, 0.0, 9.0 * H),
    ]
    assert over(LIMITS, rows, NOW) == {"a": 11.0}
    assert over(Renting(), rows, NOW) == {}


def test_only_what_no_live_job_uses_may_go() -> None:
    things = [Owned("instance", name, "r") for name in ("used", "idle", "young", "old", "ageless")]
    things += [Owned("volume", "vol", "r"), Owned("template", "lt", "r")]
    ages = {"used": 9e9, "idle": 1.0, "young": 100.0, "old": 1000.0, "vol": None, "lt": None, "ageless": None}
    found = judge(things, {"used": "n1", "idle": "n2"}, {"n1": ("train",), "n2": ()}, ages)
    assert {each.thing.id: each.removable for each in found} == {
        "used": False, "idle": True, "young": False, "old": True, "ageless": False, "vol": True, "lt": True,
    }  # fmt: skip
    assert "train" in found[0].reason


def test_a_pool_whose_machine_did_not_fit_rests_and_one_without_a_record_is_never_asked() -> None:
    assert back_off_s([PoolEvent("p", "unfit", 100.0), PoolEvent("p", "ready", 160.0)]) == {
        "p": UNFIT_S - 100.0
    }
    assert back_off_s([PoolEvent("p", "unfit", UNFIT_S + 1)]) == {}

    def ask(policy: str, barred: dict[str, str]) -> Request | str:
        return choose(
            policy,
            home="h",
            others=("o",),
            waited_s=0,
            backing_off={},
            limits=LIMITS,
            rented=0,
            barred=barred,
        )

    assert ask("any-pool", {"h": "no record"}) == Request("o", "spot", 3600.0)
    assert ask("same-pool", {"h": "no record"}) == "not_launchable: no record"
    assert ask("any-pool", {"h": "no record", "o": "no record"}) == "not_launchable: no record"

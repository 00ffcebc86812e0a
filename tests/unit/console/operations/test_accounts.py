"""The books: the article's arithmetic from measured figures, groups that add up, and unknown that stays unknown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from backends.clock import parse_utc
from backends.ledger.records import Reclaim, SaveMeasure, Work
from backends.ledger.sqlite import SqliteLedger
from backends.records.event import Event
from console.operations.accounts import GIB, Terms, accounts, expected_of

UID, POOL, OTHER = "u" * 20, "aws/r-1/big/linux", "aws/r-2/big/linux"
NOV, DEC = parse_utc("2026-11-30T12:00:00Z"), parse_utc("2026-12-02T12:00:00Z")
ONE = Reclaim(
    "r/0", NOV, "train", UID, "a", True, 100.0, 480.0, 470.0, 120.0, 60.0, "1.3", "b", 2, 1, pool=POOL
)
WORK = Work(UID, "train", POOL, "", "2026-11", 24 * 3600 + 3 * 480)


@pytest.fixture
def ledger(tmp_path: Path) -> SqliteLedger:
    return SqliteLedger(tmp_path / "l.db")


def three(ledger: SqliteLedger, **change: object) -> None:
    """The article's day: 24 useful hours, three reclaims of 10 minutes each."""
    ledger.add_work([WORK])
    for number in range(3):
        ledger.put_reclaim(replace(ONE, key=f"r/{number}", **change))  # type: ignore[arg-type]  # fields by name


def test_the_articles_day(ledger: SqliteLedger) -> None:
    three(ledger)
    terms = Terms(0.7, on_demand_usd={POOL: 10.0}, store_price=0.0, transfer_price=0.0)
    (row,) = accounts(ledger, "job", terms)
    assert row["useful_hours"] == pytest.approx(24.0)
    assert row["billed_hours"] == pytest.approx(24.5)
    assert row["lost_hours_per_reclaim"] == pytest.approx(1 / 6)
    assert row["saving_fraction"] == pytest.approx(0.69375)
    assert row["saving_on_demand_hours"] == pytest.approx(24 - 7.35)
    assert (row["on_demand_usd"], row["spot_usd"]) == (pytest.approx(240.0), pytest.approx(73.5))
    assert row["saving_usd"] == pytest.approx(166.5)
    assert row["pays"] is True
    assert (row["reclaims"], row["noticed"], row["mean_notice_s"]) == (3, 3, 100.0)
    assert row["posterior_low_per_hour"] < row["reclaim_rate_per_hour"] < row["posterior_high_per_hour"]


def test_unknown_stays_unknown(ledger: SqliteLedger) -> None:
    three(ledger)
    (row,) = accounts(ledger, "job", Terms())
    unknown = (
        "discount",
        "saving_on_demand_hours",
        "saving_fraction",
        "on_demand_usd",
        "saving_usd",
        "pays",
        "storage_usd",
    )
    assert {name: row[name] for name in unknown} == dict.fromkeys(unknown)
    (row,) = accounts(ledger, "job", Terms(0.7, on_demand_usd={POOL: 10.0}))
    assert row["saving_before_storage_usd"] == pytest.approx(166.5)
    assert row["saving_usd"] is None, "net of storage and transfer only where their prices are known"
    ledger.put_reclaim(replace(ONE, key="r/9", lost_work_s=None))
    (row,) = accounts(ledger, "job", Terms(0.7))
    assert row["lost_work_hours"] is None
    assert row["useful_hours"] is None
    assert row["saving_on_demand_hours"] is None


def test_a_reclaim_without_running_time_has_no_hours(ledger: SqliteLedger) -> None:
    ledger.put_reclaim(ONE)
    (row,) = accounts(ledger, "job", Terms(0.7))
    assert (row["reclaims"], row["running_hours"], row["lost_ratio"], row["posterior_rate_per_hour"]) == (
        1,
        None,
        None,
        None,
    )


def test_groups_add_up(ledger: SqliteLedger) -> None:
    three(ledger)
    ledger.add_work([replace(WORK, month="2026-12", pool=OTHER, seconds=3600.0)])
    ledger.add_work([replace(WORK, uid="v" * 20, job="other", seconds=7200.0)])
    ledger.put_reclaim(replace(ONE, key="r/9", at=DEC, pool=OTHER))
    whole = 24 + 3 * 480 / 3600 + 1 + 2
    for by in ("job", "pool", "month"):
        rows = accounts(ledger, by, Terms(0.7))
        assert sum(row["running_hours"] for row in rows) == pytest.approx(whole)
        assert sum(row["reclaims"] for row in rows) == 4
    months = {row["name"]: row for row in accounts(ledger, "month", Terms(0.7))}
    assert months["2026-12"]["reclaims"] == 1
    assert [row["name"] for row in accounts(ledger, "pool", Terms(), job="other")] == [POOL]
    assert [row["name"] for row in accounts(ledger, "month", Terms(), since=DEC - 86400)] == ["2026-12"]


def test_on_demand_fallback_is_paid_in_full(ledger: SqliteLedger) -> None:
    ledger.add_work([replace(WORK, seconds=36_000.0)])
    ledger.add_work([replace(WORK, market="on_demand", seconds=7200.0)])
    terms = Terms(0.5, on_demand_usd={POOL: 4.0})
    (row,) = accounts(ledger, "job", terms)
    assert row["on_demand_fallback_hours"] == 2.0
    assert row["saving_on_demand_hours"] == pytest.approx(12 - (10 * 0.5 + 2))
    assert (row["spot_usd"], row["fallback_usd"]) == (20.0, 8.0)


def test_storage_and_transfer(ledger: SqliteLedger) -> None:
    ledger.add_work([replace(WORK, seconds=73_000 * 36.0)])
    for number in range(4):
        ledger.add_save(SaveMeasure(UID, f"1.{number}", NOV + number, 1.0, 2.0, int(10 * GIB)))
    ledger.put_reclaim(ONE)
    terms = Terms(0.7, on_demand_usd={POOL: 1.0}, store_price=0.02, transfer_price=0.1, keep={"train": 2})
    (row,) = accounts(ledger, "job", terms)
    assert row["transfer_usd"] == pytest.approx((4 * 10 + 10) * 0.1), "four saves up, one down"
    assert row["storage_usd"] == pytest.approx(2 * 10 * 0.02), "two of 10 GiB for a month"
    gross = row["saving_before_storage_usd"]
    assert row["saving_usd"] == pytest.approx(gross - row["transfer_usd"] - row["storage_usd"])


def test_pools_with_different_prices_and_jobs_with_different_discounts(ledger: SqliteLedger) -> None:
    ledger.add_work([replace(WORK, seconds=3600.0)])
    ledger.add_work([replace(WORK, pool=OTHER, seconds=3 * 3600.0)])
    terms = Terms(None, {"train": 0.6}, {POOL: 4.0, OTHER: 8.0})
    (row,) = accounts(ledger, "job", terms)
    assert row["discount"] == 0.6
    assert row["on_demand_usd"] == pytest.approx(4 + 3 * 8)
    (row,) = accounts(ledger, "job", Terms(0.6, on_demand_usd={POOL: 4.0}))
    assert row["on_demand_usd"] is None, "one of its pools has no price"
    ledger.add_work([replace(WORK, uid="v" * 20, job="other", seconds=3600.0)])
    months = accounts(ledger, "month", terms)
    assert months[0]["discount"] is None, "its jobs do not agree"


def test_losses_that_were_never_restored_are_counted_apart(ledger: SqliteLedger) -> None:
    three(ledger)
    ledger.put_reclaim(
        replace(ONE, key="failed/x", lost_work_s=None, restore_s=None, outcome="failed", failed_tries=7)
    )
    (row,) = accounts(ledger, "job", Terms(0.7))
    assert (row["reclaims"], row["losses_not_restored"], row["failed_tries"]) == (3, 1, 10)
    assert row["lost_hours_per_reclaim"] == pytest.approx(1 / 6)


def test_the_plan_of_a_job_from_its_measured_saves() -> None:
    saves = [SaveMeasure(UID, f"1.{n}", NOV, 6.0, 12.0, 1) for n in range(3)]
    found = expected_of(saves, [60.0], 600.0, 100.0, 0.05)
    assert found.lost_hours_per_reclaim == pytest.approx((300 + 6 / 2 + 12 + 60) / 3600, rel=0.05)
    assert found.reclaim_rate_per_hour == 0.05
    assert expected_of([], [60.0], 600.0, 100.0, None).lost_hours_per_reclaim is None
    assert expected_of(saves, [], 600.0, 100.0, None).lost_hours_per_reclaim is None


def test_an_older_ledger_gets_the_new_table(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "old.db"
    SqliteLedger(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE work")
    connection.close()
    again = SqliteLedger(path)
    again.add_work([WORK])
    again.add_work([WORK])
    assert again.work() == [replace(WORK, seconds=2 * WORK.seconds)]
    again.close()


def test_failed_launches_are_counted_by_pool_and_month_and_the_rate_names_its_source(
    ledger: SqliteLedger,
) -> None:
    three(ledger)
    for number, pool in enumerate((POOL, POOL, OTHER)):
        at = f"2026-11-30T12:0{number}:00Z"
        ledger.add_event(Event(f"e/{number}", at, "capacity.short", None, None, "none", {"pool": pool}))
    (by_pool,) = accounts(ledger, "pool", Terms())
    (by_month,) = accounts(ledger, "month", Terms())
    (by_job,) = accounts(ledger, "job", Terms())
    assert (by_pool["failed_launches"], by_month["failed_launches"], by_job["failed_launches"]) == (
        2,
        3,
        None,
    )
    assert by_job["posterior_source"].startswith("own history: 3 reclaims in 24.4 running hours")

"""The report: what is measured is summed, what is unknown stays unknown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from backends.clock import format_utc
from backends.ledger.records import JobCurrent, Reclaim
from backends.ledger.sqlite import SqliteLedger
from backends.records.event import Event
from console.cli.commands.report import text
from console.operations.accounting import report, totals

START = 1_800_000_000.0
ONE = Reclaim(
    "r/1", START + 3600, "train", "u" * 20, "a", True, 100.0, 600.0, 590.0, 120.0, 60.0, "1.3", "b", 2, 1
)


@pytest.fixture
def ledger(tmp_path: Path) -> SqliteLedger:
    found = SqliteLedger(tmp_path / "l.db")
    found.add_event(Event("c/1", format_utc(START), "job.protected", "a", "train"))
    found.put_job(JobCurrent("train", "u" * 20, "b", 2, "protected", "2.1", None, None, START + 24 * 3600))
    return found


def test_the_articles_arithmetic_from_measured_reclaims(ledger: SqliteLedger) -> None:
    """Three reclaims of 10 minutes in a day: rL/H = 0.5/23.5 here, since the day holds the loss too."""
    for number in range(3):
        ledger.put_reclaim(replace(ONE, key=f"r/{number}", lost_work_s=480.0, restore_s=120.0, wait_s=0.0))
    document = report(ledger, discount=0.7)
    assert document["totals"]["lost_hours_per_reclaim"] == pytest.approx(1 / 6)
    assert document["totals"]["useful_hours"] == pytest.approx(23.5)
    assert document["lost_ratio"] == pytest.approx(0.5 / 23.5)
    assert document["break_even_ratio"] == pytest.approx(7 / 3)
    assert document["pays"] is True
    assert document["totals"]["failed_tries"] == 3


def test_moves_and_operators_restores_are_shown_and_not_counted(ledger: SqliteLedger) -> None:
    ledger.put_reclaim(replace(ONE, cause="move"))
    ledger.put_reclaim(replace(ONE, key="r/2", cause="operator"))
    document = report(ledger)
    assert len(document["reclaims"]) == 2
    assert document["totals"]["reclaims"] == 0
    assert document["lost_ratio"] == 0.0


def test_a_loss_that_only_a_typed_word_ended_is_a_range(ledger: SqliteLedger) -> None:
    ledger.put_reclaim(replace(ONE, cause="operator", lost_work_s=3900.0, least_lost_s=30.0))
    ledger.put_reclaim(replace(ONE, key="r/2", lost_work_s=1800.0, least_lost_s=30.0))
    told = text(report(ledger))
    assert "30s to 1h 05m" in told
    assert "30s to 30m" not in told, "the provider's word dates the end"


def test_unknown_stays_unknown(ledger: SqliteLedger, tmp_path: Path) -> None:
    ledger.put_reclaim(replace(ONE, lost_work_s=None))
    document = report(ledger)
    assert document["totals"]["mean_lost_work_s"] is None
    assert document["totals"]["lost_hours_per_reclaim"] is None
    assert document["lost_ratio"] is None
    assert document["pays"] is None
    assert "–" in text(document)
    empty = SqliteLedger(tmp_path / "empty.db")
    nothing = report(empty, discount=1.5)
    assert (nothing["lost_ratio"], nothing["break_even_ratio"], nothing["pays"]) == (None, None, None)
    assert "no reclaim" in text(nothing)
    empty.close()


def test_filters(ledger: SqliteLedger) -> None:
    ledger.put_reclaim(ONE)
    ledger.put_reclaim(replace(ONE, key="r/2", at=START + 7200, job="other", uid="v" * 20))
    assert [row["job"] for row in report(ledger, job="train")["reclaims"]] == ["train"]
    assert [row["job"] for row in report(ledger, since=START + 5000)["reclaims"]] == ["other"]


def test_means_leave_out_what_one_reclaim_does_not_know() -> None:
    sums = totals([ONE, replace(ONE, wait_s=None), replace(ONE, wait_s=120.0)])
    assert sums.mean_wait_s == 90.0
    assert sums.reclaims == 3

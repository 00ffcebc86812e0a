"""`report --by` and its CSV, as a program."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from backends.ledger.records import Reclaim, Work
from backends.ledger.sqlite import SqliteLedger
from tests.support.cli import reprieve


def books(home: Path) -> None:
    state = home / "state" / "reprieve"
    state.mkdir(parents=True, mode=0o700)
    ledger = SqliteLedger(state / "ledger.db")
    pool = "aws/r-1/big/linux"
    ledger.add_work([Work("u" * 20, "train", pool, "", "2026-11", 24 * 3600 + 1440)])
    for number in range(3):
        ledger.put_reclaim(
            Reclaim(
                f"r/{number}", 1_795_000_000.0, "train", "u" * 20, "a", None, None, 480.0, 480.0, 120.0, 0.0, "1.3",
                "b", 2, pool=pool,
            )
        )  # fmt: skip
    ledger.close()


def test_by_job_as_table_json_and_csv(tmp_path: Path) -> None:
    books(tmp_path)
    prices = tmp_path / "prices.csv"
    prices.write_text("region,instance_type,usd_per_hour\nr-1,big,10\n")
    typed = ("report", "--by", "job", "--discount", "70%", "--prices", str(prices))
    done = reprieve(tmp_path, *typed, "-o", "json")
    assert done.code == 0, done.err
    (row,) = json.loads(done.out)["items"]
    assert round(row["saving_fraction"], 5) == 0.69375
    assert row["saving_usd"] is None
    assert round(row["saving_before_storage_usd"], 6) == 166.5
    done = reprieve(tmp_path, *typed)
    assert "train" in done.out
    assert "on-demand prices" in done.err
    done = reprieve(tmp_path, *typed, "--store-price", "0", "--transfer-price", "0", "-o", "csv")
    (line,) = csv.DictReader(io.StringIO(done.out))
    assert float(line["saving_usd"]) == 166.5
    assert line["mean_notice_s"] == "", "unknown is empty, never 0"


def test_every_reclaim_is_a_line_of_the_csv(tmp_path: Path) -> None:
    books(tmp_path)
    done = reprieve(tmp_path, "report", "-o", "csv")
    assert done.code == 0, done.err
    lines = list(csv.DictReader(io.StringIO(done.out)))
    assert len(lines) == 3
    assert lines[0]["lost_work_s"] == "480.0"
    assert lines[0]["pool"] == "aws/r-1/big/linux"
    assert lines[0]["notice"] == ""


def test_wrong_prices_are_named(tmp_path: Path) -> None:
    books(tmp_path)
    done = reprieve(tmp_path, "report", "--by", "month", "--store-price", "-1")
    assert done.code == 2
    assert "--store-price is -1" in done.err
    assert reprieve(tmp_path, "report", "--by", "week").code == 2

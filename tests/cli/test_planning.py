"""`plan --job`, `plan sweep`, `pools list` for a job, and pictures, as a user types them."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from backends.ledger.records import Reclaim, SaveMeasure
from backends.ledger.sqlite import SqliteLedger
from planner.advice import evaluate
from planner.plan.inputs import PlanInputs
from tests.support.cli import ROOT, Ran, reprieve
from tests.support.data import data

SWEEP = ("plan", "sweep", "--hours", "24", "--discount", "0.7", "--checkpoint-cost", "36s", "--restore", "3m")
GRID = ("--grid", "interval=1m..2h:7log", "--grid", "rate=0.01,0.1,1")
POOL = "aws/us-east-1/p5.48xlarge/linux"
FLEET = f"""
[nodes.gpu-a]
ssh = "a"
provider = "aws"
pool = "{POOL}"
[jobs.tune]
node = "gpu-a"
uid = "abcdefghijklmnopqrst"
command = ["python", "train.py"]
hours = 30.0
"""


def feed() -> str:
    return str(data("spot-advisor", "spot-advisor-2025-06.json.gz"))


def fleet(home: Path) -> dict[str, str]:
    path = home / "fleet.toml"
    path.write_text(FLEET.replace('uid = "abcdefghijklmnopqrst"\n', ""), "utf-8")
    return {"REPRIEVE_FLEET": str(path), "REPRIEVE_STATE_DIRECTORY": str(home / "ledgers")}


def document(ran: Ran) -> dict[str, object]:
    assert ran.code == 0, ran.err
    found: dict[str, object] = json.loads(ran.out)
    return found


def test_a_sweep_is_the_plan_of_each_cell(tmp_path: Path) -> None:
    ran = reprieve(tmp_path, *SWEEP, *GRID, "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert len(rows) == 21
    inputs = PlanInputs(hours=24.0, discount=0.7, checkpoint_cost=0.01, restore=0.05)
    for row in rows[::4]:
        plan = evaluate(
            inputs._replace(interval=float(row["interval_hours"]), rate=float(row["rate_per_hour"]))
        )
        assert float(row["billed_hours"]) == plan["billed_hours"]
        assert float(row["saving_fraction"]) == plan["saving_fraction"]
        assert row["verdict"] == plan["verdict"]
    whole = json.loads(reprieve(tmp_path, *SWEEP, *GRID, "-o", "json").out)
    assert (whole["schema"], whole["cells"], len(whole["rows"])) == ("reprieve/sweep/v1", 21, 21)
    assert whole["columns"] == list(rows[0])
    lines = reprieve(tmp_path, *SWEEP, *GRID, "-o", "ndjson").out.splitlines()
    assert [json.loads(line)["billed_hours"] for line in lines] == [
        float(row["billed_hours"]) for row in rows
    ]


def test_a_million_cells_are_written_whole(tmp_path: Path) -> None:
    ran = reprieve(
        tmp_path, *SWEEP, "--grid", "interval=1m..2h:400log", "--grid", "rate=0.01..1:500log", "-o", "csv"
    )
    assert ran.out.count("\n") == 200_001
    assert ran.out.splitlines()[-1].startswith("2.0,1.0,")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--grid", "rate"), "NAME=LO..HI"), (("--grid", "rate=1..2:0"), "steps"), (("--grid", "interval=1..2:3"), "--grid interval"),
        (("--grid", "rate=-1,1"), "--rate"), (("--grid", "hours=nan"), "--grid hours"), ((), "--grid"),
        (("--grid", "rate=0.1", "--rate", "0.2"), "twice"), (("--grid", "rate=0.1", "--on", "dask://h:1"), "-o csv"),
        (("--grid", "rate=0.1", "--on", "http://h", "-o", "csv"), "dask://HOST:PORT"),
        (("--grid", "rate=0.1", "--workers", "-1"), "--workers is -1"), (("--grid", "rate=0.1,,0.2"), "missing beside a comma"),
    ],
)  # fmt: skip
def test_sweeps_that_are_refused_in_one_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    ran = reprieve(tmp_path, *SWEEP, *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_a_cluster_without_dask_names_the_extra(tmp_path: Path) -> None:
    if importlib.util.find_spec("distributed") is not None:
        pytest.skip("Dask is installed here")
    ran = reprieve(tmp_path, *SWEEP, *GRID, "--on", "dask://127.0.0.1:1", "-o", "csv")
    assert ran.code == 2
    assert "reprieve[dask]" in ran.err


@pytest.mark.slow
def test_a_local_dask_cluster_gives_the_same_file(tmp_path: Path) -> None:
    if importlib.util.find_spec("distributed") is None:
        pytest.skip("Dask is not installed: the extra reprieve[dask]")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = (
        "import sys, time; from distributed import LocalCluster\n"
        f"if __name__ == '__main__':\n    LocalCluster(n_workers=2, threads_per_worker=1, scheduler_port={port}, dashboard_address=None)\n"
        "    print('up', flush=True); time.sleep(120)\n"
    )
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    script = tmp_path / "cluster.py"
    script.write_text(program, "utf-8")
    cluster = subprocess.Popen([sys.executable, str(script)], cwd=ROOT, stdout=subprocess.PIPE, env=environ)
    try:
        assert cluster.stdout is not None
        assert cluster.stdout.readline() == b"up\n"
        here = reprieve(tmp_path, *SWEEP, *GRID, "-o", "csv")
        there = reprieve(tmp_path, *SWEEP, *GRID, "-o", "csv", "--on", f"dask://127.0.0.1:{port}")
        assert there.code == 0, there.err
        assert there.out == here.out
    finally:
        cluster.terminate()
        cluster.wait(20)


def test_pools_ranked_for_a_job(tmp_path: Path) -> None:
    prices = tmp_path / "prices.csv"
    prices.write_text(
        "region,instance_type,usd_per_hour\nus-east-1,p5.48xlarge,55.04\nus-west-2,p5.48xlarge,55.04\neu-north-1,p5.48xlarge,\n",
        "utf-8",
    )
    words = (
        "pools",
        "list",
        "--feed",
        feed(),
        "--gpu",
        "H100:8",
        "--job",
        "tune",
        "--checkpoint-cost",
        "36s",
        "--restore",
        "3m",
    )
    items = document(
        reprieve(
            tmp_path,
            *words,
            "--prices",
            str(prices),
            "--deadline",
            "31h",
            "-o",
            "json",
            environ=fleet(tmp_path),
        )
    )["items"]
    assert isinstance(items, list)
    best = items[0]
    assert (best["name"], best["rank"], best["gpu"], best["gpu_count"]) == (POOL, 1, "H100", 8)
    plan = evaluate(
        PlanInputs(
            hours=30.0,
            discount=0.52,
            band=">20%",
            band_basis="month",
            checkpoint_cost=0.01,
            restore=0.05,
            deadline=31.0,
        )
    )
    assert best["expected_cost_usd"] == pytest.approx(plan["cost_in_on_demand_hours"] * 55.04)
    assert best["break_even_rate_per_hour"] == pytest.approx(plan["break_even_rate_per_hour"])
    assert best["p_finish"] == pytest.approx(plan["deadline"]["p_finish"])
    assert all(item["instance_type"] == "p5.48xlarge" for item in items)
    assert [item["expected_cost_usd"] is None for item in items] == [False, False] + [True] * (len(items) - 2)
    dearer = next(item for item in items if item["region"] == "ca-central-1")
    assert (dearer["verdict"], dearer["break_even_rate_per_hour"]) == ("does_not_pay", None)
    assert "p5.48xlarge" in reprieve(tmp_path, *words, environ=fleet(tmp_path)).out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gpu", "H900:8"), "MODEL:N"), (("--gpu", "H100:0"), "MODEL:N"), (("--providers", "mars"), "aws, azure, gcp"),
        (("--hours", "24"), "what does a reclaim cost"), (("--prices", "/nowhere.csv"), "cannot be read"),
        (("--hours", "0", "--lost", "1m"), "--hours"), (("--limit", "0"), "--limit is 0"), (("--max-band", "2"), "--max-band is 2"),
        (("--by", "deadline"), "give --job"),
    ],
)  # fmt: skip
def test_lists_of_pools_that_are_refused(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    ran = reprieve(tmp_path, "pools", "list", "--feed", feed(), *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


@pytest.mark.parametrize(
    ("text", "said"),
    [("region,usd_per_hour\n", "instance_type"), ("region,instance_type,usd_per_hour\na,b,1\na,b,2\n", "two prices"),
     ("region,instance_type,usd_per_hour\n,b,1\n", "a region"), ("region,instance_type,usd_per_hour\na,b,0\n", ":2:"),
     ("region,instance_type,usd_per_hour\na,b,nan\n", "more than 0"), ("region,instance_type,usd_per_hour\na,b,\x1b[31m\n", "x1b")],
)  # fmt: skip
def test_price_files_that_are_wrong_name_file_and_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "p.csv"
    path.write_text(text, "utf-8")
    ran = reprieve(tmp_path, "pools", "list", "--feed", feed(), "--prices", str(path))
    assert ran.code == 2
    assert said in ran.err
    assert "\x1b" not in ran.err


def test_a_plan_of_a_job_takes_its_record_and_its_pool(tmp_path: Path) -> None:
    words = ("plan", "--job", "tune", "--feed", feed(), "--lost", "10m", "-o", "json")
    plan = document(reprieve(tmp_path, *words, environ=fleet(tmp_path)))
    assert isinstance(plan["inputs"], dict)
    assert isinstance(plan["sources"], dict)
    assert (plan["inputs"]["hours"], plan["inputs"]["band"], plan["inputs"]["discount"]) == (
        30.0,
        ">20%",
        0.52,
    )
    assert plan["sources"]["hours"] == "record of job tune"
    assert "snapshot 2025-06" in plan["sources"]["discount"]
    own = document(reprieve(tmp_path, *words, "--hours", "5", "--rate", "0.1", environ=fleet(tmp_path)))
    assert isinstance(own["inputs"], dict)
    assert (own["inputs"]["hours"], own["reclaim_rate_per_hour"]) == (5.0, 0.1)
    unknown = reprieve(tmp_path, "plan", "--job", "tun", "--lost", "10m", environ=fleet(tmp_path))
    assert unknown.code == 2
    assert "did you mean 'tune'" in unknown.err
    assert "--hours" in reprieve(tmp_path, "plan", "--discount", "0.7", "--rate", "0.1", "--lost", "1m").err


def test_a_plan_of_a_job_takes_what_was_measured(tmp_path: Path) -> None:
    environ = fleet(tmp_path)
    Path(environ["REPRIEVE_FLEET"]).write_text(FLEET, "utf-8")
    uid = "abcdefghijklmnopqrst"
    (tmp_path / "ledgers").mkdir()
    ledger = SqliteLedger(tmp_path / "ledgers" / "ledger.db")
    for index, freeze in enumerate((30.0, 36.0, 90.0)):
        ledger.add_save(SaveMeasure(uid, f"1.{index}", 100.0 * index, freeze, 60.0, 10**9))
    ledger.put_reclaim(
        Reclaim("k", 1.0, "tune", uid, "gpu-a", False, None, 10.0, 5.0, 180.0, 60.0, "1.1", "gpu-b", 2)
    )
    ledger.add_observed("gpu-a", POOL, 200 * 3600.0)
    ledger.close()
    plan = document(
        reprieve(tmp_path, "plan", "--job", "tune", "--feed", feed(), "-o", "json", environ=environ)
    )
    inputs, sources, history = plan["inputs"], plan["sources"], plan["history"]
    assert isinstance(inputs, dict)
    assert isinstance(sources, dict)
    assert isinstance(history, dict)
    assert inputs["checkpoint_cost_hours"] == pytest.approx(36 / 3600)
    assert inputs["restore_hours"] == pytest.approx(180 / 3600)
    assert inputs["upload_hours"] == pytest.approx(60 / 3600)
    assert (history["node_hours"], history["reclaims"]) == (200.0, 1)
    assert "median of 3 saves and 1 restores" in sources["checkpoint_cost"]


@pytest.mark.parametrize("columns", ["80", "160"])
def test_pictures_fit_their_width_and_hold_no_colour_off_a_terminal(tmp_path: Path, columns: str) -> None:
    saved = (
        "--hours",
        "24",
        "--discount",
        "0.7",
        "--rate",
        "0.125",
        "--checkpoint-cost",
        "36s",
        "--restore",
        "3m",
    )
    ran = reprieve(tmp_path, "plan", *saved, "--deadline", "26h", "--plot", environ={"COLUMNS": columns})
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.out
    pictures = ran.out[ran.out.index("Cost in on-demand hours against") :]
    for title in (
        "Saving against the reclaims suffered",
        "Chance to be done against wall time",
        "safe range 12m 34s",
    ):
        assert title in pictures
    assert "deadline 26h, met with 87.16 %" in pictures
    assert max(map(len, pictures.splitlines())) <= int(columns)
    heat = reprieve(tmp_path, *SWEEP, *GRID, "--plot", environ={"COLUMNS": columns})
    drawn = heat.out[heat.out.index("Saving over interval") :]
    assert "█" in drawn
    assert max(map(len, drawn.splitlines())) <= int(columns)
    curve = reprieve(
        tmp_path,
        "plan",
        "sweep",
        "--hours",
        "24",
        "--discount",
        "0.7",
        "--lost",
        "10m",
        "--grid",
        "reclaims=0..400:41",
        "--plot",
    )
    assert "Saving over reclaims" in curve.out


def test_the_plan_command_needs_no_picture_for_machines(tmp_path: Path) -> None:
    ran = reprieve(
        tmp_path,
        "plan",
        "--hours",
        "24",
        "--discount",
        "0.7",
        "--reclaims",
        "3",
        "--lost",
        "10m",
        "--plot",
        "-o",
        "json",
    )
    assert json.loads(ran.out)["billed_hours"] == 24.5

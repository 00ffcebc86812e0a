"""`reprieve plan` and `reprieve pools` as a user types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.data import data

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ("plan", "--hours", "24", "--discount", "0.7", "--reclaims", "3", "--lost", "10m")


def run(*words: str, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("REPRIEVE_")}
    if home is not None:
        environment |= {f"XDG_{kind}_HOME": str(home / kind) for kind in ("CONFIG", "STATE", "CACHE", "DATA")}
    argv = [sys.executable, "-m", "console.cli.main", *words]
    return subprocess.run(
        argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_worked_example_on_the_command_line() -> None:
    done = run(*EXAMPLE, "-o", "json")
    plan = json.loads(done.stdout)
    assert done.returncode == 0
    assert done.stderr == ""
    assert [
        plan[name] for name in ("billed_hours", "cost_in_on_demand_hours", "saving_fraction")
    ] == pytest.approx([24.5, 7.35, 0.69375])
    assert plan["verdict"] == "pays"
    assert plan["break_even_ratio"] == pytest.approx(7 / 3)
    people = run(*EXAMPLE)
    assert people.stdout.startswith("Spot pays: 24 h of work cost 7.35 on-demand hours, 69.4 % saved.")


def test_check_exits_8_and_still_prints() -> None:
    done = run(
        "plan",
        "--hours",
        "24",
        "--discount",
        "0.7",
        "--reclaims",
        "3",
        "--lost",
        "20h",
        "--check",
        "-o",
        "json",
    )
    assert done.returncode == 8
    assert json.loads(done.stdout)["verdict"] == "does_not_pay"
    never = run("plan", "--hours", "24", "--discount", "0.7", "--rate", "2", "--lost", "1h", "--check")
    assert never.returncode == 8
    assert "never finishes" in never.stdout


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (("--hours", "0"), "--hours"), (("--hours", "nan"), "--hours"), (("--discount", "1"), "--discount"),
        (("--discount", "70"), "did you mean 0.7"), (("--lost", "10"), "--lost"), (("--reclaims", "-1"), "--reclaims"),
        (("--rate", "0.1"), "--rate"), (("--checkpoint-cost", "3s"), "--checkpoint-cost"), (("--band", "5"), "--band"),
        (("--pool", "aws/x"), "--pool"), (("--nodes", "0"), "--nodes"), (("--nothing", "1"), "--nothing"),
    ],
)  # fmt: skip
def test_bad_values_are_one_line_and_exit_2(changed: tuple[str, ...], words: str) -> None:
    done = run(*EXAMPLE, *changed)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    machine = run(*EXAMPLE, *changed, "-o", "json")
    assert json.loads(machine.stderr)["code"] == 2


def test_one_plan_loads_no_numpy() -> None:
    program = (
        "import sys; from console.cli.main import main\n"
        "sys.argv = ['reprieve', *sys.argv[1:]]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('numpy', 'textual', 'asyncssh', 'sqlite3', 'decimal') if name in sys.modules], file=sys.stderr)"
    )
    argv = [sys.executable, "-c", program, *EXAMPLE, "-o", "json"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.strip().endswith("[]")


def test_pools_of_the_real_feed(tmp_path: Path) -> None:
    feed = str(data("spot-advisor", "spot-advisor-2025-06.json.gz"))
    listing = ("pools", "list", "--region", "us-east-1", "--instance", "p5*", "-o", "json")
    done = run(*listing, "--feed", feed, home=tmp_path)
    assert done.returncode == 0
    items = {item["pool"]: item for item in json.loads(done.stdout)["items"]}
    row = items["aws/us-east-1/p5.48xlarge/linux"]
    assert (row["band"], row["band_basis"], row["discount"]) == (">20%", "month", 0.52)
    assert row["break_even_ratio"] == pytest.approx(0.52 / 0.48)
    assert row["snapshot"] == "2025-06"
    nothing = run(*listing, home=tmp_path)
    assert nothing.returncode == 2
    assert "pools pull" in nothing.stderr
    assert run("pools", "pull", "--feed", feed, home=tmp_path).returncode == 0
    again = run(*listing, home=tmp_path)
    same = {"fetched_at", "age_s"}
    cached = {item["pool"]: item for item in json.loads(again.stdout)["items"]}
    assert {k: v for k, v in cached["aws/us-east-1/p5.48xlarge/linux"].items() if k not in same} == {
        k: v for k, v in row.items() if k not in same
    }
    plan = run(
        "plan",
        "--hours",
        "24",
        "--pool",
        "aws/us-east-1/p5.48xlarge/linux",
        "--lost",
        "10m",
        "-o",
        "json",
        home=tmp_path,
    )
    assert "snapshot 2025-06" in json.loads(plan.stdout)["sources"]["discount"]

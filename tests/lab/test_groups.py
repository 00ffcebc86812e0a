"""Groups on real hosts: one moment for all, a program on two hosts brought back from it, and a host lost in between."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from backends.practice.namespaces import address_of
from tests.support.lab import ROOT, Lab, environment, until
from tests.support.reclaims import able_lab, host

pytestmark = [pytest.mark.lab, pytest.mark.prove]
GROUP = "ranks"
PORT = 29_555


def start_pair(fleet: Lab, hosts: int) -> None:
    """Rank 0 on the first host, rank 1 on the second."""
    peers = [address_of(number + 1) for number in range(hosts)]
    for rank in (0, 1):
        line = [
            sys.executable,
            str(ROOT / "examples/pair.py"),
            f"/data/rank{rank}",
            str(rank),
            str(PORT),
            *peers,
        ]
        fleet.cli(
            "jobs", "run", f"rank{rank}", "--node", host(rank), "--engine", "criu", "--interval", "1h",
            "--group", GROUP, "--yes", "--", *line,
        )  # fmt: skip


def test_two_ranks_go_on_from_one_moment(tmp_path: Path) -> None:
    with able_lab(tmp_path / "state", 3) as fleet:
        start_pair(fleet, 3)
        fleet.moves("rank1")
        saved = fleet.cli("jobs", "save", "--group", GROUP, "--yes", "-o", "json").document
        assert [each["name"] for each in saved["members"]] == ["rank0", "rank1"]
        print(f"skew {saved['skew_s'] * 1000:.1f} ms, ± {saved['uncertain_s'] * 1000:.1f} ms")
        for name in ("rank0", "rank1"):
            fleet.moves(name)
        fleet.cli("jobs", "save", "rank1", "--yes")  # a newer one of it alone, which does not fit the other
        fleet.act("reclaim", host=host(0))
        refused = fleet.cli("jobs", "restore", "--group", GROUP, "--yes", code=9)
        assert "rank1 lives and is ended first" in refused.err + refused.out or "--confirm" in refused.err
        back = fleet.cli(
            "jobs", "restore", "--group", GROUP, "--yes", "--confirm", GROUP, "-o", "json"
        ).document
        assert [(each["state"], each["epoch"]) for each in back["items"]] == [("restored", 2)] * 2
        checkpoints = {each["name"]: each["checkpoint"] for each in saved["members"]}
        assert {each["job"]: each["checkpoint"] for each in back["items"]} == checkpoints
        for name in ("rank0", "rank1"):
            fleet.moves(name)
        (pid,) = fleet.processes("rank0")
        text = Path(f"/proc/{pid}/root/data/rank0/progress.txt").read_text()
        assert "out of step" not in text
        numbers = [int(line) for line in text.splitlines()]
        assert numbers == list(range(1, len(numbers) + 1)), "no step is missing and none was taken twice"


def test_a_host_lost_between_freeze_and_commit(tmp_path: Path) -> None:
    names = [f"r{number}" for number in range(4)]
    with able_lab(tmp_path / "state", 4) as fleet:
        for number, name in enumerate(names):
            fleet.start(name, host(number), "--group", GROUP, "--interval", "1h")
        pids = {name: next(iter(fleet.processes(name))) for name in names}
        child = subprocess.Popen(
            [sys.executable, "-m", "console.cli.main", "--context", "practice", "jobs", "save", "--group", GROUP,
             "--yes"],
            cwd=ROOT, env=environment(fleet.state), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        until("r2 stands still", lambda: fleet.processes("r2").get(pids["r2"], "") in ("T", "t"))
        fleet.act("reclaim", host=host(2))
        out, err = child.communicate(timeout=200)
        assert child.returncode == 1, out + err
        assert "was not saved" in err
        assert "r2" in err or "host-c" in err
        for name in ("r0", "r1", "r3"):
            assert list(fleet.processes(name)) == [pids[name]]
            fleet.moves(name)
        assert not list(Path(f"{fleet.running.layout.store}/groups").rglob("saves/*")), (
            "nothing half-committed"
        )
        refused = fleet.cli("jobs", "restore", "--group", GROUP, "--yes", code=6)
        assert "none was ever made" in refused.err

"""`reprieve practice …` in processes of its own, on a loopback fleet."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.practice.layout import Layout
from console.cli.commands.practice import _added
from tests.support.cli import MAIN, ROOT, Ran, clean_environment, reprieve
from tests.support.practice import processes_naming, wait_until

UNHEARD = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); " + MAIN


@pytest.fixture
def up(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """`practice up` as a script's background job, which begins with SIGINT ignored."""
    process = subprocess.Popen(
        [sys.executable, "-c", UNHEARD, "practice", "up", "--hosts", "2", "--mode", "loopback"],
        cwd=ROOT,
        env=clean_environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "practice fleet of 2 hosts · loopback: asked for\n"
    yield process
    process.kill()
    process.communicate()


def document(ran: Ran) -> dict[str, object]:
    assert ran.code == 0, ran.err
    found: dict[str, object] = json.loads(ran.out)
    return found


def test_a_fleet_is_used_broken_and_ended_by_ctrl_c(tmp_path: Path, up: subprocess.Popen[str]) -> None:
    fleet = document(reprieve(tmp_path, "practice", "status", "-o", "json"))
    assert (fleet["schema"], fleet["mode"]) == ("reprieve/practice/v1", "loopback")
    told = document(reprieve(tmp_path, "practice", "notice", "host-a", "-o", "json"))
    assert (told["schema"], told["state"]) == ("reprieve/practice-host/v1", "noticed")
    assert reprieve(tmp_path, "practice", "partition", "host-a").err.startswith("host-a is cut off")
    assert reprieve(tmp_path, "practice", "heal", "host-a").err == "host-a answers again\n"
    assert reprieve(tmp_path, "practice", "reclaim", "host-b").err == "host-b was taken\n"
    again = reprieve(tmp_path, "practice", "reclaim", "host-b")
    assert (again.code, again.err) == (2, "error: practice host host-b was reclaimed already\n")
    assert "host-c is there, bare" in reprieve(tmp_path, "practice", "add").err
    empty = reprieve(tmp_path, "jobs", "list")
    assert "a practice fleet runs: reprieve --context practice jobs list" in empty.err
    text = reprieve(tmp_path, "practice", "status").out
    assert [line.split()[:2] for line in text.splitlines()[1:4]] == [
        ["host-a", "noticed"],
        ["host-b", "terminated"],
        ["host-c", "running"],
    ]
    assert f"metrics  {fleet['metrics']}" in text
    assert f"log in   ssh -i {fleet['identity_file']} -p " in text
    nodes = sorted(path.name for path in (tmp_path / "state/reprieve/practice/fleet/nodes").iterdir())
    assert nodes == ["host-a.toml", "host-b.toml", "host-c.toml"]
    up.send_signal(signal.SIGINT)
    assert up.wait(30) == 130
    assert wait_until(lambda: not processes_naming(str(tmp_path)))
    gone = reprieve(tmp_path, "practice", "reclaim", "host-a")
    place = tmp_path / "state/reprieve/practice"
    assert (gone.code, gone.err) == (
        5, f"error: no practice fleet runs in {place}\nhint: start one with: reprieve practice up\n"
    )  # fmt: skip


def test_a_new_host_of_a_bare_fleet_is_for_a_fleet_of_ones_own(tmp_path: Path) -> None:
    host = {"name": "host-d", "ssh": "root@127.0.0.1:50000", "instance": "i-1", "pool": "practice/a/b/linux"}
    told = _added(Layout(tmp_path), host)
    assert told.startswith(
        "host-d is there, bare; into a fleet of your own: reprieve fleet add host-d --ssh root@127.0.0.1:50000"
    )
    assert "--context practice" not in told
    assert "--provider practice --instance i-1" in told
    assert not list(tmp_path.rglob("*.toml"))


def test_down_ends_it_from_another_terminal(tmp_path: Path, up: subprocess.Popen[str]) -> None:
    second = reprieve(tmp_path, "practice", "up", "--mode", "loopback")
    assert second.code == 2
    assert "runs in" in second.err
    assert reprieve(tmp_path, "practice", "down").err == "the practice fleet has ended\n"
    assert up.wait(30) == 0
    assert wait_until(lambda: not processes_naming(str(tmp_path)))
    assert reprieve(tmp_path, "practice", "down").err == "no practice fleet runs\n"


def test_a_demo_without_a_terminal_asks_for_headless(tmp_path: Path) -> None:
    ran = reprieve(tmp_path, "demo")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: demo needs a terminal for the console\nhint: add --headless\n"
    machine = reprieve(tmp_path, "demo", "-o", "json")
    assert (machine.code, machine.out) == (2, "")
    told = json.loads(machine.err)
    assert (told["code"], told["kind"], told["hint"]) == (2, "usage", "add --headless")
    assert not (tmp_path / "state").exists()

"""A command line on a practice fleet of real processes that lost two of its hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backends.clouds.practice.client import PracticeClient
from backends.practice import launch

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "examples" / "selfsave.py"


class Console:
    """The command line on a practice fleet of its own."""

    def __init__(self, directory: Path, **environment: str) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.environment = {
            **os.environ,
            "XDG_STATE_HOME": str(self.state),
            "XDG_CONFIG_HOME": str(directory / "config"),
            **environment,
        }

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "console.cli.main", "--context", "practice", *words]

    def run(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            self.argv(*words),
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.argv(*words),
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )


def alive(work: Path) -> list[int]:
    """Processes of the job that works in this directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if str(work).encode() in words and str(PROGRAM).encode() in words and state not in ("Z", "X"):
            found.append(int(entry.name))
    return found


def begin(console: Console, name: str, node: str) -> Path:
    work = console.directory / name
    work.mkdir()
    line = [sys.executable, str(PROGRAM), "--directory", str(work), "--steps", "100000", "--size", "1000"]
    console.run(
        "jobs", "run", name, "--node", node, "--engine", "signal", "--marker", f"{work}/ckpt/*/COMPLETE",
        "--files", f"{work}/ckpt", "--interval", "60s", "--resume", " ".join([*line, "--resume"]), "--yes", "--", *line,
    )  # fmt: skip
    return work


@contextmanager
def practice_console(directory: Path, hosts: int, **environment: str) -> Iterator[Console]:
    """A command line on a loopback fleet of its own that ends with the block."""
    console = Console(directory, **environment)
    place = console.state / "reprieve" / "practice"
    place.parent.mkdir(parents=True)
    with launch.start(place, hosts=hosts, mode="loopback"):
        yield console


def lose_two_hosts(console: Console, jobs: int) -> dict[str, Path]:
    """Jobs by name with their directories, saved on two hosts that were then taken; none of them lives."""
    console.run("fleet", "install", "--yes")
    practice = console.state / "reprieve" / "practice"
    client = PracticeClient(Path(json.loads((practice / "context.json").read_text())["socket"]))
    hosts = [host["name"] for host in client.call("describe")["hosts"]]
    works = {f"j{number}": begin(console, f"j{number}", hosts[number % 2]) for number in range(jobs)}
    for host in hosts[:2]:
        client.call("reclaim", host=host)
    assert all(alive(work) == [] for work in works.values())
    (console.directory / "lost.csv").write_text("job\n" + "\n".join(works) + "\n")
    return works


def check_each_lives_once(works: dict[str, Path], ends: dict[str, dict[str, Any]], told: object) -> None:
    """Every job has exactly one process and was restored; `told` goes into the message."""
    assert set(ends) == set(works)
    reasons = {
        name: line["reason"]
        for name, line in ends.items()
        if line["state"] not in ("restored", "already_restored")
    }
    living = {name: alive(work) for name, work in works.items()}
    for name, processes in living.items():
        assert len(processes) == 1 or (not processes and reasons.get(name)), (
            told,
            name,
            processes,
            ends[name],
        )
    assert reasons == {}, f"{told}: {reasons}"

"""A real console is killed with SIGKILL in the middle of a batch on a loopback fleet of real processes, and resumed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.clouds.practice.client import PracticeClient
from backends.practice import launch

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "examples" / "selfsave.py"
JOBS = int(os.environ.get("REPRIEVE_BATCH_JOBS", "6"))
HOSTS = 4

pytestmark = pytest.mark.slow


class Console:
    """The command line on a practice fleet of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.environment = {
            **os.environ,
            "XDG_STATE_HOME": str(self.state),
            "XDG_CONFIG_HOME": str(directory / "config"),
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


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    console = Console(tmp_path)
    place = console.state / "reprieve" / "practice"
    place.parent.mkdir(parents=True)
    with launch.start(place, hosts=HOSTS, mode="loopback"):
        yield console


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


def test_killed_in_the_middle_and_resumed_each_job_lives_once(console: Console) -> None:
    seed = int(os.environ.get("REPRIEVE_SEED", random.randrange(1 << 30)))
    random_ = random.Random(seed)
    print(f"seed {seed}")
    console.run("fleet", "install", "--yes")
    practice = console.state / "reprieve" / "practice"
    description = PracticeClient(Path(json.loads((practice / "context.json").read_text())["socket"]))
    hosts = [host["name"] for host in description.call("describe")["hosts"]]
    works: dict[str, Path] = {}
    for number in range(JOBS):
        works[f"j{number}"] = begin(console, f"j{number}", hosts[number % 2])
    for host in hosts[:2]:
        description.call("reclaim", host=host)
    assert all(alive(work) == [] for work in works.values())
    file = console.directory / "lost.csv"
    file.write_text("job\n" + "\n".join(works) + "\n")
    child = console.start("batch", "restore", str(file), "--yes", "-o", "ndjson", "--max-parallel", "3")
    kills = 0
    for _ in range(3):
        time.sleep(random_.uniform(1.0, 5.0))
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
            kills += 1
        child.communicate(timeout=60)
        runs: list[dict[str, Any]] = json.loads(console.run("batch", "list", "-o", "json"))["items"]
        if not runs:  # killed before anything was journalled: nothing was begun
            child = console.start("batch", "restore", str(file), "--yes", "-o", "ndjson")
            continue
        child = console.start("batch", "resume", runs[0]["name"], "--yes", "-o", "ndjson")
    out, _ = child.communicate(timeout=240)
    lines = [json.loads(line) for line in out.splitlines()]
    print(f"killed {kills} times; {lines[-1]}")
    ends = {line["job"]: line for line in lines if line["schema"] == "reprieve/batch-item/v1"}
    assert set(ends) == set(works)
    for name, work in works.items():
        processes = alive(work)
        named_failure = ends[name]["state"] in ("failed", "refused") and ends[name]["reason"]
        assert len(processes) == 1 or (not processes and named_failure), (seed, name, processes, ends[name])
    restored = [line for line in ends.values() if line["state"] in ("restored", "already_restored")]
    reasons = {name: line["reason"] for name, line in ends.items() if line not in restored}
    assert reasons == {}, f"seed {seed}: {reasons}"

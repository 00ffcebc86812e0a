"""The console dies with SIGKILL in the middle of a batch of 20 restores on real hosts; the batch is resumed."""

from __future__ import annotations

import asyncio
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

from backends.practice import abilities
from backends.records.job import Job
from console.operations.common import runs
from console.operations.demo.telling import context_of
from console.operations.fleet import Fleet
from console.operations.flows.protect import protect
from console.operations.real.opening import open_fleet
from tests.support.lab import CLOCK, ROOT, Lab, environment, lab

pytestmark = pytest.mark.lab
JOBS = 20
AT_ONCE = 4


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Lab]:
    """Four hosts with guards."""
    reason = abilities.why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    with lab(tmp_path / "state", 4) as found:
        yield found


async def start_all(fleet: Lab, names: list[str]) -> None:
    """Start the jobs on the first two hosts, a few at once, over one console."""
    opened = open_fleet(context_of(fleet.running), CLOCK, "setup")
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, name: str) -> None:
        async with gate:
            await start(opened, number, name)

    try:
        await asyncio.gather(*(one(number, name) for number, name in enumerate(names)))
    finally:
        await opened.close()


async def start(opened: Fleet, number: int, name: str) -> None:
    line = [
        sys.executable, str(ROOT / "examples" / "train.py"), "--steps", "1000000", "--state-mib", "5",
        "--step-seconds", "1", "--directory", f"/data/{name}",
    ]  # fmt: skip
    job = Job(
        name=name, node=("host-a", "host-b")[number % 2], command=tuple(line), engine="criu", interval_s=3600.0,
        files=(f"/data/{name}",), environment={"OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    opened.records.put_job(job)
    run = runs.open_run(opened, "start", [("1", name, {})])
    await protect(opened, job, "start", run.id, "1", lambda _: None)
    opened.ledger.close_item(run.id, "1", "done", "", {})
    runs.close(opened, run.id)


def begin(fleet: Lab, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "console.cli.main", "--context", "practice", *words],
        cwd=ROOT, env=environment(fleet.state), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def test_killed_in_the_middle_of_twenty_and_resumed_each_job_lives_once(fleet: Lab) -> None:
    seed = int(os.environ.get("REPRIEVE_TEST_SEED", random.randrange(1 << 30)))
    print(f"seed {seed}")
    rng = random.Random(seed)
    names = [f"j{number:02}" for number in range(JOBS)]
    asyncio.run(start_all(fleet, names))
    for host in ("host-a", "host-b"):
        fleet.act("reclaim", host=host)
    assert not any(fleet.processes(name) for name in names)
    file = fleet.state / "lost.csv"
    file.write_text("job\n" + "\n".join(names) + "\n")
    words = ("--yes", "-o", "ndjson", "--max-parallel", str(AT_ONCE))
    child = begin(fleet, "batch", "restore", str(file), *words)
    assert child.stdout is not None
    for _ in range(rng.randrange(1, JOBS // 2)):  # so many jobs are back when it dies, others are half-way
        assert child.stdout.readline()
    time.sleep(rng.uniform(0.0, 1.0))
    child.send_signal(signal.SIGKILL)
    child.communicate()
    (run,) = [item["name"] for item in fleet.cli("batch", "list", "-o", "json").document["items"]]
    done = fleet.cli("batch", "resume", run, *words, timeout_s=240)
    lines = [json.loads(line) for line in done.out.splitlines()]
    ends: dict[str, dict[str, Any]] = {
        line["job"]: line for line in lines if line["schema"] == "reprieve/batch-item/v1"
    }
    assert set(ends) == set(names)
    # Frozen ones count too: a save may be under way while we look.
    living = {name: sorted(fleet.processes(name)) for name in names}
    for name in names:
        named_failure = ends[name]["state"] in ("failed", "refused") and ends[name]["reason"]
        assert len(living[name]) == 1 or (not living[name] and named_failure), (
            name,
            living[name],
            ends[name],
        )
    assert {ends[name]["state"] for name in names} <= {"restored", "already_restored"}
    again = fleet.cli("batch", "resume", run, *words)
    for line in map(json.loads, again.out.splitlines()):
        if line["schema"] == "reprieve/batch-item/v1":
            assert (line["node"], line["epoch"]) == (ends[line["job"]]["node"], ends[line["job"]]["epoch"])
    assert {name: sorted(fleet.processes(name)) for name in names} == living

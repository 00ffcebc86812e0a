"""A real console is killed with SIGKILL in the middle of a batch on a loopback fleet of real processes, and resumed."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.batches import Console, check_each_lives_once, lose_two_hosts, practice_console

JOBS = int(os.environ.get("REPRIEVE_BATCH_JOBS", "6"))
HOSTS = 4

pytestmark = pytest.mark.slow


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    with practice_console(tmp_path, HOSTS) as console:
        yield console


def test_killed_in_the_middle_and_resumed_each_job_lives_once(console: Console) -> None:
    seed = int(os.environ.get("REPRIEVE_SEED", random.randrange(1 << 30)))
    random_ = random.Random(seed)
    print(f"seed {seed}")
    works = lose_two_hosts(console, JOBS)
    file = str(console.directory / "lost.csv")
    child = console.start("batch", "restore", file, "--yes", "-o", "ndjson", "--max-parallel", "3")
    kills = 0
    for _ in range(3):
        time.sleep(random_.uniform(1.0, 5.0))
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
            kills += 1
        child.communicate(timeout=60)
        runs: list[dict[str, Any]] = json.loads(console.run("batch", "list", "-o", "json"))["items"]
        if not runs:  # killed before anything was journalled: nothing was begun
            child = console.start("batch", "restore", file, "--yes", "-o", "ndjson")
            continue
        child = console.start("batch", "resume", runs[0]["name"], "--yes", "-o", "ndjson")
    out, _ = child.communicate(timeout=240)
    lines = [json.loads(line) for line in out.splitlines()]
    print(f"killed {kills} times; {lines[-1]}")
    ends = {line["job"]: line for line in lines if line["schema"] == "reprieve/batch-item/v1"}
    check_each_lives_once(works, ends, f"seed {seed}")

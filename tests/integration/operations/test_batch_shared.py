"""Two controllers share a fleet through PostgreSQL; one is killed with SIGKILL, the other takes its items over."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.batches import Console, check_each_lives_once, lose_two_hosts, practice_console
from tests.support.objects import UnavailableError
from tests.support.postgres import postgres

JOBS = 6

pytestmark = pytest.mark.stores


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    pytest.importorskip("psycopg", reason="psycopg is not installed: the extra reprieve[postgres]")
    try:
        with postgres() as url, practice_console(tmp_path, 4, REPRIEVE_LEDGER=url) as console:
            yield console
    except UnavailableError as error:
        pytest.skip(str(error))


def test_each_job_is_restored_by_exactly_one_of_two_controllers(console: Console) -> None:
    seed = int(os.environ.get("REPRIEVE_SEED", random.randrange(1 << 30)))
    print(f"seed {seed}")
    works = lose_two_hosts(console, JOBS)
    one = console.start(
        "batch",
        "restore",
        str(console.directory / "lost.csv"),
        "--yes",
        "-o",
        "ndjson",
        "--max-parallel",
        "2",
    )
    runs: list[dict[str, Any]] = []
    end = time.monotonic() + 60
    while not runs and time.monotonic() < end:
        runs = json.loads(console.run("batch", "list", "-o", "json"))["items"]
    other = console.start("batch", "resume", runs[0]["name"], "--yes", "-o", "ndjson", "--max-parallel", "2")
    time.sleep(random.Random(seed).uniform(2.0, 6.0))
    one.kill()
    said, _ = one.communicate(timeout=60)
    out, _ = other.communicate(timeout=240)
    lines = [json.loads(line) for line in out.splitlines()]
    ends = {line["job"]: line for line in lines if line["schema"] == "reprieve/batch-item/v1"}
    check_each_lives_once(works, ends, f"seed {seed}")
    assert {line["epoch"] for line in ends.values()} <= {
        2,
        3,
    }  # 3: the killed one had claimed, not yet named a node
    done = [json.loads(line)["job"] for line in said.splitlines() if line.endswith("}")]
    print(f"the killed controller told of {done}; {lines[-1]}")
    listed = json.loads(console.run("batch", "list", "-o", "json"))["items"]
    assert [run["name"] for run in listed] == [runs[0]["name"]]

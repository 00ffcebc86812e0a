"""A batch of a thousand items on fake nodes: what one item costs our own processor."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.fakes.clock import run
from console.operations.decide.batch import BatchItem
from console.operations.flows import batch
from tests.support.operations import Practice

HOMES, TARGETS, PARALLEL = 20, 40, 16
MOST_MS = 50.0  # of our CPU an item, all of a restore's steps and its journal included


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory without a disk behind it: the ledger's syncs are not what is measured."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
        yield Path(directory)


@pytest.mark.parametrize("items", [100, pytest.param(1000, marks=pytest.mark.prove)])
def test_what_an_item_costs(memory: Path, items: int, capsys: pytest.CaptureFixture[str]) -> None:
    practice = Practice(memory, nodes=HOMES + TARGETS)
    jobs = [practice.running_job(f"j{number:04d}", f"n{number % HOMES}") for number in range(items)]
    for number in range(HOMES):
        practice.reclaim(f"n{number}")
    lines: list[dict[str, Any]] = []
    before = time.process_time()
    run_id = batch.begin(practice.fleet(), [BatchItem(job.name) for job in jobs])
    proceeding = batch.proceed(practice.fleet(), run_id, lines.append, lambda _: None, max_parallel=PARALLEL)
    document = run(practice.clock, proceeding)
    each_ms = (time.process_time() - before) / items * 1000
    assert document["restored"] == items
    assert all(len(practice.where(job.uid)) == 1 for job in jobs)
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    with capsys.disabled():
        print(f"\n{items} items on {TARGETS} nodes: {each_ms:.1f} ms CPU each, {mib} MiB at most")
    assert each_ms <= MOST_MS

"""A thousand fake nodes, a tenth of them hanging: a hundred losses at once are noticed and brought back in order."""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.fakes.clock import run
from console.operations.common.candidates import AT_ONCE
from console.operations.flows.watch import MOST_AT_ONCE, Watch
from tests.support.operations import Practice

NODES, LOST, HANGING, EVERY_S = 1000, 100, 100, 5.0


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory without a disk behind it: the ledger's syncs are not what is measured."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
        yield Path(directory)


@pytest.mark.slow
def test_a_hundred_losses_at_once(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    practice = Practice(memory, nodes=NODES)
    jobs = [practice.running_job(f"j{n:03d}", f"n{n}", priority=n % 5) for n in range(LOST)]
    for number in range(LOST, LOST + HANGING):
        practice.nodes[f"n{number}"].partitioned = True
    told: list[tuple[float, str]] = []
    started = time.process_time()

    async def main() -> float:
        fleet = practice.fleet("controller")
        watch = Watch(fleet, lambda text: told.append((practice.clock.monotonic(), text)), every_s=EVERY_S)
        task = asyncio.create_task(watch.run())
        await asyncio.sleep(12)
        for number in range(LOST):
            practice.reclaim(f"n{number}")
        lost_at = practice.clock.monotonic()
        for _ in range(300):
            await asyncio.sleep(1)
            for node in practice.nodes.values():
                node.finish_restores()
            if all(practice.where(job.uid) for job in jobs):
                break
        watch.stopping = True
        await task
        return lost_at

    lost_at = run(practice.clock, main())
    cpu_s = time.process_time() - started
    noticed = [at - lost_at for at, text in told if text.startswith("node ") and " is lost: " in text]
    assert len(noticed) == LOST
    assert max(noticed) <= 2 * EVERY_S
    homes = [practice.where(job.uid) for job in jobs]
    assert all(len(home) == 1 and home[0][1] == 2 for home in homes), "each of them lives once, under epoch 2"
    crowd = Counter(home[0][0] for home in homes)
    asked = sum(node.calls.count("facts") for node in practice.nodes.values())
    assert asked <= 4 * AT_ONCE * LOST, "a fleet of a thousand is not asked a thousand times a job"
    assert max(crowd.values()) == 1, "800 nodes were free: nobody shares one"
    priorities = {job.uid: job.priority for job in jobs}
    begun = [priorities[uid] for uid, epoch, _ in practice.book.chosen if epoch == 2]
    inversions = [
        (place, each)
        for place, each in enumerate(begun)
        if any(p > each for p in begun[place + MOST_AT_ONCE :])
    ]
    assert begun[:MOST_AT_ONCE] == [4] * MOST_AT_ONCE
    assert inversions == [], "higher priority first, as far as restores under way at once allow"
    memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    with capsys.disabled():
        print(
            f"\n{NODES} nodes, {HANGING} hanging, {LOST} lost: noticed in {max(noticed):.0f} s, back in "
            f"{practice.clock.monotonic() - lost_at:.0f} s of their time; {cpu_s:.1f} s CPU here, {memory_mib} MiB at most"
        )
    assert cpu_s < 60
    assert memory_mib < 1024

"""A seeded batch of restores whose console is killed again and again, with failing and damaged targets in its way."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from backends.fakes.clock import run
from backends.records.job import Job
from console.operations.decide.batch import BatchItem
from console.operations.flows import batch
from tests.support.operations import Crash, Practice
from tests.support.simulation import Violation

JOBS = 3
MOMENTS = 5000  # a whole batch takes some hundreds
LIVES = 12  # of the console; a batch that is never done is a violation too


def play_batch(seed: int, *, in_memory: bool = True) -> int:
    """One seed; the number of kills. Violation: a job lives twice, an epoch began twice, or one is lost without a word."""
    random_ = random.Random(seed)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
        practice = Practice(Path(directory), nodes=5, in_memory=in_memory)
        jobs = [practice.running_job(f"j{n}", f"n{n % 2}", saves=random_.randint(1, 2)) for n in range(JOBS)]
        for name in ("n0", "n1"):
            practice.reclaim(name)
        practice.nodes["n3"].failures = ["it died after 1 s"] * random_.randint(0, 2)
        if random_.random() < 0.3:
            practice.nodes["n4"].partitioned = True
        fleet = practice.fleet()
        run_id = batch.begin(fleet, [BatchItem(job.name) for job in jobs])
        fleet.ledger.close()
        left, passed = [0], [0]

        def moment(label: str) -> None:
            left[0] -= 1
            passed[0] += 1
            if passed[0] > MOMENTS:
                raise Violation(f"seed {seed}: it goes round and round at {label}")
            if left[0] == 0:
                raise Crash(label)

        practice.kill_at(moment)
        for life in range(LIVES):
            left[0] = random_.randint(1, 90) if life < LIVES // 2 else -1
            try:
                run(practice.clock, _proceed(practice, run_id))
                break
            except Crash:
                practice.clock.advance(random_.uniform(0, 10))
                check(practice, jobs, seed)
        else:
            raise Violation(f"seed {seed}: the batch was never done")
        check(practice, jobs, seed)
        ledger = practice.fleet().ledger
        states = {item.job: item for item in ledger.items(run_id)}
        ledger.close()
        for job in jobs:
            item = states[job.name]
            if not practice.world.live(job.uid) and not (item.state in ("failed", "refused") and item.reason):
                raise Violation(f"seed {seed}: {job.name} does not run and its item says {item.state}")
        return life


def check(practice: Practice, jobs: list[Job], seed: int) -> None:
    """What must hold at every moment."""
    for job in jobs:
        name, uid = job.name, job.uid
        live = practice.world.live(uid)
        if len(live) > 1:
            raise Violation(f"seed {seed}: two processes of {name}: {[(p.node, p.epoch) for p in live]}")
        for epoch in practice.book.epochs.get(uid, {}):
            if practice.world.starts(uid, epoch) > 1:
                raise Violation(f"seed {seed}: epoch {epoch} of {name} was started twice")


async def _proceed(practice: Practice, run_id: str) -> None:
    fleet = practice.fleet()
    try:
        await batch.proceed(fleet, run_id, lambda line: None, lambda text: None, max_parallel=2)
    finally:
        fleet.ledger.close()

"""A batch of 20 on 4 nodes, killed at every kind of moment and resumed: one live process or one named failure each."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from backends.errors import UsageError
from backends.fakes.clock import run
from console.operations.decide.batch import BatchItem
from console.operations.flows import batch
from tests.support.operations import Crash, Practice


def quiet(text: str) -> None:
    """No narration."""


def lost_fleet(directory: Path, jobs: int = 20) -> tuple[Practice, list[str]]:
    practice = Practice(directory, nodes=8)
    names = []
    for number in range(jobs):
        job = practice.running_job(f"j{number:02d}", f"n{number % 4}", priority=number % 3)
        names.append(job.name)
    for number in range(4):
        practice.reclaim(f"n{number}")
    return practice, names


def proceed(
    practice: Practice, run_id: str, who: str = "console", **how: Any
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    document = run(practice.clock, batch.proceed(practice.fleet(who), run_id, lines.append, quiet, **how))
    return lines, document


def uid_of(practice: Practice, name: str) -> str:
    return practice.records.jobs()[name].uid


def test_a_batch_restores_each_job_once_and_a_second_run_restores_nothing(tmp_path: Path) -> None:
    practice, names = lost_fleet(tmp_path)
    run_id = batch.begin(practice.fleet(), [BatchItem(name) for name in names])
    lines, document = proceed(practice, run_id)
    assert document["restored"] == 20
    assert document["state"] == "done"
    assert {line["state"] for line in lines} == {"restored"}
    assert all(len(practice.where(uid_of(practice, name))) == 1 for name in names)
    again, document = proceed(practice, run_id)
    assert document["restored"] == 20
    assert len(again) == 20
    second = batch.begin(practice.fleet(), [BatchItem(name) for name in names])
    _, document = proceed(practice, second)
    assert document["already_restored"] == 20
    assert all(practice.book.newest_epoch(uid_of(practice, name)) == 2 for name in names)


def test_higher_priority_begins_first(tmp_path: Path) -> None:
    practice, names = lost_fleet(tmp_path, 6)
    run_id = batch.begin(practice.fleet(), [BatchItem(name) for name in names])
    proceed(practice, run_id, max_parallel=1)
    started = [uid for uid, epoch, _ in practice.book.chosen if epoch == 2]
    priorities = [practice.records.jobs()[uid[:3]].priority for uid in started]
    assert priorities == sorted(priorities, reverse=True)


def test_items_that_fail_are_named_and_the_others_go_on(tmp_path: Path) -> None:
    practice, names = lost_fleet(tmp_path, 6)
    bad = uid_of(practice, names[0])
    for name in practice.book.saves[bad]:
        practice.book.damaged.add((bad, str(name)))
    run_id = batch.begin(practice.fleet(), [BatchItem(name) for name in names])
    lines, document = proceed(practice, run_id)
    assert document["failed"] == 1
    assert document["restored"] == 5
    assert document["state"] == "partial"
    failed = next(line for line in lines if line["state"] == "failed")
    assert failed["job"] == names[0]
    assert "damaged" in failed["reason"]


def test_fail_fast_starts_nothing_more(tmp_path: Path) -> None:
    practice, names = lost_fleet(tmp_path, 6)
    first = max(names, key=lambda name: practice.records.jobs()[name].priority)
    bad = uid_of(practice, first)
    practice.book.damaged.update((bad, str(name)) for name in practice.book.saves[bad])
    run_id = batch.begin(practice.fleet(), [BatchItem(name) for name in names])
    _, document = proceed(practice, run_id, max_parallel=1, fail_fast=True)
    assert document["cancelled"] == 5
    assert document["failed"] == 1


def test_an_unknown_job_and_a_foreign_run_are_refused(tmp_path: Path) -> None:
    practice, _ = lost_fleet(tmp_path, 1)
    with pytest.raises(UsageError, match="ghost"):
        batch.begin(practice.fleet(), [BatchItem("ghost")])
    with pytest.raises(UsageError, match="no operation"):
        proceed(practice, "0123")


def test_the_plan_changes_nothing(tmp_path: Path) -> None:
    practice, names = lost_fleet(tmp_path, 3)
    rows = run(practice.clock, batch.plan(practice.fleet(), [BatchItem(name) for name in names]))
    assert [row["checkpoint"] for row in rows] == ["1.1"] * 3
    assert all(row["node"] and not row["reason"] for row in rows)
    assert practice.book.newest_epoch(uid_of(practice, names[0])) == 1


class Kills:
    """Kills the console at given moments, counted over all consoles."""

    def __init__(self, moments: set[int]) -> None:
        self.moments, self.seen = moments, 0

    def __call__(self, label: str) -> None:
        self.seen += 1
        if self.seen in self.moments:
            raise Crash(label)


def drive_through(practice: Practice, run_id: str, kills: Kills) -> int:
    practice.kill_at(kills)
    crashes = 0
    while True:
        try:
            proceed(practice, run_id, max_parallel=5)
        except Crash:
            crashes += 1
            practice.clock.advance(5)
            continue
        return crashes


def check_once(practice: Practice, names: list[str], run_id: str) -> None:
    states = {item.job: item for item in practice.fleet().ledger.items(run_id)}
    for name in names:
        uid = uid_of(practice, name)
        live = practice.where(uid)
        assert len(live) == 1 or (not live and states[name].state == "failed" and states[name].reason), name
        assert all(practice.world.starts(uid, epoch) <= 1 for epoch in range(8)), name


@pytest.mark.parametrize("seed", range(12))
def test_killed_at_three_random_moments_and_resumed(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    practice, names = lost_fleet(tmp_path)
    practice.nodes["n5"].failures = ["died after 1.0 s"] * random_.randint(0, 2)
    run_id = batch.begin(practice.fleet(), [BatchItem(name) for name in names])
    kills = Kills(set(random_.sample(range(1, 700), 3)))
    crashes = drive_through(practice, run_id, kills)
    print(f"seed {seed}: killed {crashes} times in {kills.seen} moments")
    check_once(practice, names, run_id)


def test_killed_at_every_moment_of_one_item_among_others(tmp_path: Path) -> None:
    """Four jobs, every single moment of the whole batch once."""
    moment, total = 0, 10**9
    while moment < total:
        moment += 3
        practice, names = lost_fleet(tmp_path / str(moment), 4)
        run_id = batch.begin(practice.fleet(), [BatchItem(name) for name in names])
        kills = Kills({moment})
        if drive_through(practice, run_id, kills) == 0:
            total = kills.seen
        check_once(practice, names, run_id)
    assert moment > 60


def test_two_consoles_on_one_store_restore_each_job_once(tmp_path: Path) -> None:
    practice, names = lost_fleet(tmp_path / "a", 10)
    first = practice.fleet("one")
    practice.directory = tmp_path / "b"
    second = practice.fleet("two")
    items = [BatchItem(name) for name in names]
    lines: list[dict[str, Any]] = []

    async def both() -> None:
        await asyncio.gather(
            batch.proceed(first, batch.begin(first, items), lines.append, quiet),
            batch.proceed(second, batch.begin(second, items), lines.append, quiet),
        )

    run(practice.clock, both())
    for name in names:
        assert len(practice.where(uid_of(practice, name))) == 1, name
    states = {(line["job"], line["state"]) for line in lines}
    assert all((name, "restored") in states for name in names)
    assert {state for _, state in states} <= {"restored", "already_restored"}


def test_the_items_of_a_killed_console_pass_on_within_five_seconds(tmp_path: Path) -> None:
    """By the clock of the fakes; that a killed process's locks are free at once is the ledger's contract."""
    practice, names = lost_fleet(tmp_path)
    run_id = batch.begin(practice.fleet(), [BatchItem(name) for name in names])
    held: set[str] = set()
    taken: dict[str, float] = {}

    async def main() -> float:
        first, second = practice.fleet("one"), practice.fleet("two")
        mine = asyncio.create_task(
            batch.proceed(
                first,
                run_id,
                lambda line: held.discard(line["job"]),
                lambda text: held.add(text[:3]),
                max_parallel=5,
            )
        )
        await asyncio.sleep(1)

        def taking(name: str) -> None:
            taken.setdefault(name, practice.clock.monotonic())

        proceeding = batch.proceed(
            second,
            run_id,
            lambda line: taking(line["job"]),
            lambda text: taking(text[:3]),
            max_parallel=len(names),
        )
        other = asyncio.create_task(proceeding)
        await asyncio.sleep(1.5)
        assert held
        assert not held & set(taken), "what one console works on the other leaves alone"
        mine.cancel()
        await asyncio.gather(mine, return_exceptions=True)
        killed_at = practice.clock.monotonic()
        await other
        return killed_at

    killed_at = run(practice.clock, main())
    late = max(taken[name] - killed_at for name in held)
    print(f"{len(held)} items of the killed console passed on after at most {late:.1f} s")
    assert 0 <= late <= 5
    check_once(practice, names, run_id)

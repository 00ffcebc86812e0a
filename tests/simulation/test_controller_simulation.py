"""Seeds of reclaims, partitions, silent stores and clouds, damage, and killed controllers: no promise is broken.

A failing seed is printed; keep it in REGRESSIONS.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from backends.fakes.world import FakeWorld
from backends.records.job import Job
from console.operations.decide.loss import Limits, NodeVerdict, Proof, Witness
from console.operations.fleet import Fleet
from tests.support.operations import MemoryBook
from tests.support.seeded_batches import play_batch
from tests.support.simulation import Violation, play, play_range

SEEDS = int(os.environ.get("REPRIEVE_SEEDS", "2000"))
LONG = 20_000
BATCHES = 400
REGRESSIONS: tuple[int, ...] = ()


def play_half(half: int) -> None:
    """Every second seed; the other half is in the file beside, so that two processes share them."""
    restores = play_range(half, SEEDS // 2, 2)
    print(f"{SEEDS // 2} seeds, {restores} restores, 0 violations")
    assert restores > SEEDS // 2


@pytest.mark.slow
def test_no_even_seed_breaks_a_promise() -> None:
    assert [play(seed).seed for seed in REGRESSIONS] == list(REGRESSIONS)
    play_half(0)


@pytest.mark.slow
def test_no_batch_breaks_a_promise() -> None:
    kills = sum(play_batch(seed) for seed in range(BATCHES))
    print(f"{BATCHES} batches, the console killed {kills} times, 0 violations")
    assert kills > BATCHES


@pytest.mark.prove
def test_20000_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    """In as many processes as there are processors."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    size = 250
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        restores = sum(pool.map(play_range, range(0, LONG, size), [size] * (LONG // size)))
    with capsys.disabled():
        print(f"\n{LONG} seeds, {restores} restores, 0 violations")
    assert restores > LONG


def test_a_few_seeds_break_no_promise_with_ledgers_in_files() -> None:
    assert sum(play(seed, in_memory=False).restores for seed in range(1000, 1012)) > 5


def test_a_few_batches_break_no_promise_with_ledgers_in_files() -> None:
    assert sum(play_batch(seed, in_memory=False) for seed in range(1000, 1020)) > 10


def test_a_ledger_in_memory_tells_the_same_story_as_a_file() -> None:
    for seed in (3, 7):
        told, written = play(seed), play(seed, in_memory=False)
        assert (told.log, told.told, told.restores) == (written.log, written.told, written.restores)


def found_within(seeds: int, play: Callable[[int], object] = play) -> int:
    for seed in range(seeds):
        try:
            play(seed)
        except Violation as violation:
            print(str(violation).splitlines()[0])
            return seed
    return -1


def test_unreachable_taken_for_dead_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from console.operations.common import witness as common
    from console.operations.decide.loss import judge_node

    def eager(seen: Witness, limits: Limits) -> NodeVerdict:
        verdict = judge_node(seen, limits)
        if verdict.state == "unreachable":
            return NodeVerdict(
                "lost", verdict.reason, Proof("cloud", "silence", "nobody", "2026-12-01T00:00:00Z")
            )
        return verdict

    from console.operations import polling

    monkeypatch.setattr(common, "judge_node", eager)
    monkeypatch.setattr(polling, "judge_node", eager)
    assert found_within(500) >= 0


def test_an_epoch_that_is_not_checked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards that start whatever they are asked, under request ids that are never the same."""
    from backends.fakes.node import FakeNode
    from backends.records import strict
    from backends.records.job import Job

    def unchecked(self: FakeNode, document: dict[str, object]) -> tuple[Job, dict[str, object]]:
        grant = document["grant"]
        assert isinstance(grant, dict)
        return strict.read(Job, document["job"], what="job"), grant

    original = FakeNode.restore

    async def forgetful(self: FakeNode, document: dict[str, object]) -> dict[str, object]:
        world: FakeWorld = self.world
        fresh = {**document, "request": f"{document['request']}-{world.clock.monotonic()}"}
        return await original(self, fresh)

    monkeypatch.setattr(FakeNode, "_check_start", unchecked)
    monkeypatch.setattr(FakeNode, "restore", forgetful)
    assert found_within(500) >= 0


def test_a_call_that_broke_off_taken_for_the_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks the guard to decline, although the call may still arrive."""
    from console.operations.flows.asking import Asking

    async def trusting(self: Asking, running: object, node: object) -> str:
        return ""

    monkeypatch.setattr(Asking, "not_declined", trusting)
    assert found_within(500) >= 0


def test_a_pointer_trusted_instead_of_the_chain_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choosing the oldest save that can be read stands for any stale pointer."""
    from tests.support.operations import MemoryTruth

    chain = MemoryTruth.chain
    monkeypatch.setattr(MemoryTruth, "chain", lambda self, uid: list(reversed(chain(self, uid))))
    assert isinstance(MemoryBook, type)
    assert found_within(500) >= 0


def test_a_batch_step_repeated_without_observing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumed item begins from what its first look had found, before the kill, instead of looking again."""
    from console.operations.common import witness
    from console.operations.flows import restore

    looks: dict[tuple[int, str], witness.Evidence] = {}
    seed, begins = [-1], set[str]()
    drive = restore._Restore.drive

    async def begun(self: restore._Restore) -> restore.Restored:
        begins.add(self.job.uid)
        return await drive(self)

    async def remembering(fleet: Fleet, job: Job, failed: dict[int, str] | None = None) -> witness.Evidence:
        now = await witness.gather(fleet, job, failed)
        first = looks.setdefault((seed[0], job.uid), now)
        if job.uid not in begins:
            return now
        begins.discard(job.uid)
        return replace(now, guard=first.guard, proof=first.proof, verdict=first.verdict)

    def one(number: int) -> int:
        seed[0] = number
        return play_batch(number)

    monkeypatch.setattr(restore._Restore, "drive", begun)
    monkeypatch.setattr(restore, "gather", remembering)
    assert found_within(500, one) >= 0

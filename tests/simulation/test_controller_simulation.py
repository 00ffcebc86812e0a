"""Seeds of reclaims, partitions, silent stores and clouds, damage, and killed controllers: no promise is broken.

A failing seed is printed; keep it in REGRESSIONS.
"""

from __future__ import annotations

import os

import pytest

from backends.fakes.world import FakeWorld
from console.operations.decide.loss import Limits, NodeVerdict, Proof, Witness
from tests.support.operations import MemoryBook
from tests.support.simulation import Violation, play

SEEDS = int(os.environ.get("REPRIEVE_SEEDS", "300"))
REGRESSIONS: tuple[int, ...] = ()


@pytest.mark.slow
def test_no_seed_breaks_a_promise() -> None:
    restores = 0
    for seed in (*REGRESSIONS, *range(SEEDS)):
        restores += play(seed).restores
    print(f"{SEEDS} seeds, {restores} restores, 0 violations")
    assert restores > SEEDS


def test_a_few_seeds_break_no_promise() -> None:
    assert sum(play(seed).restores for seed in range(1000, 1012)) > 5


def found_within(seeds: int) -> int:
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
    assert found_within(100) >= 0


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
    assert found_within(100) >= 0


def test_a_pointer_trusted_instead_of_the_chain_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choosing the oldest save that can be read stands for any stale pointer."""
    from tests.support.operations import MemoryTruth

    chain = MemoryTruth.chain
    monkeypatch.setattr(MemoryTruth, "chain", lambda self, uid: list(reversed(chain(self, uid))))
    assert isinstance(MemoryBook, type)
    assert found_within(100) >= 0

"""The controller looks after checkpoints: reads them back, records it, deletes by policy; on a real store in memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from backends.errors import DamagedError, StoreError, UsageError
from backends.fakes.clock import run
from backends.store.sealing import JobKey
from console.operations import api
from console.operations.common.scrubs import scrubs
from console.operations.flows.upkeep import Upkeep, check_one, retain
from console.operations.flows.watch import Watch
from console.operations.looks.checkpoints import checkpoints
from tests.support.operations import Practice

DAY = 86400.0


class World:
    """One job with real saves, a controller's fleet, and what was told."""

    def __init__(self, directory: Path, saves: int = 4) -> None:
        self.practice = Practice(directory, real=True)
        self.job = self.practice.running_job("train", "n0", saves=saves, keep_last=1, min_age_s=0.0)
        self.fleet = self.practice.fleet("controller")
        self.told: list[str] = []
        self.alerts: list[str] = []
        self.upkeep = Upkeep(self.fleet, self.told.append, lambda uid, text: self.alerts.append(text))
        self.see()

    def see(self) -> None:
        """The controller looks at its nodes, which fills the ledger."""

        async def main() -> None:
            watch = Watch(self.practice.fleet("controller"), lambda text: None)
            await watch.look()
            await watch.close()

        run(self.practice.clock, main())

    def round(self) -> None:
        run(self.practice.clock, self.upkeep.round())

    def saved(self) -> list[str]:
        return self.practice.side.checkpoints(self.job.uid)

    def later(self, seconds: float) -> None:
        self.practice.clock.advance(seconds)

    def kinds(self) -> list[str]:
        return [event.kind for _, event in self.fleet.ledger.events()]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_rounds_verify_the_newest_and_then_let_old_ones_go(world: World) -> None:
    world.round()
    assert world.saved() == ["1.1", "1.2", "1.3", "1.4"], (
        "one verified checkpoint is too few to delete anything"
    )
    known = scrubs(world.fleet.ledger, world.job)
    assert {name: (scrub.how, scrub.whole) for name, scrub in known.items()}["1.4"] == ("full", True)
    world.later(DAY)
    held = world.practice.nodes["n0"].held[world.job.uid]
    world.practice.nodes["n0"].save_now(held)
    world.round()
    assert world.saved() == ["1.4", "1.5"]
    assert "retention deleted 1.3, 1.2, 1.1" in world.told[-1]
    assert "retention.done" in world.kinds()
    assert world.alerts == []


def test_a_round_that_is_not_due_reads_nothing(world: World) -> None:
    world.round()
    world.practice.side.damage(world.job.uid, "1.4")
    world.later(DAY / 2)
    world.round()
    assert world.alerts == []
    assert scrubs(world.fleet.ledger, world.job)["1.4"].whole
    world.later(DAY / 2)
    world.practice.side.store.flip(f"jobs/{world.job.uid}/checkpoints/1.4/manifest.json", 5)  # type: ignore[union-attr]  # the real side
    world.round()
    assert scrubs(world.fleet.ledger, world.job)["1.4"].whole, "its manifest already says so: nothing to read"


def test_a_damaged_newest_is_told_and_the_one_before_is_verified(world: World) -> None:
    world.practice.side.damage(world.job.uid, "1.4")
    world.round()
    assert len(world.alerts) == 1
    assert "1.4" in world.alerts[0]
    known = scrubs(world.fleet.ledger, world.job)
    assert not known["1.4"].whole
    assert known["1.3"].whole
    assert known["1.3"].how == "full"
    assert "checkpoint.damaged" in world.kinds()
    world.later(DAY)
    world.round()
    assert len(world.alerts) == 1, "what is known to be bad is not read again"
    assert "1.4" in world.saved(), "nothing damaged is deleted by itself"


def test_the_dry_run_is_the_run(world: World) -> None:
    async def verify_all() -> None:
        for name in ("1.1", "1.2", "1.3", "1.4"):
            assert (await check_one(world.fleet, world.job, name, None)).usable

    run(world.practice.clock, verify_all())
    plan = run(world.practice.clock, retain(world.fleet, world.job, dry_run=True))
    assert plan["delete"] == ["1.2", "1.1"]
    assert plan["freed_bytes"] > 0
    assert world.saved() == ["1.1", "1.2", "1.3", "1.4"]
    world.round()
    assert world.saved() == ["1.3", "1.4"]


def test_only_what_was_shown_is_deleted(world: World) -> None:
    async def main(shown: tuple[str, ...]) -> None:
        for name in ("1.1", "1.2", "1.3", "1.4"):
            await check_one(world.fleet, world.job, name, None)
        await retain(world.fleet, world.job, dry_run=False, shown=shown)

    run(world.practice.clock, main(("1.1",)))
    assert world.saved() == ["1.2", "1.3", "1.4"]
    with pytest.raises(UsageError, match="may not go any more"):
        run(world.practice.clock, main(("1.3",)))
    assert world.saved() == ["1.2", "1.3", "1.4"]


def test_the_key_kept_here_is_proven_every_day_against_the_guard(world: World) -> None:
    node = world.practice.nodes["n0"]
    world.round()
    world.round()
    assert node.calls.count("escrow") == 1
    node.keys[world.job.uid] = JobKey.new().hex
    world.later(DAY)
    world.round()
    assert node.calls.count("escrow") == 2
    assert [text for text in world.alerts if "does not open what its guard sealed" in text]
    assert "escrow.failed" in world.kinds()


def test_a_checkpoint_shows_what_it_takes_in_the_store_beside_its_size(world: World) -> None:
    items = run(world.practice.clock, checkpoints(world.fleet, {"name": "train"}))["items"]
    store, uid = world.practice.side.truth("x")._store, world.job.uid  # type: ignore[attr-defined]  # the real side
    for item in items:
        areas = [f"jobs/{uid}/{area}/{item['checkpoint']}/" for area in ("packs", "files")]
        packs = sum(info.size for area in areas for info in store.list(area))
        assert item["stored_bytes"] == packs > 0


def test_a_silent_node_proves_nothing_about_the_key(world: World) -> None:
    world.practice.nodes["n0"].partitioned = True
    world.round()
    assert not [text for text in world.alerts if "key" in text]
    world.practice.nodes["n0"].partitioned = False
    world.round()
    assert world.practice.nodes["n0"].calls.count("escrow") == 2, "asked again, not only the day after"


def test_a_sample_does_not_make_a_checkpoint_verified(world: World) -> None:
    outcome = act(world, "checkpoints verify", name="train", sample=0.5)
    assert outcome.document["how"] == "sample 0.50"
    assert not outcome.document["verified"]
    assert act(world, "checkpoints verify", name="train", full=True).document["verified"]
    with pytest.raises(UsageError, match="not both"):
        act(world, "checkpoints verify", name="train", full=True, sample=0.5)
    world.practice.side.damage(world.job.uid, "1.4")
    with pytest.raises(DamagedError, match=r"1\.4"):
        act(world, "checkpoints verify", name="train", full=True)


def act(world: World, words: str, **arguments: object) -> api.Outcome:
    return run(world.practice.clock, api.perform(world.fleet, words, arguments, world.told.append))


def test_a_rehearsal_says_which_newer_checkpoints_it_passed_over(world: World) -> None:
    world.practice.side.damage(world.job.uid, "1.4")
    outcome = act(world, "jobs rehearse", name="train")
    assert outcome.document["checkpoint"] == "1.3"
    assert list(outcome.document["skipped"]) == ["1.4"]
    assert "1.4" in outcome.message
    assert any("1.4 cannot be used" in text for text in world.told)
    assert "rehearsal.fallback" in world.kinds()


def test_a_store_that_is_away_is_told_and_ends_nothing(world: World) -> None:
    def away(*arguments: object, **named: object) -> None:
        raise StoreError("the store is away")

    world.fleet.truth_at(world.job.store)
    truth = world.fleet.truth(world.job)
    truth.saves = away  # type: ignore[method-assign,assignment]  # a store that is away
    world.fleet.truth_at = lambda url: truth
    world.round()
    assert any("the store is away" in text for text in world.alerts)


def test_a_nodes_word_that_its_save_was_checked_is_not_believed(world: World) -> None:
    data = {"uid": world.job.uid, "checkpoint": "1.4", "how": "full"}
    world.fleet.tell("checkpoint.checked", "whole, believe me", node="n0", job="train", data=data)
    assert scrubs(world.fleet.ledger, world.job) == {}


def test_a_check_that_is_called_off_says_nothing_of_the_checkpoint(world: World) -> None:
    world.upkeep.stopping = False

    async def main() -> None:
        with pytest.raises(StoreError, match="called off"):
            await check_one(world.fleet, world.job, "1.4", None, lambda: False)

    run(world.practice.clock, main())
    assert scrubs(world.fleet.ledger, world.job) == {}


@pytest.mark.parametrize("state", ["noticed", "finished", "stopped"])
def test_states_in_which_nothing_is_deleted(world: World, state: str) -> None:
    from dataclasses import replace

    async def main() -> None:
        for name in ("1.1", "1.2", "1.3", "1.4"):
            await check_one(world.fleet, world.job, name, None)

    run(world.practice.clock, main())
    current = world.fleet.ledger.jobs()[world.job.uid]
    world.fleet.ledger.put_job(replace(current, state=state))
    world.round()
    assert world.saved() == ["1.1", "1.2", "1.3", "1.4"]


def test_the_controller_does_it_by_itself(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def main() -> None:
        watch = Watch(world.fleet, world.told.append, every_s=14400.0)
        task = asyncio.create_task(watch.run())
        held = world.practice.nodes["n0"].held[world.job.uid]
        for _ in range(3):
            await asyncio.sleep(DAY)
            world.practice.nodes["n0"].save_now(held)
        watch.stopping = True
        await task

    run(world.practice.clock, main())
    assert "1.1" not in world.saved()
    assert any("retention deleted" in text for text in world.told)
    assert scrubs(world.fleet.ledger, world.job)["1.4"].whole

"""A seeded world of faults around the real controller: what happens, and what must never happen."""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from backends.fakes.clock import run
from backends.fakes.world import FakeProcess
from backends.ids import CheckpointId
from backends.records.job import Job
from console.operations.fleet import Fleet
from console.operations.flows.watch import Watch
from tests.support.operations import Crash, Practice
from tests.support.storm import Storm

JOBS = 4
NODES = 5
STORM_S = 240  # faults happen
CALM_S = 240  # everything heals and the controller may work; over sooner when all is settled
LEAST_CALM_S, SETTLED_S = 40, 20
# Share of the worlds that have two controllers with nothing in common but the store.
RIVALS = float(os.environ.get("REPRIEVE_RIVALS", "0.08"))


class Violation(AssertionError):  # noqa: N818 - it is a finding, not an error of the program
    """A promise was broken."""


@dataclass
class Story:
    """One seed's run."""

    seed: int
    directory: Path
    log: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    restores: int = 0
    in_memory: bool = True  # the ledgers; a file says the same and costs a fifth of the run

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.practice = Practice(self.directory, nodes=NODES, in_memory=self.in_memory)
        self.clock = self.practice.clock
        self.jobs: list[Job] = [
            self.practice.running_job(f"j{number}", f"n{number % 3}", priority=number % 2)
            for number in range(JOBS)
        ]
        for node in self.practice.nodes.values():
            node.restore_takes_s = self.random.uniform(2, 45)  # long enough that much goes wrong meanwhile
        self.storm = Storm(self.practice, self.jobs, self.random)
        self.rivals = self.random.random() < RIVALS
        self.checked = 0
        self.settled_s = 0.0

    # -- faults ---------------------------------------------------------------------------------------------------

    def moment(self, label: str) -> None:
        """Kill the controller here when its time has come; before a claim, what broke off earlier may still arrive."""
        if label == "claim" and self.random.random() < 0.5:
            for node in self.practice.nodes.values():
                node.deliver()
        if self.storm.crash_in > 0:
            self.storm.crash_in -= 1
            if self.storm.crash_in == 0:
                self.log.append(f"{self.clock.monotonic():.0f} controller killed at {label}")
                raise Crash(label)

    # -- promises -------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """What must hold at every moment."""
        world, book = self.practice.world, self.practice.book
        for job in self.jobs:
            live = self.live(job)
            if len(live) > 1:
                raise Violation(f"two processes of {job.name}: {[(p.node, p.epoch) for p in live]}")
            for process in world.processes:
                ours = process.uid == job.uid and (job.uid, process.epoch) not in self.storm.words
                if ours and process.frozen and process.alive:
                    raise Violation(f"{job.name} lived on {process.node} and was taken for dead")
            for epoch in book.epochs.get(job.uid, {}):
                if world.starts(job.uid, epoch) > 1:
                    raise Violation(f"epoch {epoch} of {job.name} was started twice")
        for uid, epoch, checkpoint in book.chosen[self.checked :]:
            if checkpoint is not None:
                self.check_lineage(uid, epoch, checkpoint)
                self.check_choice(uid, epoch, checkpoint)
        self.checked = len(book.chosen)

    def live(self, job: Job) -> list[FakeProcess]:
        """Its processes that run, without those taken over at an operator's mistaken word: they freeze a little later."""
        newest = self.practice.book.newest_epoch(job.uid)
        return [
            each for each in self.practice.world.live(job.uid)
            if each.epoch == newest or (job.uid, each.epoch) not in self.storm.words
        ]  # fmt: skip

    def check_lineage(self, uid: str, epoch: int, checkpoint: str) -> None:
        """What was chosen lies on the chain: nothing that an older epoch saved after the next had begun."""
        views, chosen = self.practice.book.epochs[uid], CheckpointId.parse(checkpoint)
        named = [number for number in views if number < epoch and views[number].kind not in ("none", "void")]
        number, limit = max(named), None
        while chosen.epoch != number:
            began = views[number].checkpoint
            if began is None or chosen.epoch > number:
                raise Violation(
                    f"epoch {epoch} of {uid} went on from {checkpoint}, which is not on its chain"
                )
            limit = CheckpointId.parse(began)
            number = limit.epoch
        if limit is not None and chosen > limit:
            raise Violation(
                f"epoch {epoch} of {uid} went on from {checkpoint}, saved after {limit} was taken over"
            )

    def check_choice(self, uid: str, epoch: int, checkpoint: str) -> None:
        """The newest whole save of the incarnation before, or, when it has none, what that one went on from."""
        book = self.practice.book
        before = [
            e
            for e in sorted(book.epochs[uid])
            if e < epoch and book.epochs[uid][e].kind not in ("none", "void")
        ]
        best: CheckpointId | None = None
        for number in reversed(before):
            if (uid, number) in self.storm.words:
                return  # it may have saved after it was taken over: what it had then cannot be told
            top = CheckpointId.parse(book.epochs[uid][number].checkpoint or "0.0")
            mine = [s for s in book.saves.get(uid, {}) if s.epoch == number and book.readable(uid, str(s))]
            best = max(mine, default=None)
            if (
                best is None
                and book.epochs[uid][number].checkpoint is not None
                and book.readable(uid, str(top))
            ):
                best = top
            if best is not None:
                break
        if best is not None and CheckpointId.parse(checkpoint) < best and book.readable(uid, str(best)):
            raise Violation(f"epoch {epoch} of {uid} went on from {checkpoint}, {best} was newer and whole")

    def is_settled(self, watch: Watch) -> bool:
        """Every job lives once and nobody works on one."""
        idle = all(task.done() for task in watch.tasks.values())
        return idle and all(len(self.live(job)) == 1 for job in self.jobs)

    # -- running --------------------------------------------------------------------------------------------------

    def play(self) -> Story:
        """The storm, then the calm; then every job lives once, or the controller has said why not."""
        self.practice.kill_at(self.moment)
        passed = 0.0
        while passed < STORM_S + CALM_S:
            try:
                passed += run(self.clock, self.controller(STORM_S + CALM_S - passed, passed))
            except Crash:
                passed = self.passed
        self.check()
        for job in self.jobs:
            if not self.live(job) and not any(job.name in text for text in self.told if "ALERT" in text):
                raise Violation(f"{job.name} does not run and nobody was told why")
        self.restores = sum(len(fleet.ledger.reclaims()) for fleet in self.consoles())
        return self

    def consoles(self) -> list[Fleet]:
        """The controllers that run: one, or two that know nothing of each other."""
        found = [self.practice.fleet("controller")]
        return [*found, self.practice.fleet("rival", "elsewhere")] if self.rivals else found

    async def controller(self, seconds: float, start: float) -> float:
        """One controller's life; ends by a crash or when the time is over."""
        fleets = self.consoles()
        watches = [Watch(fleet, self.told.append, every_s=5.0) for fleet in fleets]
        tasks = [asyncio.create_task(watch.run()) for watch in watches]
        self.storm.fleet = fleets[0]
        self.passed = start
        next_fault = start + self.random.uniform(5, 40)
        while self.passed < start + seconds:
            await asyncio.sleep(2.0)
            self.passed += 2.0
            for task in tasks:
                if task.done():
                    task.result()
            under_way = [each for watch in watches for each in watch.tasks.values()]
            if any(each.done() and not each.cancelled() and each.exception() for each in under_way):
                raise Crash("a restore was killed")
            self.storm.due()
            for node in self.practice.nodes.values():
                node.tick()
            self.check()
            if self.passed < STORM_S and self.passed >= next_fault:
                struck = self.storm.strike()
                self.log.append(f"{self.clock.monotonic():.0f} {struck}")
                next_fault = self.passed + self.random.uniform(5, 40)
            if self.passed >= STORM_S:
                self.storm.calm()
                self.settled_s = self.settled_s + 2.0 if all(map(self.is_settled, watches)) else 0.0
                if self.passed >= STORM_S + LEAST_CALM_S and self.settled_s >= SETTLED_S:
                    seconds = STORM_S + CALM_S - start
                    break
        for watch in watches:
            watch.stopping = True
        await asyncio.gather(*tasks)
        for fleet in fleets:
            fleet.ledger.close()
        return seconds


def play(seed: int, *, in_memory: bool = True) -> Story:
    """Run one seed in a directory of its own; a violation is raised with the seed and what had happened."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
        story = Story(seed, Path(directory), in_memory=in_memory)
        try:
            return story.play()
        except Violation as error:
            raise Violation(f"seed {seed}: {error}\n" + "\n".join(story.log[-20:])) from None


def play_range(first: int, count: int, step: int = 1) -> int:
    """Seeds first, first + step …: restores in all. Imported by name, so that a pool of processes can run it."""
    return sum(play(first + number * step).restores for number in range(count))

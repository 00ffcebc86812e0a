"""What goes wrong in a seeded world: the rows of the fault matrix that reach the controller, one method each."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from backends.errors import ReprieveError
from backends.fakes.node import FakeNode
from backends.ledger.records import Word
from backends.records.job import Job
from console.operations.common import runs
from console.operations.fleet import Fleet
from console.operations.flows.restore import RestoreWish, restore
from tests.support.operations import Crash, Practice

CLOCK_STEPS_S = (-1800.0, -300.0, 300.0)


@dataclass
class Storm:
    """Faults drawn from one seed; `words` are (uid, epoch) of living processes that an operator called dead."""

    practice: Practice
    jobs: list[Job]
    random: random.Random
    crash_in: int = -1  # moments until the controller is killed; below 1: it is not
    words: set[tuple[str, int]] = field(default_factory=set)
    fleet: Fleet | None = None  # the console that works now
    commands: list[asyncio.Task[None]] = field(default_factory=list)  # that the operator typed
    later: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def strike(self) -> str | None:
        """One random fault on a random living node; its name, None when there is nothing left to break."""
        alive = [name for name, node in self.practice.nodes.items() if not node.dead]
        if len(alive) < 2:
            return None
        name = self.random.choice(alive)
        fault = self.random.choice(self.faults())
        fault(name, self.practice.nodes[name])
        return f"{fault.__name__} {name}"

    def faults(self) -> tuple[Callable[[str, FakeNode], None], ...]:
        """What may be drawn, the likelier twice."""
        return (
            self.reclaim, self.reclaim, self.partition, self.heal_link, self.store_away, self.store_back,
            self.cloud_silent, self.cloud_back, self.engine, self.damage, self.crash, self.crash, self.swizzle,
            self.console_store, self.node_clock, self.clock_step, self.slow, self.notice, self.wrong_word, self.guard_kill,
        )  # fmt: skip

    def due(self) -> None:
        """What was put off until now."""
        now = self.practice.clock.monotonic()
        ready = [act for at, act in self.later if at <= now]
        self.later = [each for each in self.later if each[0] > now]
        for act in ready:
            act()

    def calm(self) -> None:
        """All faults end; what was reclaimed stays gone."""
        self.later, self.crash_in = [], -1
        self.practice.cloud.silent = self.practice.book.away = False
        for node in self.practice.nodes.values():
            node.partitioned = node.store_away = False
            node.answers_in_s, node.notice = 0.0, "none"
            node.failures.clear()

    def _after(self, least_s: float, most_s: float, act: Callable[[], None]) -> None:
        self.later.append((self.practice.clock.monotonic() + self.random.uniform(least_s, most_s), act))

    # -- one fault each ---------------------------------------------------------------------------------------------

    def reclaim(self, name: str, node: FakeNode) -> None:
        """F3."""
        self.practice.reclaim(name)

    def partition(self, name: str, node: FakeNode) -> None:
        """F5: console and node."""
        node.partitioned = True

    def heal_link(self, name: str, node: FakeNode) -> None:
        """The end of it."""
        node.partitioned = False

    def store_away(self, name: str, node: FakeNode) -> None:
        """F6: node and store."""
        node.store_away = True

    def store_back(self, name: str, node: FakeNode) -> None:
        """The end of it."""
        node.store_away = False

    def console_store(self, name: str, node: FakeNode) -> None:
        """F7: console and store, for a while."""
        self.practice.book.away = True
        self._after(5, 40, lambda: setattr(self.practice.book, "away", False))

    def swizzle(self, name: str, node: FakeNode) -> None:
        """F5: links are cut one by one and heal in another order."""
        chosen = [each for each in self.practice.nodes.values() if self.random.random() < 0.7]
        for each in chosen:
            self._after(0, 20, lambda each=each: setattr(each, "partitioned", True))  # type: ignore[misc]  # bound now
            self._after(20, 60, lambda each=each: setattr(each, "partitioned", False))  # type: ignore[misc]  # bound now

    def cloud_silent(self, name: str, node: FakeNode) -> None:
        """The second witness cannot be asked."""
        self.practice.cloud.silent = True

    def cloud_back(self, name: str, node: FakeNode) -> None:
        """It can again."""
        self.practice.cloud.silent = False

    def engine(self, name: str, node: FakeNode) -> None:
        """F21, F22: the next restore there fails."""
        node.failures.append("engine trouble")

    def damage(self, name: str, node: FakeNode) -> None:
        """F12: the newest save of a job that has an older one."""
        uid = self.random.choice(self.jobs).uid
        saves = sorted(self.practice.book.saves.get(uid, {}))
        if len(saves) > 1:
            self.practice.book.damaged.add((uid, str(saves[-1])))

    def crash(self, name: str, node: FakeNode) -> None:
        """F1."""
        self.crash_in = self.random.randint(1, 40)

    def node_clock(self, name: str, node: FakeNode) -> None:
        """F16: the wall clock of a node is wrong."""
        node.offset_s = self.random.choice((*CLOCK_STEPS_S, 0.0))

    def clock_step(self, name: str, node: FakeNode) -> None:
        """F16: the controller's wall clock steps."""
        clock = self.practice.clock
        clock.set_wall(clock.wall() + self.random.choice(CLOCK_STEPS_S))

    def slow(self, name: str, node: FakeNode) -> None:
        """F8: answers come late or after the time-out."""
        node.answers_in_s = self.random.uniform(1, 15)
        self._after(10, 60, lambda: setattr(node, "answers_in_s", 0.0))

    def notice(self, name: str, node: FakeNode) -> None:
        """F13: announced; then it is taken, or it was a false alarm (F14)."""
        node.notice = "notice"
        if self.random.random() < 0.7:
            self._after(5, 30, lambda: None if node.dead else self.practice.reclaim(name))
        else:
            self._after(5, 30, lambda: setattr(node, "notice", "none"))

    def guard_kill(self, name: str, node: FakeNode) -> None:
        """F2: with restores under way or not."""
        node.restart_guard()

    def wrong_word(self, name: str, node: FakeNode) -> None:
        """F19: an operator calls a process dead that lives on a node that is cut off: a zombie once it is taken over."""
        held = [each for each in node.held.values() if each.process is not None and each.process.alive]
        if self.fleet is None or not held:
            return
        node.partitioned = node.saves_late = True
        one = self.random.choice(held)
        self.words.add((one.job.uid, one.epoch))
        wall = self.practice.clock.wall()
        self.fleet.ledger.add_word(Word(wall, "operator", "dead", one.job.name, one.job.uid, one.epoch))
        self.commands.append(asyncio.create_task(_by_hand(self.fleet, one.job)))


async def _by_hand(fleet: Fleet, job: Job) -> None:
    """What the operator types next: `jobs restore`; it may be refused, or end with its console."""
    run = runs.open_run(fleet, "restore", [("1", job.name, {})])
    with contextlib.suppress(ReprieveError, Crash):
        await restore(fleet, RestoreWish(job), run.id, "1", lambda _: None)

"""The real takeover, commit and retention functions, interleaved one store operation at a time by a seed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from backends.errors import FencedError, NoProofError, NotFoundError, ReprieveError
from backends.fakes.fileops import Crashed
from backends.fakes.store import MemoryStore
from backends.ids import CheckpointId
from backends.records.lineage import Continues, Proof
from backends.store import layout
from backends.store.port import ObjectInfo
from backends.store.retention import Policy, make_plan, run
from backends.store.takeover import FIRST, choose, claim_next, settle, write_continues
from backends.store.verify import verify_checkpoint
from tests.support.store import UID, Bench, make_save

PATIENCE_S = 60.0


@dataclass
class Actor:
    """One thread that moves only when the scheduler says so."""

    name: str
    work: Callable[[Actor], None]
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    waiting: bool = False
    finished: bool = False
    killed: bool = False
    error: BaseException | None = None


class Scheduler:
    """Lets exactly one actor run at a time, chosen by the seed at every store operation."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.actors: list[Actor] = []
        self._stickiness = self.chance.choice((0.0, 0.6, 0.9, 0.97))  # how often the same actor goes on
        self._idle = threading.Semaphore(0)
        self._current: Actor | None = None

    def add(self, name: str, work: Callable[[Actor], None]) -> Actor:
        """A new actor; it waits for its first turn."""
        actor = Actor(name, work)
        self.actors.append(actor)
        threading.Thread(target=self._body, args=(actor,), daemon=True).start()
        return actor

    def _body(self, actor: Actor) -> None:
        try:
            self._wait(actor, first=True)
            actor.work(actor)
        except Crashed:
            pass
        except BaseException as error:
            actor.error = error
        actor.finished = True
        self._idle.release()

    def _wait(self, actor: Actor, *, first: bool = False) -> None:
        actor.waiting = True
        if not first:
            self._idle.release()
        if not actor.turn.acquire(timeout=PATIENCE_S):
            raise Crashed("nobody gave a turn")
        if actor.killed:
            raise Crashed(actor.name)

    def step(self) -> None:
        """Called by the running actor before each operation."""
        actor = self._current
        assert actor is not None
        self._wait(actor)

    def run(self) -> None:
        """Until all actors have finished; raises the first error of an actor."""
        while True:
            alive = [actor for actor in self.actors if not actor.finished]
            if not alive:
                break
            stay = self._current in alive and self.chance.random() < self._stickiness
            actor = self._current if stay and self._current is not None else self.chance.choice(alive)
            self._current = actor
            actor.turn.release()
            assert self._idle.acquire(timeout=PATIENCE_S), "an actor hangs"
        for actor in self.actors:
            if actor.error is not None:
                raise actor.error


class SteppedStore(MemoryStore):
    """A store that hands the turn over before every operation."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__("stepped")
        self._scheduler: Scheduler | None = None
        self._later = scheduler

    def arm(self) -> None:
        """From now on operations are steps."""
        self._scheduler = self._later

    def _step(self) -> None:
        if self._scheduler is not None:
            self._scheduler.step()

    def create(self, key: str, data: bytes | Iterable[bytes]) -> int:
        content = data if isinstance(data, bytes) else b"".join(data)
        self._step()
        return super().create(key, content)

    def read(self, key: str) -> bytes:
        self._step()
        return super().read(key)

    def list(self, prefix: str) -> list[ObjectInfo]:
        self._step()
        return super().list(prefix)

    def delete(self, key: str) -> None:
        self._step()
        super().delete(key)


class Race:
    """One seed: a guard that saves, two takers, a duplicate of the first, retention; nodes die, words may be wrong."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.scheduler = Scheduler(seed)
        self.store = SteppedStore(self.scheduler)
        self.bench = Bench(self.store)
        self.directory = directory
        self.reported: list[CheckpointId] = []
        self.processes: dict[tuple[int, str], Actor] = {}
        self.started: list[int] = []
        self.words: set[int] = set()
        self.dead: set[str] = set()  # nodes
        self.bench.begin("a", "a")
        self.bench.save(directory, 1)
        self.reported.append(CheckpointId(1, 1))
        # Where later epochs save nothing, what a zombie before them commits is the newest there is.
        self.barren = seed % 2 == 0
        self._guard(1, "a", 8 if self.barren else 4, first=2)
        chance = self.scheduler.chance
        self.scheduler.add("taker0", lambda me: self._take(me, "t0", 3))
        self.scheduler.add("taker1", lambda me: self._take(me, "t1", 3))
        self.scheduler.add("duplicate", lambda me: self._take(me, "t0", 1))
        self.scheduler.add("retention", self._retain)
        self.wrong_word = chance.random() < 0.5
        self.store.arm()

    def _guard(self, epoch: int, node: str, last: int, first: int = 1) -> None:
        self.started.append(epoch)

        def work(me: Actor) -> None:
            for seq in range(first, last + 1):
                path = self.directory / f"{epoch}.{seq}"
                source = (
                    make_save(path, {"a": f"{epoch}.{seq}".encode()})
                    if not path.exists()
                    else make_save(path, {})
                )
                try:
                    self.reported.append(self.bench.committer(epoch).commit(seq, source).checkpoint)
                except FencedError:
                    return

        self.processes[epoch, node] = self.scheduler.add(f"guard{epoch}@{node}", work)

    def _prove(self, current: Continues | None) -> Proof:
        if current is None:
            return FIRST
        node = current.target or ""
        if self.wrong_word and not self.words:
            self.words.add(current.epoch)
        else:
            self.dead.add(node)
            for (_, where), actor in self.processes.items():
                actor.killed |= where == node
        return Proof("cloud", current.epoch, node, node, "race", "2027-01-15T08:00:00.000Z")

    def _take(self, me: Actor, name: str, tries: int) -> None:
        for attempt in range(tries):
            taker = self.bench.taker(f"{name}.{attempt}", me.name)
            node = f"{me.name}.{attempt}"
            try:
                proof = self._prove(settle(taker).current())
                claim = claim_next(taker, proof)
                choice = choose(
                    taker, claim, self.bench.key,
                    lambda i: verify_checkpoint(self.store, UID, i, self.bench.key, self.bench.clock).manifest,
                )  # fmt: skip
                standing = write_continues(taker, claim, choice, node, node)
                self._start(standing)
            except (FencedError, NoProofError, NotFoundError):
                continue

    def _start(self, standing: Continues) -> None:
        """What the named guard does with a grant: look, note, start."""
        node = standing.target or ""
        self.bench.taker().lineage().may_start(standing.epoch, node, standing.nonce)
        if (standing.epoch, node) not in self.processes and node not in self.dead:
            for (epoch, where), actor in self.processes.items():
                alive = not actor.killed and epoch not in self.words
                assert not alive or epoch > standing.epoch, (
                    f"epoch {standing.epoch} starts, {epoch}@{where} lives"
                )
            self._guard(standing.epoch, node, 0 if self.barren else 2)

    def _retain(self, me: Actor) -> None:
        for _ in range(3):
            keys = self.bench.fleet.verify_key
            try:
                for identity in list(self.reported):
                    self.bench.verified(identity)
                run(
                    self.store,
                    make_plan(self.store, UID, self.bench.key, keys, Policy(1, 0.0), self.bench.clock),
                    self.bench.clock,
                )
            except ReprieveError:
                continue

    def play(self) -> None:
        """Run to the end and judge by the letter of the protocol."""
        self.scheduler.run()
        self.store._scheduler = None
        assert len(self.started) == len(set(self.started)), self.started
        lineage = self.bench.taker().lineage()
        assert lineage.problems == ()
        live = {
            number: each
            for number, each in sorted(lineage.continues.items())
            if each is not None and each.kind != "void"
        }
        for number, each in live.items():
            start, below = each.from_checkpoint, [before for before in live if before < number]
            if start is not None:
                kept = reach_of(live, max(below)).get(start.epoch, 0)
                assert start.seq <= kept, f"epoch {number} went on from {start}, which is not on its chain"
        reach = reach_of(live, max(live))
        lost = [identity for identity in self.reported if identity.seq > reach.get(identity.epoch, 0)]
        assert not lost, f"reported and lost: {lost}"
        chain = lineage.chain(
            i for i in (layout.parse_checkpoint(k.split("/")[3]) for k in self._manifests()) if i
        )
        assert not self.reported or chain[0] >= max(self.reported)
        if self.reported:
            verify_checkpoint(self.store, UID, chain[0], self.bench.key, self.bench.clock)

    def _manifests(self) -> list[str]:
        return [key for key in self.store.objects if key.endswith("manifest.json")]


def reach_of(live: dict[int, Continues], epoch: int) -> dict[int, float]:
    """Epochs on the chain from `epoch`, and the highest seq that counts in each; by the records alone."""
    reach: dict[int, float] = {}
    limit = float("inf")
    while True:
        reach[epoch] = limit
        start = live[epoch].from_checkpoint
        if start is None:
            return reach
        epoch, limit = start.epoch, start.seq

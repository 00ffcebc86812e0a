"""A fleet of fakes: nodes, provider, clock, keys and a store in memory that keeps the rules of the lineage."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from backends.clouds.port import Cloud
from backends.errors import NotFoundError, UnreachableError
from backends.fakes.clock import FakeClock
from backends.fakes.cloud import FakeCloud
from backends.fakes.held import HeldJob
from backends.fakes.node import FakeNode
from backends.fakes.world import FakeWorld
from backends.ids import CheckpointId
from backends.inventory.model import Pool, Renting
from backends.ledger.history import SqlLedger
from backends.ledger.locks import FileLocks
from backends.ledger.sqlite import SqliteLedger
from backends.nodes.port import NodeLink
from backends.records import strict
from backends.records.group import GroupEpoch, GroupSave, Member, Resumed
from backends.records.job import Job
from backends.records.node import Node
from console.operations.context import Context
from console.operations.decide.placement import GateAnswer
from console.operations.fleet import Fleet
from console.operations.truth import Choice, ContinuesKind, EpochView, LeaseView, LineageView, SaveView, Truth
from tests.support.memory_ledger import MemoryDatabase
from tests.support.realstore import RealSide

STORE = "memory://store"


class Crash(BaseException):
    """The console was killed at this moment."""


@dataclass
class MemoryBook:
    """Objects of one store; each is created once."""

    clock: FakeClock
    epochs: dict[str, dict[int, EpochView]] = field(default_factory=dict)
    saves: dict[str, dict[CheckpointId, SaveView]] = field(default_factory=dict)
    damaged: set[tuple[str, str]] = field(default_factory=set)
    marks: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    heartbeats: dict[str, dict[str, Any]] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    leases: dict[tuple[str, int], LeaseView] = field(default_factory=dict)
    group_saves: dict[str, list[GroupSave]] = field(default_factory=dict)
    group_epochs: dict[str, list[GroupEpoch]] = field(default_factory=dict)
    chosen: list[tuple[str, int, str | None]] = field(default_factory=list)
    away: bool = False
    moment: Callable[[str], None] = lambda label: None

    # -- the guard's side -----------------------------------------------------------------------------------------

    def commit(self, uid: str, epoch: int, node: str, frozen_at: float) -> str:
        mine = self.saves.setdefault(uid, {})
        seq = 1 + max((each.seq for each in mine if each.epoch == epoch), default=0)
        name = CheckpointId(epoch, seq)
        mine[name] = SaveView(str(name), frozen_at, 1000, node, "fake", fingerprint={"arch": "x86_64"})
        return str(name)

    def newest_epoch(self, uid: str) -> int:
        return max(self.epochs.get(uid, {}), default=0)

    def may_start(self, uid: str, epoch: int, guard: str, nonce: str) -> bool:
        view = self.epochs.get(uid, {}).get(epoch)
        newest = self.newest_epoch(uid) == epoch
        return (
            newest and view is not None and view.kind != "void" and (view.guard, view.nonce) == (guard, nonce)
        )

    def readable(self, uid: str, checkpoint: str) -> bool:
        return (uid, checkpoint) not in self.damaged

    def truth(self, by: str) -> Truth:
        return MemoryTruth(self, by)

    def damage(self, uid: str, checkpoint: str) -> None:
        self.damaged.add((uid, checkpoint))

    def checkpoints(self, uid: str) -> list[str]:
        return [str(name) for name in sorted(self.saves.get(uid, {}))]


class MemoryTruth:
    """One controller's view of a MemoryBook; `moment` lets a test kill the controller around each write."""

    url = STORE

    def __init__(self, book: MemoryBook, by: str) -> None:
        self.book, self.by = book, by

    def _awake(self, label: str) -> None:
        self.book.moment(label)
        if self.book.away:
            raise UnreachableError("the store does not answer")

    def lineage(self, uid: str) -> LineageView:
        self._awake("lineage")
        epochs = self.book.epochs.get(uid, {})
        return LineageView(tuple(epochs[number] for number in sorted(epochs)))

    def claim(self, uid: str, epoch: int, nonce: str, proof: dict[str, Any]) -> bool:
        self._awake("claim")
        mine = self.book.epochs.setdefault(uid, {})
        mine.setdefault(epoch, EpochView(epoch, nonce, by=self.by, proof=proof))
        self.book.moment("claimed")
        return mine[epoch].claim_nonce == nonce

    def _continue(self, uid: str, view: EpochView) -> bool:
        before = self.book.epochs[uid][view.epoch]
        if before.kind != "none":
            return before.nonce == view.nonce
        self.book.epochs[uid][view.epoch] = view
        return True

    def void(self, uid: str, epoch: int) -> bool:
        self._awake("void")
        before = self.book.epochs[uid][epoch]
        return self._continue(uid, EpochView(epoch, before.claim_nonce, "void", proof=before.proof))

    def name(
        self,
        uid: str,
        epoch: int,
        *,
        kind: ContinuesKind,
        checkpoint: str | None,
        target: str,
        guard: str,
        nonce: str,
    ) -> bool:
        self._awake("name")
        claim = self.book.epochs[uid][epoch]
        view = EpochView(epoch, claim.claim_nonce, kind, checkpoint, target, guard, nonce, proof=claim.proof)
        won = self._continue(uid, view)
        if won:
            self.book.chosen.append((uid, epoch, checkpoint))
        self.book.moment("named")
        return won

    def chain(self, uid: str) -> list[CheckpointId]:
        """Checkpoints that may be chosen, newest first: walked from the last epoch that names somebody."""
        epochs = self.book.epochs.get(uid, {})
        named = [number for number in sorted(epochs) if epochs[number].kind not in ("none", "void")]
        result: list[CheckpointId] = []
        top: CheckpointId | None = None
        number = named[-1] if named else 0
        while number:
            mine = [
                s for s in self.book.saves.get(uid, {}) if s.epoch == number and (top is None or s <= top)
            ]
            result += sorted(mine, reverse=True)
            continued = epochs[number].checkpoint
            if continued is None:
                break
            top = CheckpointId.parse(continued)
            number = top.epoch
        return result

    def choose(
        self, uid: str, key: str, wanted: str | None = None, trusted: frozenset[str] = frozenset()
    ) -> Choice:
        self._awake("choose")
        skipped: list[tuple[str, str]] = []
        newest: float | None = None
        for name in self.chain(uid):
            if wanted is not None and str(name) != wanted:
                continue
            save = self.book.saves[uid][name]
            newest = newest or save.frozen_at
            if (uid, str(name)) in self.book.damaged:
                skipped.append((str(name), "damaged"))
                continue
            extra = newest - save.frozen_at if newest is not None and save.frozen_at is not None else None
            return Choice(save, tuple(skipped), extra if skipped else None)
        return Choice(None, tuple(skipped))

    def lease(self, uid: str, epoch: int, key: str) -> LeaseView | None:
        self._awake("lease")
        return self.book.leases.get((uid, epoch))

    def newest(self, uid: str) -> str | None:
        self._awake("newest")
        chain = self.chain(uid)
        return str(chain[0]) if chain else None

    def names(self, uid: str) -> list[str]:
        self._awake("names")
        return [str(name) for name in sorted(self.book.saves.get(uid, {}), reverse=True)]

    def look(self, uid: str, checkpoint: str, key: str) -> SaveView:
        return self.book.saves[uid][CheckpointId.parse(checkpoint)]

    def rehearsed(self, uid: str) -> str | None:
        hosts = [
            data["how"]
            for (job, _, what), data in self.book.marks.items()
            if (job, what) == (uid, "rehearsed")
        ]
        return hosts[-1] if hosts else None

    def saves(self, uid: str, key: str) -> list[SaveView]:
        self._awake("saves")
        mine = self.book.saves.get(uid, {})
        return [mine[name] for name in sorted(mine, reverse=True)]

    def verify(
        self,
        uid: str,
        checkpoint: str,
        key: str,
        *,
        sample: float | None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> SaveView:
        found = self.book.saves[uid][CheckpointId.parse(checkpoint)]
        if (uid, checkpoint) in self.book.damaged:
            return dataclasses.replace(found, usable=False, reason="damaged")
        return dataclasses.replace(found, verified=sample is None)

    def mark(
        self, uid: str, checkpoint: str, what: Literal["verified", "rehearsed"], data: dict[str, Any]
    ) -> None:
        self.book.marks.setdefault((uid, checkpoint, what), data)

    def register(self, uid: str, name: str) -> None:
        self._awake("register")

    def remove(self, uid: str, name: str) -> None:
        self.book.removed.add(uid)

    def heartbeat(self, controller: str, document: dict[str, Any]) -> None:
        self._awake("heartbeat")
        self.book.heartbeats[controller] = document

    def controllers(self) -> dict[str, dict[str, Any]]:
        self._awake("controllers")
        return dict(self.book.heartbeats)

    def group_saves(self, group: str) -> tuple[GroupSave, ...]:
        self._awake("group_saves")
        return tuple(reversed(self.book.group_saves.get(group, [])))

    def group_epochs(self, group: str) -> tuple[GroupEpoch, ...]:
        self._awake("group_epochs")
        return tuple(reversed(self.book.group_epochs.get(group, [])))

    def commit_group(
        self, group: str, members: tuple[Member, ...], skew: tuple[float, float], nonce: str
    ) -> GroupSave:
        self._awake("commit_group")
        known = self.book.group_saves.setdefault(group, [])
        for member in members:
            if CheckpointId.parse(member.checkpoint) not in self.book.saves[member.job_uid]:
                raise NotFoundError(member.checkpoint)
        record = GroupSave("g" * 20, group, len(known) + 1, members, *skew, self.by, nonce, "now")
        known.append(record)
        self.book.moment("committed_group")
        return record

    def take_group(
        self, group: str, save: int, members: tuple[Resumed, ...], nonce: str
    ) -> GroupEpoch | None:
        self._awake("take_group")
        known = self.book.group_epochs.setdefault(group, [])
        record = GroupEpoch("g" * 20, group, len(known) + 1, save, members, self.by, nonce, "now")
        known.append(record)
        self.book.moment("took_group")
        return record

    def prune(
        self,
        uid: str,
        key: str,
        *,
        keep_last: int,
        min_age_s: float,
        dry_run: bool,
        shown: tuple[str, ...] | None = None,
    ) -> dict[str, Any]:
        return {"delete": [], "keep": {}}


@dataclass
class MemoryRecords:
    """The inventory in memory."""

    known_nodes: dict[str, Node] = field(default_factory=dict)
    known_jobs: dict[str, Job] = field(default_factory=dict)
    known_pools: dict[str, Pool] = field(default_factory=dict)
    queues: tuple[str, ...] = ()
    limits: Renting = field(default_factory=Renting)

    def nodes(self) -> dict[str, Node]:
        return dict(self.known_nodes)

    def jobs(self) -> dict[str, Job]:
        return dict(self.known_jobs)

    def renting(self) -> Renting:
        return self.limits

    def pools(self) -> dict[str, Pool]:
        return dict(self.known_pools)

    def notices(self) -> tuple[str, ...]:
        return self.queues

    def put_pool(self, pool: Pool) -> None:
        self.known_pools[pool.id] = pool

    def put_node(self, node: Node) -> None:
        self.known_nodes[node.name] = node

    def remove_node(self, name: str) -> None:
        self.known_nodes.pop(name, None)

    def may_write_job(self, name: str) -> bool:
        return True

    def put_job(self, job: Job) -> None:
        self.known_jobs[job.name] = job

    def remove_job(self, name: str) -> None:
        self.known_jobs.pop(name, None)


class FakeKeys:
    """Keys that are words."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}

    def verify_key(self) -> str:
        return "00" * 32

    def job_key(self, uid: str) -> str:
        if uid not in self.made:
            raise NotFoundError(uid)
        return self.made[uid]

    def new_job_key(self, uid: str) -> str:
        return self.made.setdefault(uid, hashlib.sha256(uid.encode()).hexdigest())


def gate(
    fingerprint: dict[str, Any], facts: dict[str, Any], overrides: dict[str, str], declared: dict[str, str]
) -> GateAnswer:
    """The architecture must be the same; the kernel too, unless that is set aside."""
    made, here = fingerprint.get("arch"), facts.get("arch")
    if made is not None and made != here:
        return GateAnswer("refuse", (f"arch: image {made}, node {here}",))
    if facts.get("kernel") == "5.4":
        if "kernel" not in overrides:
            return GateAnswer("refuse", ("kernel: 6.1 in the save, 5.4 on this node",))
        return GateAnswer("warn", (f"set aside: {overrides['kernel']}",), {"kernel": overrides["kernel"]})
    return GateAnswer("ok")


class FakeLinks:
    """Links to the fake nodes."""

    def __init__(self, nodes: dict[str, FakeNode]) -> None:
        self.nodes = nodes

    async def link(self, node: Node) -> NodeLink:
        return self.nodes[node.name]

    async def lasting(self) -> None:
        """They last."""

    async def close(self) -> None:
        """Nothing to close."""


class FakeInstaller:
    """Marks fake nodes as installed."""

    def __init__(self, practice: Practice) -> None:
        self.practice = practice

    async def plan(self, node: Node) -> tuple[str, ...]:
        return (f"file /opt/reprieve on {node.name}",)

    async def install(self, node: Node) -> None:
        self.practice.installed.append(node.name)
        self.practice.nodes[node.name].installed = True

    async def uninstall(self, node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
        self.practice.nodes[node.name].installed = False
        return (("/opt/reprieve",), ())

    async def pin(self, node: Node) -> tuple[Node, str]:
        return node, "host key: as given"


class Practice:
    """World, provider, store and records; `fleet()` opens a console on them, as often as consoles are killed."""

    def __init__(
        self,
        directory: Path,
        nodes: int = 4,
        pool: str = "practice/zone-a/small/linux",
        *,
        real: bool = False,
        provider: str = "practice",
        in_memory: bool = False,
    ) -> None:
        self.directory, self.provider = directory, provider
        self.databases: dict[str, MemoryDatabase] | None = {} if in_memory else None
        self.clock = FakeClock()
        self.keys = FakeKeys()
        self.book = MemoryBook(self.clock)  # used unless `real`
        self.side = RealSide(directory, self.clock, self.keys.made) if real else self.book
        self.world = FakeWorld(self.clock, self.side)
        self.cloud = FakeCloud(self.clock)
        self.records = MemoryRecords()
        self.nodes: dict[str, FakeNode] = {}
        self.installed: list[str] = []
        self.pool = pool
        self.cloud.make = self.bare
        for number in range(nodes):
            self.add_node(f"n{number}")

    def add_node(self, name: str, *, installed: bool = True, pool: str | None = None) -> Node:
        node = Node(name, f"root@{name}", self.provider, pool or self.pool, f"i-{name}")
        self.records.put_node(node)
        self.nodes[name] = FakeNode(name, self.world, installed=installed)
        self.cloud.states[f"i-{name}"] = "running"
        return node

    def bare(self, pool: str) -> Node:
        """A replacement as the provider hands it out: not in the records, no guard."""
        name = f"r{len(self.nodes)}"
        node = self.add_node(name, installed=False, pool=pool)
        self.records.remove_node(name)
        return node

    def fleet(self, who: str = "console", state: str = "state") -> Fleet:
        """Open a console on this world; one with another `state` is on another machine."""

        def cloud_of(node: Node) -> Cloud | None:
            return self.cloud if node.provider in ("practice", "aws") else None

        context = Context(
            "test", self.directory, self.directory / state, self.directory / "cache", store=STORE
        )
        return Fleet(
            context,
            self.clock,
            self.ledger(context.state),
            FileLocks(context.state / "locks"),
            self.records,
            FakeLinks(self.nodes),
            cloud_of,
            lambda url: self.side.truth(who),
            self.keys,
            gate,
            FakeInstaller(self),
            who,
            inline=True,
        )

    def ledger(self, state: Path) -> SqlLedger:
        """The ledger of a console whose state lies there: a file, or what outlives the console in memory."""
        if self.databases is None:
            return SqliteLedger(state / "ledger.db")
        if state.name not in self.databases:
            self.databases[state.name] = MemoryDatabase()
        return SqlLedger(self.databases[state.name])

    def running_job(self, name: str, node: str, *, saves: int = 1, **fields: Any) -> Job:
        """A job that was protected earlier and saves on its own: epoch 1 on `node`."""
        uid = (name.replace("-", "") + "a" * 20)[:20]
        job = Job(name, node, uid, command=("true",), store=STORE, interval_s=60.0, **fields)
        self.records.put_job(job)
        key = self.keys.new_job_key(uid)
        truth = self.side.truth("earlier")
        truth.register(uid, name)
        truth.claim(uid, 1, "c1" + name, {"kind": "first"})
        guard = self.nodes[node].guard
        truth.name(uid, 1, kind="genesis", checkpoint=None, target=node, guard=guard, nonce="n1" + name)
        fake = self.nodes[node]
        process = self.world.spawn(uid, 1, node, "genesis")
        held = HeldJob(job, 1, process, "trial")
        fake.held[uid], fake.keys[uid] = held, key
        fake.started.add((uid, 1))
        for _ in range(saves):
            self.clock.advance(10)
            fake.save_now(held)
        return job

    def reclaim(self, node: str) -> None:
        """The provider takes a node."""
        self.nodes[node].reclaim()
        self.cloud.states[f"i-{node}"] = "terminated"

    def kill_at(self, moment: Callable[[str], None]) -> None:
        """Call `moment` around every act of a console."""
        self.world.moment = self.book.moment = moment
        if isinstance(self.side, RealSide):
            self.side.store.moment = moment

    def where(self, uid: str) -> list[tuple[str, int]]:
        """Node and epoch of every live incarnation."""
        return [(each.node, each.epoch) for each in self.world.live(uid)]


def document(record: Any) -> dict[str, Any]:
    """A dataclass as a document."""
    return strict.to_document(record)

"""A full cycle that can be stopped at any file operation, and its judge.

Save, verify, retain, take over, a save of the guard that was left behind, restore, save again. The judge counts what it
found of I1 to I5 and I9. I6 (each job of a batch lives once) is `tests/integration/operations`, I7 (a failed save leaves
the job running) `tests/integration/guard` and `tests/lab`, I8 (work at risk) `test_guard_decide_job`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from backends.clean import clean
from backends.errors import DamagedError, FencedError, NoProofError, NotFoundError, ReprieveError
from backends.fakes.fileops import Crashed, FailingOps, FaultKind, SimulatedOps
from backends.ids import CheckpointId
from backends.store.commit import Committer
from backends.store.fetch import CheckpointReader, fetch
from backends.store.fileops import FileOps
from backends.store.files import FileStore
from backends.store.fleetkey import FleetKey
from backends.store.format.manifests import list_job
from backends.store.format.table import drop_table, open_table
from backends.store.lineage import Lineage
from backends.store.retention import Policy, make_plan, run
from backends.store.sealing import JobKey
from backends.store.takeover import FIRST, choose, claim_next, settle, write_continues
from backends.store.verify import read_attestation, verify_checkpoint
from tests.support.memory import Process, page, save_of
from tests.support.store import UID, Bench, make_save

CHANGING = ("mkdir", "create", "write", "sync", "link", "rename", "unlink", "sync_dir")


@dataclass
class World:
    """What everybody was told, beside the files."""

    key: JobKey = field(default_factory=lambda: JobKey(bytes(32)))
    fleet: FleetKey = field(default_factory=lambda: FleetKey(bytes(32)))
    reported: list[CheckpointId] = field(default_factory=list)
    attested: list[CheckpointId] = field(default_factory=list)
    told: list[str] = field(default_factory=list)  # errors in words
    directory: Path = Path()

    def copy(self) -> World:
        """The same words so far, on their own."""
        return World(
            self.key, self.fleet, list(self.reported), list(self.attested), list(self.told), self.directory
        )

    def bench(self, ops: FileOps) -> Bench:
        """Fresh processes on these files; the node's page table lies among them, so that faults strike it as well."""
        return Bench(FileStore(Path("/store"), ops), self.key, self.fleet, tables=ops)

    def source_of(self, identity: CheckpointId) -> Path:
        """The save's directory on the node's disk, made once."""
        path = self.directory / str(identity)
        if not path.exists():
            mark = 1000 * identity.epoch + identity.seq
            memory = Process(7, {0x400000: [page(1), page(mark), page(0), page(2)], 0x7F0000: [page(3)]})
            save_of(path, [memory], {"log": b"l" * 9})
        return path

    def save(self, bench: Bench, epoch: int, seq: int) -> None:
        """Commit one save and note that it was reported."""
        identity = CheckpointId(epoch, seq)
        source = make_save(self.source_of(identity), {}, {"log": b"l" * 9}, frozen_at=bench.clock.now)
        self.reported.append(bench.committer(epoch).commit(seq, source).checkpoint)

    def same_images(self, ops: FileOps, identity: CheckpointId) -> None:
        """What was fetched to the root of these files is what was saved, byte for byte."""
        for path in (self.source_of(identity) / "images").iterdir():
            handle = ops.open(f"images/{path.name}")
            assert ops.read(handle, 1 << 30, 0) == path.read_bytes(), f"{path.name} of {identity} differs"
            ops.close(handle)

    def verify(self, bench: Bench, identity: CheckpointId) -> None:
        """Verify as another party."""
        bench.verified(identity)
        self.attested.append(identity)


def prepared(directory: Path) -> tuple[World, SimulatedOps]:
    """A job with two verified full saves, all durable: the table was lost between them. The third refers to 1.2."""
    world, ops = World(directory=directory), SimulatedOps()
    bench = world.bench(ops)
    bench.begin()
    for seq in (1, 2):
        world.save(bench, 1, seq)
        world.verify(bench, CheckpointId(1, seq))
        if seq == 1:
            drop_table(ops, UID)
    return world, ops


def _steps(world: World, ops: FailingOps) -> list[Callable[[], object]]:
    bench = world.bench(ops)
    taker = bench.taker("taker")
    named: list[tuple[str, CheckpointId]] = []
    restored: list[str] = []

    def retain() -> None:
        policy = Policy(1, 0.0)
        run(
            bench.store,
            make_plan(bench.store, UID, world.key, world.fleet.verify_key, policy, bench.clock),
            bench.clock,
        )

    def take_over() -> None:
        settle(taker)
        claim = claim_next(taker, bench.proof())
        choice = choose(
            taker,
            claim,
            world.key,
            lambda i: verify_checkpoint(bench.store, UID, i, world.key, bench.clock).manifest,
        )
        record = write_continues(taker, claim, choice, "node-b", "guard-b")
        assert choice.checkpoint is not None
        named.append((record.nonce, choice.checkpoint))

    def restore() -> None:
        for nonce, identity in named:  # only the named guard with its grant ever starts the epoch
            bench.taker().lineage().may_start(2, "guard-b", nonce)
            fetch(bench.store, UID, identity, world.key, Path("/"), ops=ops)
            world.same_images(ops.inner, identity)
            restored.append(nonce)

    def save_there() -> None:
        for nonce in restored:
            bench.taker().lineage().may_start(2, "guard-b", nonce)
            world.save(bench, 2, 1)

    return [
        lambda: world.save(bench, 1, 3),
        lambda: world.verify(bench, CheckpointId(1, 3)),
        retain,  # 1.1 goes, 1.2 stays: 1.3 needs its packs
        take_over,
        lambda: world.save(bench, 1, 4),  # the guard that was left behind: refused once epoch 2 is claimed
        restore,
        save_there,
    ]


@dataclass
class Outcome:
    """A run with one fault."""

    world: World
    files: SimulatedOps
    calls: list[str]
    crashed: bool


def cycle(base: World, files: SimulatedOps, at: int, kind: FaultKind, *, for_good: bool = False) -> Outcome:
    """Run the cycle with the `at`-th file operation going wrong; after an error the next step is tried."""
    world = base.copy()
    inner = files.copy()
    ops = FailingOps(inner, at, kind, for_good=for_good)
    for step in _steps(world, ops):
        try:
            step()
        except Crashed:
            return Outcome(world, inner, ops.calls, crashed=True)
        except ReprieveError as error:
            world.told.append(error.message)
    return Outcome(world, inner, ops.calls, crashed=False)


def judge(world: World, files: SimulatedOps) -> Counter[str]:
    """Fresh processes find what was promised; then the job goes on. How much was looked at, by invariant."""
    counts: Counter[str] = Counter()
    for text in world.told:  # I9: no control byte in what a user is told
        assert clean(text, limit=len(text)) == text
        counts["I9"] += 1
    bench = world.bench(files)
    lineage = bench.taker().lineage()
    lineage.check_gaps()
    assert lineage.problems == (), lineage.problems
    good = set()
    for identity in list_job(bench.store, UID).checkpoints:
        try:  # I4: a listed save verifies, or is listed as damaged
            verify_checkpoint(bench.store, UID, identity, world.key, bench.clock)
            good.add(identity)
        except (DamagedError, NotFoundError):
            pass
        counts["I4"] += 1
    chain = lineage.chain(good)
    _proven(lineage, counts)
    orphans = [identity for identity in world.reported if not lineage.on_chain(identity)]
    assert not orphans, f"reported as saved and off the chain: {orphans}"
    if world.reported:  # I1: what was reported, or a later save, restores
        assert chain, f"nothing restorable, {world.reported} were reported"
        assert chain[0] >= max(world.reported), f"{max(world.reported)} was reported, best is {chain[0]}"
        counts["I1"] += 1
    standing = [i for i in good if read_attestation(bench.store, UID, i, "verified", world.fleet.verify_key)]
    if world.attested:  # I5: the newest verified is still there and known as verified
        assert max(world.attested) in standing, f"{max(world.attested)} was verified, {standing} are left"
        counts["I5"] += 1
    _go_on(world, bench, lineage.highest)
    counts["I2"] += 1
    return counts


def _proven(lineage: Lineage, counts: Counter[str]) -> None:
    """I3: every claim but the first carries a proof about the guard that was last named."""
    for epoch, claim in lineage.claims.items():
        assert claim is not None
        last = lineage.current(below=epoch)
        if last is not None:
            assert (claim.proof.kind, claim.proof.guard) == ("cloud", last.guard)
            counts["I3"] += 1


def _go_on(world: World, bench: Bench, epoch: int) -> None:
    """A restarted guard recovers, a taker finds the best, a new save works."""
    current = bench.taker().lineage().current()
    assert current is not None
    guard = Committer(bench.store, UID, current.epoch, world.key, world.fleet.verify_key, bench.clock)
    mine = [i.seq for i in world.reported if i.epoch == current.epoch]
    try:
        found = guard.recover(max(mine, default=0))
        if found is not None:
            world.reported.append(found.checkpoint)
        _save_again(world, bench, current.epoch)
    except FencedError:
        assert epoch > current.epoch
    unproven = bench.taker()
    settle(unproven)
    with pytest.raises(NoProofError):  # I3
        claim_next(unproven, FIRST)
    taken = bench.take_over("node-z", "guard-z")
    with pytest.raises(FencedError):  # I2: what was left behind publishes nothing
        world.save(bench, current.epoch, bench.committer(current.epoch).next_seq())
    chosen = taken.from_checkpoint
    assert chosen is not None
    assert chosen >= max(world.reported), f"{chosen} chosen, {max(world.reported)} was reported"
    bench_epoch = taken.epoch
    world.save(bench, bench_epoch, bench.committer(bench_epoch).next_seq())


def _save_again(world: World, bench: Bench, epoch: int) -> None:
    """The guard that is back saves once more, by the table it finds; the bytes come back, pages of the parent's too."""
    seq = bench.committer(epoch).next_seq()
    world.save(bench, epoch, seq)
    reader = CheckpointReader(bench.store, UID, CheckpointId(epoch, seq), world.key)
    stream = next(stream for stream in reader.index.streams if stream.name == "pages-1.img")
    found = b"".join(reader.blocks(stream))
    assert found == (world.source_of(CheckpointId(epoch, seq)) / "images/pages-1.img").read_bytes()


def fingerprint(world: World, files: SimulatedOps) -> bytes:
    """Equal outcomes are judged once."""
    digest = hashlib.blake2b(repr((sorted(world.reported), sorted(world.attested))).encode())

    def walk(path: str) -> None:
        for name, info in sorted(files.list(path)):
            if not path and name in ("images", "files"):
                continue  # what was restored
            below = f"{path}/{name}".lstrip("/")
            if info.kind == "directory":
                walk(below)
            elif not name.startswith((".tmp-", UID)):
                handle = files.open(below)
                digest.update(below.encode() + b"\0" + files.read(handle, 1 << 30, 0))
                files.close(handle)

    walk("")
    with open_table(
        files.copy(), UID, world.key
    ) as table:  # however torn: what counts is whether it is trusted
        digest.update(b"no table" if table is None else str(table.checkpoint).encode())
    return digest.digest()

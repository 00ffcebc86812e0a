"""A job with every kind of committed file, to be damaged: two epochs, an orphan, a full save, one by pages, a synthetic full."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from backends.errors import DamagedError, NotFoundError
from backends.ids import CheckpointId
from backends.records.manifest import Manifest
from backends.store.fetch import fetch
from backends.store.fileops import RealOps
from backends.store.files import FileStore
from backends.store.format.manifests import load_full, load_manifest
from backends.store.full import make_full
from backends.store.takeover import Choice, choose, claim_next, settle, write_continues
from backends.store.verify import VerifyReport, verify_by_parent, verify_checkpoint
from tests.support.memory import Process, images, page, save_of
from tests.support.store import UID, Bench

Damaged = (DamagedError, NotFoundError)
ORPHAN, NEWEST = CheckpointId(1, 2), CheckpointId(2, 3)
# Checkpoints on the chain → those whose packs they need; 2.3 has a synthetic full, so it stands alone.
NEEDS = {
    CheckpointId(1, 1): (CheckpointId(1, 1),),
    CheckpointId(2, 1): (CheckpointId(2, 1),),
    CheckpointId(2, 2): (CheckpointId(2, 2), CheckpointId(2, 1)),
    NEWEST: (NEWEST,),
}
Span = tuple[int, int]  # first byte and the one after the last


def memory(identity: CheckpointId) -> Process:
    """Eight pages, one of which changes from save to save."""
    pages = [page(n) for n in range(1, 9)]
    pages[identity.seq], pages[7] = page(100 * identity.epoch + identity.seq), page(0)
    return Process(7, {0x400000: pages})


def damage(path: Path, chance: random.Random, within: Span | None) -> bytes:
    """Flip a bit, inside of `within` if given, or cut the file there or anywhere; return what it was."""
    before = path.read_bytes()
    first, end = within or (0, len(before))
    if chance.random() < 0.3:
        path.write_bytes(before[: chance.randrange(first, end)])
    else:
        changed = bytearray(before)
        changed[chance.randrange(first, end)] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(changed))
    return before


class Scene:
    """The store on disk, and a controller that is about to take epoch 3."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "tables").mkdir()
        self.store = FileStore(directory / "store")
        self.bench = Bench(store=self.store, tables=RealOps(directory / "tables"))
        self.job = directory / "store" / "jobs" / UID
        self._into = itertools.count()
        self.bench.begin()
        self._save(CheckpointId(1, 1))
        self._save(ORPHAN)
        taker = self.bench.taker()
        settle(taker)
        claim = claim_next(taker, self.bench.proof())
        chosen = Choice("checkpoint", CheckpointId(1, 1))
        self.nonce = write_continues(taker, claim, chosen, "node-b", "guard-b").nonce
        for seq in (1, 2, 3):
            self._save(CheckpointId(2, seq))
        assert make_full(self.store, UID, NEWEST, self.bench.key, lambda: False) is not None
        self._taker = self.bench.taker()
        settle(self._taker)
        self._claim = claim_next(self._taker, self.bench.proof())
        self._old = load_manifest(self.store, UID, NEWEST, self.bench.key)
        full = load_full(self.store, UID, self._old, self.bench.key)
        assert full is not None
        self._new_packs = {entry.name for entry in full.packs} - {entry.name for entry in self._old.packs}
        assert self._new_packs
        assert self._old.parent == "2.1"

    def _save(self, identity: CheckpointId) -> None:
        source = save_of(self.directory / "saves" / str(identity), [memory(identity)], {"log": b"line\n" * 9})
        self.bench.committer(identity.epoch).commit(identity.seq, source)
        self.bench.verified(identity)

    def choose(self) -> Choice:
        """What the controller would continue from."""
        return choose(self._taker, self._claim, self.bench.key, self._good)

    def verify(self, identity: CheckpointId) -> VerifyReport:
        """A checkpoint's strict verification, which is what gets attested."""
        return verify_checkpoint(self.store, UID, identity, self.bench.key, self.bench.clock)

    def _good(self, identity: CheckpointId) -> Manifest:
        try:
            return self.verify(identity).manifest
        except Damaged:
            found = verify_by_parent(self.store, UID, identity, self.bench.key, self.bench.clock)
            if found is None:
                raise
            return found.manifest

    def fetch(self, identity: CheckpointId) -> dict[str, bytes]:
        """The images of a checkpoint as they come back."""
        into = self.directory / f"into{next(self._into)}"
        try:
            fetch(self.store, UID, identity, self.bench.key, into)
            return {path.name: path.read_bytes() for path in (into / "images").iterdir()}
        finally:
            shutil.rmtree(into, ignore_errors=True)

    def check(self, identity: CheckpointId) -> None:
        """It comes back byte for byte."""
        assert self.fetch(identity) == images([memory(identity)])

    def target(self, kind: str, chance: random.Random) -> tuple[Path, Span | None, set[CheckpointId]]:
        """A file of this kind, the part of it to damage (None: anywhere), and the checkpoints on the chain that need it."""
        path, span, owner = chance.choice(sorted(self._targets(kind), key=str))
        alone = kind in ("manifest", "index", "files")  # a save that refers to another needs its pages only
        return path, span, {each for each in NEEDS if owner == each or (not alone and owner in NEEDS[each])}

    def _targets(self, kind: str) -> Iterator[tuple[Path, Span | None, CheckpointId | None]]:
        if kind in ("claim", "continues"):
            for path in self.job.glob("epochs/*"):
                if path.name.endswith(".continues") == (kind == "continues"):
                    yield path, None, None
            return
        if kind == "full.json":
            yield self.job / "checkpoints" / str(NEWEST) / kind, None, None
            return
        if kind == "full's pack":
            for name in self._new_packs:
                yield self.job / name, None, NEWEST
            return
        for identity in NEEDS:
            manifest = load_manifest(self.store, UID, identity, self.bench.key)
            whole = None if identity != NEWEST else load_full(self.store, UID, manifest, self.bench.key)
            if kind in ("manifest", "verified"):
                name = "manifest.json" if kind == "manifest" else kind
                yield self.job / "checkpoints" / str(identity) / name, None, identity
            elif kind == "index":
                for frame in (whole or manifest).index:
                    yield self.job / frame.pack, (frame.offset, frame.offset + frame.length), identity
            elif kind == "files":
                for path in self.job.glob(f"files/{identity}/*"):
                    yield path, None, identity
            elif (
                identity != NEWEST
            ):  # of the newest, the synthetic full's index names another part of its pack
                indexes = {self.job / frame.pack for frame in manifest.index}
                for path in {*self.job.glob(f"packs/{identity}/*")} - indexes:
                    yield path, None, identity

"""The guard's side of a real format-1 store in memory, for fakes: real commits, real lineage, real damage."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from backends.errors import FencedError, ReprieveError
from backends.fakes.clock import FakeClock
from backends.fakes.store import MemoryStore
from backends.ids import CheckpointId
from backends.store.commit import Committer
from backends.store.fleetkey import FleetKey
from backends.store.format.source import SaveSource
from backends.store.lineage import read_lineage
from backends.store.sealing import JobKey
from backends.store.verify import verify_checkpoint
from console.operations.real.store_truth import StoreTruth


class WatchedStore(MemoryStore):
    """Calls `moment` before and after each create, so that a test can kill the writer there."""

    def __init__(self) -> None:
        super().__init__("store")
        self.moment: Callable[[str], None] = lambda label: None
        self.watched = False

    def create(self, key: str, data: Any) -> int:
        if self.watched:
            self.moment(f"create {key}")
        size = super().create(key, data)
        if self.watched:
            self.moment(f"created {key}")
        return size


class RealSide:
    """What fake guards ask of the store."""

    def __init__(self, directory: Path, clock: FakeClock, keys: dict[str, str]) -> None:
        self.store = WatchedStore()
        self.key = FleetKey(bytes(32))
        self.clock = clock
        self.keys = keys
        self.directory = directory / "image"
        (self.directory / "images").mkdir(parents=True)
        (self.directory / "files").mkdir()
        self.count = 0

    def truth(self, by: str) -> StoreTruth:
        return StoreTruth(self.store, self.key, by, self.clock)

    def commit(self, uid: str, epoch: int, node: str, frozen_at: float) -> str:
        self.store.watched = False
        try:
            self.count += 1
            (self.directory / "images" / "core.img").write_bytes(f"{uid} {self.count}".encode())
            committer = Committer(
                self.store, uid, epoch, JobKey.from_hex(self.keys[uid]), self.key.verify_key, self.clock
            )
            source = SaveSource(self.directory, "fake", frozen_at, 0.1, 0.2, fingerprint={"arch": "x86_64"})
            seq = committer.next_seq()
            with contextlib.suppress(FencedError):
                committer.commit(seq, source)
            return f"{epoch}.{seq}"
        finally:
            self.store.watched = True

    def newest_epoch(self, uid: str) -> int:
        return read_lineage(self.store, uid, self.key.verify_key).highest

    def may_start(self, uid: str, epoch: int, guard: str, nonce: str) -> bool:
        try:
            read_lineage(self.store, uid, self.key.verify_key).may_start(epoch, guard, nonce)
        except ReprieveError:
            return False
        return True

    def readable(self, uid: str, checkpoint: str) -> bool:
        key = JobKey.from_hex(self.keys[uid])
        try:
            verify_checkpoint(self.store, uid, CheckpointId.parse(checkpoint), key, self.clock)
        except ReprieveError:
            return False
        return True

    def damage(self, uid: str, checkpoint: str) -> None:
        """Flip one byte of a pack."""
        name = next(key for key in self.store.objects if key.startswith(f"jobs/{uid}/packs/{checkpoint}/"))
        self.store.flip(name, 20)

    def checkpoints(self, uid: str) -> list[str]:
        prefix = f"jobs/{uid}/checkpoints/"
        found = {key[len(prefix) :].split("/")[0] for key in self.store.objects if key.startswith(prefix)}
        return sorted(found)

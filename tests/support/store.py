"""Shared by the store's tests: a manual clock, a ready job, small saves on disk."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field
from pathlib import Path

from backends.fakes.store import MemoryStore
from backends.ids import CheckpointId, new_nonce
from backends.records.lineage import Continues, Proof
from backends.store.commit import Committed, Committer, SaveSource, SourceFile
from backends.store.fileops import FileOps
from backends.store.fleetkey import FleetKey
from backends.store.format.pagehash import PageHashOption
from backends.store.port import ObjectStore
from backends.store.sealing import JobKey
from backends.store.takeover import FIRST, Taker, begin, choose, claim_next, settle, write_continues
from backends.store.verify import attest, verify_checkpoint

UID = "abcdefghij0123456789"
NOW = 1_800_000_000.0


class ManualClock:
    """A clock that moves only when told, or a little with each look."""

    def __init__(self, now: float = NOW, tick: float = 0.0) -> None:
        self.now = now
        self.tick = tick

    def wall(self) -> float:
        self.now += self.tick
        return self.now

    def monotonic(self) -> float:
        self.now += self.tick
        return self.now - NOW

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def pause(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


def make_save(
    directory: Path, images: dict[str, bytes], files: dict[str, bytes] | None = None, frozen_at: float = NOW
) -> SaveSource:
    """Write a save's directory and describe it."""
    for area, content in (("images", images), ("files", files or {})):
        for name, data in content.items():
            path = directory / area / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        (directory / area).mkdir(parents=True, exist_ok=True)
    captured = tuple(
        SourceFile(f"/data/{name}", len(data), 0o100640, 1000, 1000, name, "open")
        for name, data in (files or {}).items()
    )
    return SaveSource(directory, "fake", frozen_at, 0.25, 1.5, captured, {"fake": "1"})


def pagemap_image(pages_id: int, runs: list[tuple[int, int, int]], *, wide: bool = True) -> bytes:
    """A pagemap as CRIU writes it; runs are (vaddr, pages, flags)."""

    def varint(value: int) -> bytes:
        out = bytearray()
        while True:
            out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
            value >>= 7
            if not value:
                return bytes(out)

    def message(*fields: tuple[int, int]) -> bytes:
        body = b"".join(varint(number << 3) + varint(value) for number, value in fields)
        return struct.pack("<I", len(body)) + body

    data = struct.pack("<II", 0x54564319, 0x56084025) + message((1, pages_id))
    for vaddr, pages, flags in runs:
        if wide:
            data += message((1, vaddr), (2, 0), (4, flags), (5, pages))
        else:
            data += message((1, vaddr), (2, pages), (4, flags))
    return data


@dataclass
class Bench:
    """A job in a store, with keys, a clock and its controller."""

    store: ObjectStore = field(default_factory=MemoryStore)
    key: JobKey = field(default_factory=JobKey.new)
    fleet: FleetKey = field(default_factory=FleetKey.new)
    clock: ManualClock = field(default_factory=ManualClock)
    uid: str = UID
    tables: FileOps | None = None  # where the node keeps page tables; None: every save is a full one
    page_hash: PageHashOption = "blake3"

    def taker(self, nonce: str | None = None, controller: str = "console") -> Taker:
        return Taker(self.store, self.uid, self.fleet, controller, nonce or new_nonce(), self.clock)

    def begin(self, target: str = "node-a", guard: str = "guard-a") -> Continues:
        return begin(self.taker(), "job", target, guard)

    def committer(self, epoch: int = 1) -> Committer:
        return Committer(
            self.store,
            self.uid,
            epoch,
            self.key,
            self.fleet.verify_key,
            self.clock,
            tables=self.tables,
            page_hash=self.page_hash,
        )

    def save(self, directory: Path, seq: int, epoch: int = 1, *, content: bytes | None = None) -> Committed:
        """Commit a small save whose content names it."""
        data = content if content is not None else f"memory of {epoch}.{seq}".encode() * 50
        source = make_save(
            directory / f"{epoch}.{seq}.{new_nonce()}",
            {"pages-1.img": data, "core-1.img": b"core"},
            {"progress": b"step %d\n" % seq},
            frozen_at=NOW + seq * 60,
        )
        return self.committer(epoch).commit(seq, source)

    def verified(self, identity: CheckpointId) -> None:
        report = verify_checkpoint(self.store, self.uid, identity, self.key, self.clock)
        attest(
            self.store, self.uid, identity, "verified", self.fleet, self.clock,
            by="console", how=report.how, seconds=report.seconds,
        )  # fmt: skip

    def proof(self) -> Proof:
        current = self.taker().lineage().current()
        if current is None:
            return FIRST
        return Proof(
            "cloud",
            current.epoch,
            current.target or "",
            current.guard or "",
            "practice",
            "2027-01-15T08:00:00.000Z",
        )

    def take_over(self, target: str = "node-b", guard: str = "guard-b") -> Continues:
        """All four steps without any fault."""
        taker = self.taker()
        settle(taker)
        claim = claim_next(taker, self.proof())
        choice = choose(
            taker, claim, self.key,
            lambda identity: verify_checkpoint(self.store, self.uid, identity, self.key, self.clock).manifest,
        )  # fmt: skip
        return write_continues(taker, claim, choice, target, guard)

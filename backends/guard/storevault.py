"""The vault on a real store: format 1, sealed with the job's key, checked against the fleet's."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from backends.clock import Clock
from backends.engines.port import OpenFile
from backends.errors import ExistsError, NoProofError, StoreError
from backends.guard.vault import Fetched, Place, Receipt, Shipment
from backends.ids import CheckpointId, new_nonce
from backends.records.grant import Grant
from backends.records.job import Job
from backends.store import layout
from backends.store.ahead import AheadStore, fetch_ahead
from backends.store.commit import Committed, Committer, SaveSource, SourceFile
from backends.store.fetch import fetch
from backends.store.fileops import FileOps, RealOps
from backends.store.fleetkey import VerifyKey
from backends.store.format.pagehash import PageHashOption
from backends.store.format.table import drop_table, promote_table
from backends.store.full import make_full
from backends.store.lease import Lease, write_lease
from backends.store.lineage import Lineage, read_lineage
from backends.store.open import open_store
from backends.store.port import ObjectStore
from backends.store.sealing import JobKey, escrow_test

SEQ_TRIES = 3  # another writer of our epoch would be a bug or a thief: do not race it for ever

Fingerprint = Callable[[Shipment], dict[str, Any]]
Offset = Callable[
    [float, float], float | None
]  # wall and boot clock of an instant → our wall less the controller's


class StoreVault:
    """One job's view of its store."""

    def __init__(
        self,
        store: ObjectStore,
        job: Job,
        grant: Grant,
        clock: Clock,
        fingerprint: Fingerprint,
        tables: FileOps | None = None,
        offset_s: Offset = lambda wall, monotonic: None,
    ) -> None:
        """`tables` is this node's directory of page tables; without one every save is a full one."""
        self._store = store
        self._job = job
        self._key = JobKey.from_hex(grant.key)
        self._verify_key = VerifyKey.from_hex(grant.verify_key)
        self._clock = clock
        self._fingerprint = fingerprint
        self._tables = tables
        self._turn = 0  # ships begun
        self._due: tuple[int, CheckpointId] | None = None  # turn and save that is due for a synthetic full
        self._turns = threading.Lock()
        self._offset_s = offset_s

    def ship(self, shipment: Shipment, epoch: int) -> Receipt:
        """Commit a save under the next free seq of `epoch`."""
        with self._turns:  # a synthetic full under way stops, or has put its table in place
            self._turn += 1
            self._due = None
        self._own_lineage(epoch)
        committer = self._committer(epoch, shipment.job.page_hash)
        source = self._source(shipment)
        seq = committer.next_seq()
        for _ in range(SEQ_TRIES):
            try:
                return self._receipt(committer.commit(seq, source))
            except ExistsError:
                seq += 1
        return self._receipt(committer.commit(seq, source))

    def _receipt(self, done: Committed) -> Receipt:
        self._own_lineage(done.checkpoint.epoch)
        if done.manifest.notes.get("full_due") and not done.repeated:
            self._due = (self._turn, done.checkpoint)
        stored = sum(pack.size for pack in done.manifest.packs)
        return Receipt(str(done.checkpoint), done.manifest.size_bytes, stored, done.manifest.parent)

    def start_over(self) -> None:
        """Forget the page table: the next save refers to no older one."""
        if self._tables is not None:
            drop_table(self._tables, self._job.uid)

    def consolidate(self, checkpoint: str) -> str | None:
        """Make the save that was just shipped a full one, if it is due and no other ship begins."""
        due = self._due
        if due is None or str(due[1]) != checkpoint or self._tables is None:
            return None
        made = make_full(self._store, self._job.uid, due[1], self._key, lambda: self._turn != due[0])
        with self._turns:
            if made is None or self._turn != due[0]:
                return None
            promote_table(self._tables, self._job.uid)
        return f"checkpoint {checkpoint} needs no older one any more: a full save was made of it"

    def _own_lineage(self, epoch: int) -> Lineage:
        """The lineage, once it is seen to hold our own claim: an empty place (a mount that is gone) answers too."""
        lineage = self._lineage()
        if lineage.claims.get(epoch) is None:
            raise StoreError(
                f"store {self._store.url} does not hold the claim of epoch {epoch} of job {self._job.name}: it is "
                f"not the store this job was started with; see whether its disk is mounted"
            )
        return lineage

    def _source(self, shipment: Shipment) -> SaveSource:
        saved = shipment.saved
        files = tuple(SourceFile(**dataclasses.asdict(file)) for file in saved.files)
        return SaveSource(
            directory=shipment.directory,
            engine=shipment.engine,
            frozen_at=saved.frozen_at,
            frozen_s=saved.frozen_s,
            dump_s=saved.dump_s,
            files=files,
            versions=saved.versions,
            runtime=shipment.job.runtime,
            fingerprint=self._fingerprint(shipment),
            processes=saved.processes,
            details=saved.details,
            clock_offset_s=self._offset_s(saved.frozen_at, saved.frozen_at_monotonic),
        )

    def recover(self, epoch: int, after: str | None) -> str | None:
        """The newest save of `epoch`, later than `after`, that reads back whole, no newer epoch being claimed."""
        last = None if after is None else CheckpointId.parse(after)
        seq = last.seq if last is not None and last.epoch == epoch else 0
        found = self._committer(epoch).recover(seq)
        return None if found is None else str(found.checkpoint)

    def fetch(self, checkpoint: str, into: Path, ahead: Path | None = None) -> Fetched:
        """Verify a checkpoint and write it under `into`."""
        store = AheadStore(self._store, ahead)
        manifest = fetch(store, self._job.uid, CheckpointId.parse(checkpoint), self._key, into)
        files = tuple(
            OpenFile(
                path=entry.path,
                size=entry.size,
                mode=entry.mode,
                uid=entry.uid,
                gid=entry.gid,
                copy=entry.copy,
                origin=entry.origin,
            )
            for entry in manifest.files
        )
        return Fetched(manifest.engine, files, manifest.details, store.from_here, store.from_store)

    def fetch_ahead(self, checkpoint: str, into: Path) -> int:
        """Copy the packs of a checkpoint into `into`."""
        return fetch_ahead(self._store, self._job.uid, CheckpointId.parse(checkpoint), self._key, into)

    def place(self, epoch: int, guard: str, last: str | None) -> Place:
        """Where `epoch` stands among the claims in the store."""
        lineage = self._own_lineage(epoch)
        newest = max(epoch, lineage.highest_valid)
        last_id = None if last is None else CheckpointId.parse(last)
        adopted = lineage.adopts(guard, epoch, last_id)
        invalid = tuple(
            (number, "its signature or content is wrong")
            for number, claim in sorted(lineage.claims.items())
            if claim is None and number > epoch
        )
        return Place(newest, adopted is not None and adopted.epoch == newest, invalid)

    def keep_lease(self, epoch: int, guard: str, lease_s: float | None) -> None:
        """Replace the lease of `epoch`, once the store is seen to be the one that holds our claim."""
        self._own_lineage(epoch)
        write_lease(self._store, Lease(self._job.uid, epoch, guard, lease_s, new_nonce()), self._key)

    def may_start(self, epoch: int, guard: str, nonce: str, checkpoint: str | None) -> None:
        """Return when the lineage lets this guard start `epoch` from `checkpoint` (None: from nothing)."""
        found = self._lineage().may_start(epoch, guard, nonce)
        if found.checkpoint != checkpoint:
            raise NoProofError(
                f"epoch {epoch} of job {self._job.name} continues from {found.checkpoint or 'nothing'}, "
                f"not from {checkpoint or 'nothing'}"
            )

    def escrow(self, nonce: str) -> str:
        """What only a holder of the key that seals this job's saves can open."""
        return escrow_test(self._key, self._job.uid, nonce)

    def maker(self, checkpoint: str) -> str | None:
        """The guard named by the continues of the checkpoint's epoch."""
        found = self._lineage().continues.get(CheckpointId.parse(checkpoint).epoch)
        return None if found is None else found.guard

    def rehearsed(self) -> bool:
        """Whether any checkpoint of the job has a rehearsal record."""
        prefix = layout.checkpoints(self._job.uid)
        return any(info.key.endswith("/rehearsed") for info in self._store.list(prefix))

    def _lineage(self) -> Lineage:
        return read_lineage(self._store, self._job.uid, self._verify_key)

    def _committer(self, epoch: int, page_hash: PageHashOption = "blake3") -> Committer:
        return Committer(
            self._store,
            self._job.uid,
            epoch,
            self._key,
            self._verify_key,
            self._clock,
            tables=self._tables,
            page_hash=page_hash,
        )


def opener(
    clock: Clock, fingerprint: Fingerprint, tables: Path, offset_s: Offset = lambda wall, monotonic: None
) -> Callable[[Job, Grant], StoreVault]:
    """What opens a job's vault from its grant; `tables` is this node's directory of page tables."""

    def open_vault(job: Job, grant: Grant) -> StoreVault:
        return StoreVault(open_store(grant.store), job, grant, clock, fingerprint, RealOps(tables), offset_s)

    return open_vault

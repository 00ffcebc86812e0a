"""Committing a save: data, manifest, read back, look for a newer epoch, and only then "saved".

The first save of an epoch is a full one; later ones store what changed since and refer to its packs for the rest
(`parent`), where this machine still has the table of its pages.

Nothing is overwritten: a repeated commit of the same content succeeds without writing, other content needs the next
seq. Every attempt has its own data key; packs of a failed attempt stay behind until retention removes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.clean import clean
from backends.clock import Clock, format_utc
from backends.errors import (
    DamagedError,
    ExistsError,
    FencedError,
    NotFoundError,
    ReprieveError,
    StoreError,
    UnreachableError,
)
from backends.ids import CheckpointId, new_nonce
from backends.records.manifest import FORMAT, FileEntry, IndexFrame, Manifest, Timings
from backends.records.strict import canonical
from backends.store import layout
from backends.store.beside import Beside
from backends.store.fetch import CheckpointReader
from backends.store.fileops import FileOps, RealOps
from backends.store.fleetkey import VerifyKey
from backends.store.format.index import Index, PackRef, Stream, encode_index
from backends.store.format.manifests import list_job, open_manifest, seal_manifest
from backends.store.format.packs import (
    FRAME_BYTES,
    PackWriter,
    ReadBack,
    check_pack,
    check_present,
    first_packs,
)
from backends.store.format.pagehash import NAMES, PageHash, PageHashOption
from backends.store.format.source import SaveSource, SourceFile, StreamCutter
from backends.store.format.table import TableWriter
from backends.store.lineage import read_lineage
from backends.store.parent import Parent, open_parent
from backends.store.port import ObjectStore
from backends.store.sealing import DataKey, JobKey

__all__ = ["Committed", "Committer", "SaveSource", "SourceFile"]


@dataclass(frozen=True)
class Committed:
    """A save that may be reported as saved."""

    checkpoint: CheckpointId
    manifest: Manifest
    stored_bytes: int  # sealed bytes of this save's own packs
    pack_s: float  # hashing, sealing, upload
    readback_s: float  # reading all of it back
    repeated: bool = False  # it had been committed before with the same content
    warnings: tuple[str, ...] = ()  # what went wrong without harm, such as the `latest` hint; planted claims


@dataclass(frozen=True)
class _Written:
    manifest: Manifest
    data: bytes  # the object's bytes
    packs: tuple[PackRef, ...] | None = None  # those its index names; None: not known without reading it
    read_back: frozenset[str] = frozenset()  # own packs that were read back from the store already


class Committer:
    """Commits the saves of one epoch of one job. Not for several threads at once (single flight per job)."""

    def __init__(
        self,
        store: ObjectStore,
        uid: str,
        epoch: int,
        key: JobKey,
        verify_key: VerifyKey,
        clock: Clock,
        *,
        open_source: Callable[[Path], FileOps] = RealOps,
        tables: FileOps | None = None,
        page_hash: PageHashOption = "blake3",
    ) -> None:
        """`tables` is where this machine keeps page tables; without one every save is a full one.

        `page_hash` is the job's option: how pages are told from the parent's.
        """
        self._store = store
        self._uid = uid
        self._epoch = epoch
        self._key = key
        self._verify_key = verify_key
        self._clock = clock
        self._open_source = open_source
        self._tables = tables
        self._page_hash = page_hash

    def next_seq(self) -> int:
        """The first seq of this epoch under which nothing lies yet, from 1."""
        listing = list_job(self._store, self._uid)
        found = {*listing.manifests, *listing.data, *listing.attested}
        return 1 + max((identity.seq for identity in found if identity.epoch == self._epoch), default=0)

    def commit(self, seq: int, source: SaveSource) -> Committed:
        """Commit a finished save under `seq`.

        Raises:
            FencedError: a newer epoch exists; the save must not be reported and the job must be frozen.
            ExistsError: other content lies under this seq; take `next_seq()`.
            FullError, UnreachableError, StoreError: given up; the job runs on and the older save stands.
        """
        identity = CheckpointId(self._epoch, seq)
        self._check_fence(identity)
        existing = self._existing(identity)
        if existing is not None:
            if existing.manifest.content != self._content_of(source):
                raise ExistsError(
                    f"checkpoint {identity} of job {self._uid} exists with other content; commit under the next seq"
                )
            return self._finish(existing, repeated=True)
        wanted = NAMES[self._page_hash]
        with open_parent(self._store, self._uid, self._epoch, self._key, self._tables, wanted) as parent:
            page_hash = (
                PageHash.new(self._key, self._page_hash) if parent is None else parent.base.table.page_hash
            )
            table = (
                None if self._tables is None else TableWriter(self._tables, self._uid, self._key, page_hash)
            )
            try:
                written = self._write_data(identity, source, parent, table, page_hash)
                self._write_manifest(written)
                done = self._finish(written, repeated=False)
            except BaseException:
                if table is not None:
                    table.discard()
                raise
        if table is not None:
            self._settle(done.manifest, table)
        return done

    def _settle(self, manifest: Manifest, table: TableWriter) -> None:
        """The save is committed: which table the next one goes by."""
        if manifest.parent is None:
            table.keep(manifest.id, manifest.content)
            return
        if manifest.notes.get("full_due"):
            table.keep(manifest.id, manifest.content, aside=True)
        else:
            table.discard()

    def recover(self, after: int) -> Committed | None:
        """What a restarted guard may still report: the newest save of this epoch with seq > `after` that counts.

        A save counts when its manifest is there (made durable first), all of it reads back, and no newer epoch
        exists. Damaged or half-done ones are passed over. FencedError when behind.
        """
        listing = list_job(self._store, self._uid)
        for identity in reversed(listing.checkpoints):
            if identity.epoch != self._epoch or identity.seq <= after:
                continue
            try:
                existing = self._existing(identity)
                if existing is not None:
                    return self._finish(existing, repeated=True)
            except DamagedError:
                continue
        return None

    def _existing(self, identity: CheckpointId) -> _Written | None:
        """The manifest that lies under this id, made durable; None when there is none."""
        key = layout.checkpoint(self._uid, identity)
        try:
            data = self._store.read(key)
        except NotFoundError:
            return None
        # Whoever wrote it may have died before its name was durable: creating it again makes sure.
        with contextlib.suppress(ExistsError):
            self._store.create(key, data)
        return _Written(open_manifest(data, self._uid, identity, self._key), data)

    def _seal(self, manifest: Manifest, packs: tuple[PackRef, ...], read_back: frozenset[str]) -> _Written:
        try:
            return _Written(manifest, seal_manifest(manifest, self._key), packs, read_back)
        except (ValueError, TypeError) as error:
            raise StoreError(
                f"manifest of checkpoint {manifest.id}: {clean(error)}; the save is given up"
            ) from None

    def _content_of(self, source: SaveSource) -> str:
        """The source's content digest without writing anything."""
        with Beside("stream digest") as digesting:
            cutter = StreamCutter(self._open_source(source.directory), self._key, lambda: 0, digesting)
            for _ in cutter.images():
                pass
            for _ in cutter.files(source.files):
                pass
        return content_digest(cutter.streams, source.files, self._key)

    def _write_data(
        self,
        identity: CheckpointId,
        source: SaveSource,
        parent: Parent | None,
        table: TableWriter | None,
        page_hash: PageHash,
    ) -> _Written:
        """Seal and upload everything but the manifest, reading packs back while others are made."""
        started = self._clock.monotonic()
        data_key = DataKey.new(self._uid, identity)
        base = None if parent is None else parent.base
        with Beside("stream digest") as digesting, Beside("read back") as reading:
            read_back = ReadBack(self._store, self._uid, self._key, reading)
            numbers = first_packs(self._store, self._uid, identity)
            writer = PackWriter(self._store, self._key, data_key, numbers, written=read_back.begin)
            cutter = StreamCutter(
                self._open_source(source.directory),
                self._key,
                lambda: writer.taken,
                digesting,
                page_hash=page_hash,
                base=base,
                table=table,
            )
            writer.write("packs", cutter.images())
            writer.write("files", cutter.files(source.files))
            packs, frames = cutter.slots.tables(
                writer.refs, writer.frames, None if base is None else base.index
            )
            encoded = b"".join(encode_index(Index(self._uid, identity, packs, frames, tuple(cutter.streams))))
            first = len(writer.frames)
            pieces = (encoded[at : at + FRAME_BYTES] for at in range(0, len(encoded), FRAME_BYTES))
            writer.write("packs", pieces)
            checked = self._wait(identity, read_back)
        used = parent if cutter.slots.refers else None
        manifest = self._manifest(identity, source, cutter, writer, data_key, first, encoded, started, used)
        return self._seal(manifest, packs, checked)

    def _wait(self, identity: CheckpointId, read_back: ReadBack) -> frozenset[str]:
        try:
            return read_back.wait()
        except (DamagedError, NotFoundError):
            self._check_fence(identity)  # as in `_finish`
            raise

    def _manifest(
        self,
        identity: CheckpointId,
        source: SaveSource,
        cutter: StreamCutter,
        writer: PackWriter,
        data_key: DataKey,
        first_index_frame: int,
        index: bytes,
        started: float,
        parent: Parent | None,
    ) -> Manifest:
        streams = cutter.streams
        files = {stream.name: stream for stream in streams if stream.area == "files"}
        frames = writer.frames[first_index_frame:]
        keys = {str(identity): self._key.wrap(data_key)}
        if parent is not None:
            keys[str(parent.base.checkpoint)] = parent.base.wrapped_key
        return Manifest(
            format=FORMAT,
            job_uid=self._uid,
            epoch=identity.epoch,
            seq=identity.seq,
            nonce=new_nonce(),
            parent=None if parent is None else str(parent.base.checkpoint),
            engine=source.engine,
            versions=source.versions,
            runtime=source.runtime,
            fingerprint=source.fingerprint,
            processes=source.processes,
            details=source.details,
            files=tuple(_file_entry(entry, files[entry.copy]) for entry in source.files),
            image_bytes=sum(stream.size for stream in streams if stream.area == "images"),
            file_bytes=sum(stream.size for stream in files.values()),
            content=content_digest(streams, source.files, self._key),
            packs=tuple(writer.packs),
            index=tuple(
                IndexFrame(writer.packs[f.pack].name, f.offset, f.length, f.number, f.plain) for f in frames
            ),
            index_digest=self._key.digest(index),
            keys=keys,
            timings=Timings(
                frozen_at=format_utc(source.frozen_at),
                frozen_s=source.frozen_s,
                dump_s=source.dump_s,
                pack_s=self._clock.monotonic() - started,
                clock_offset_s=source.clock_offset_s,
            ),
            notes=self._notes(cutter, parent),
        )

    def _notes(self, cutter: StreamCutter, parent: Parent | None) -> dict[str, Any]:
        notes: dict[str, Any] = {} if self._page_hash == "blake3" else {"page_hash": NAMES[self._page_hash]}
        if parent is not None:
            notes |= parent.chain.then(cutter.changed).notes(cutter.changed, cutter.pages)
        return notes

    def _write_manifest(self, written: _Written) -> None:
        """Create the manifest; after a silence find out whether it was this one that got there."""
        key = layout.checkpoint(self._uid, written.manifest.id)
        try:
            self._store.create(key, written.data)
        except UnreachableError:
            try:
                self._store.create(key, written.data)
            except ExistsError:
                if self._store.read(key) != written.data:
                    raise ExistsError(
                        f"{key}: another save took this seq; commit under the next one"
                    ) from None

    def _finish(self, written: _Written, *, repeated: bool) -> Committed:
        """Read everything back, look for a newer epoch, move the hint."""
        started = self._clock.monotonic()
        manifest = written.manifest
        try:
            self._read_back(written)
        except (DamagedError, NotFoundError):
            self._check_fence(manifest.id)  # behind, retention of the newer epoch may have taken it: say that
            raise
        readback_s = self._clock.monotonic() - started
        warnings = self._check_fence(manifest.id)
        try:
            self._store.replace(layout.latest(self._uid), canonical({"checkpoint": str(manifest.id)}))
        except ReprieveError as error:
            warnings = (*warnings, f"the hint `latest` was not written: {error.message}")
        size = sum(entry.size for entry in manifest.packs)
        return Committed(manifest.id, manifest, size, manifest.timings.pack_s, readback_s, repeated, warnings)

    def _read_back(self, written: _Written) -> None:
        """Manifest and every pack as the store has them now; DamagedError, NotFoundError."""
        identity = written.manifest.id
        if self._store.read(layout.checkpoint(self._uid, identity)) != written.data:
            raise DamagedError(
                f"manifest of checkpoint {identity}: what was read back is not what was written"
            )
        for entry in written.manifest.packs:
            if entry.name in written.read_back:
                check_present(self._store, self._uid, [PackRef(entry.name, entry.size)])
            else:
                check_pack(self._store, self._uid, entry, self._key)
        if written.manifest.parent is not None:
            packs = written.packs
            if packs is None:
                packs = CheckpointReader(self._store, self._uid, identity, self._key).index.packs
            check_present(self._store, self._uid, packs)  # the parent's were read back when it was saved

    def _check_fence(self, identity: CheckpointId) -> tuple[str, ...]:
        """FencedError when a validly signed claim of a newer epoch exists; else what is not to be trusted there."""
        lineage = read_lineage(self._store, self._uid, self._verify_key, since=self._epoch)
        if self._epoch not in lineage.claims and self._epoch not in lineage.continues:
            raise StoreError(
                f"job {self._uid}: {self._store.url} does not hold epoch {self._epoch}: it is not the store the job "
                f"was started with, or it is not mounted; nothing is written or reported"
            )
        newer = lineage.newer_claim(self._epoch)
        if newer is not None:
            raise FencedError(
                f"job {self._uid}: epoch {newer.epoch} was claimed by {newer.controller} at {newer.at}; "
                f"{_FATES[lineage.fate(identity)].format(identity)}",
                hint="the job runs elsewhere or will: this process is frozen until someone decides",
            )
        return lineage.problems


# Of a save that a newer epoch overtook. The epoch's own word is what matters: the takeover may have taken this very save.
_FATES = {
    "counts": "checkpoint {} counts all the same: the job goes on from it there",
    "orphan": "checkpoint {} does not count: the job goes on from an older one there",
    "open": "whether checkpoint {} counts is for that epoch to say, which has not named yet what it goes on from",
}


def content_digest(streams: list[Stream], files: tuple[SourceFile, ...], key: JobKey) -> str:
    """Keyed digest of what a save holds: every stream's name, size and digest, every captured file's place."""
    rows = sorted([stream.area, stream.name, stream.size, stream.digest] for stream in streams)
    places = sorted([f.copy, f.path, f.mode & 0o777, f.uid, f.gid] for f in files)
    return key.digest(canonical({"streams": rows, "files": places}))


def _file_entry(entry: SourceFile, stream: Stream) -> FileEntry:
    try:
        return FileEntry(
            entry.path,
            entry.size,
            entry.mode & 0o777,
            entry.uid,
            entry.gid,
            entry.copy,
            entry.origin,
            stream.digest,
        )
    except ValueError as error:
        raise StoreError(f"captured file: {error}; the save is given up") from None

"""Bringing a checkpoint from the store to a directory, authenticated before anything is opened.

The manifest is authenticated first, then the index, then every frame and every stream's digest while it streams to
0600 files. What fails raises DamagedError naming object and reason, and the caller throws the directory away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from backends.clean import clean
from backends.errors import DamagedError, FullError, NotFoundError, StoreError
from backends.ids import CheckpointId
from backends.records.manifest import Manifest
from backends.store.beside import Beside, DigestBeside
from backends.store.fileops import FileOps, RealOps
from backends.store.format.extents import ZERO, Extent, spans
from backends.store.format.index import Frame, Index, Stream, decode_index
from backends.store.format.manifests import load_full, load_manifest
from backends.store.format.packs import FRAME_BYTES, FrameReader, open_frame
from backends.store.port import ObjectStore
from backends.store.sealing import JobKey

Progress = Callable[[int, int], None]  # bytes done, bytes in all
GATHER_BYTES = 1 << 20  # pieces of at least this size are passed on as they are
_ZEROS = bytes(1 << 20)


class CheckpointReader:
    """An authenticated checkpoint: its manifest, its index, and the verified bytes of its streams."""

    def __init__(
        self,
        store: ObjectStore,
        uid: str,
        checkpoint: CheckpointId,
        key: JobKey,
        manifest: Manifest | None = None,
    ) -> None:
        """Without `manifest` the checkpoint's own is read, or its synthetic full where it has a parent and one."""
        self.manifest = manifest or _manifest(store, uid, checkpoint, key)
        self._key = key
        keys = {}
        for text, wrapped in self.manifest.keys.items():
            owner = CheckpointId.parse(text)
            keys[owner] = key.unwrap(wrapped, uid, owner)
        parts = [
            open_frame(
                store, uid, frame.pack, Frame(0, frame.offset, frame.length, frame.number, frame.plain), keys
            )
            for frame in self.manifest.index
        ]
        encoded = b"".join(parts)
        if key.digest(encoded) != self.manifest.index_digest:
            raise DamagedError(
                f"extent index of checkpoint {checkpoint}: its digest differs from the manifest's"
            )
        parent = None if self.manifest.parent is None else CheckpointId.parse(self.manifest.parent)
        self.index: Index = decode_index(encoded, uid, checkpoint, parent)
        self._check_against_manifest()
        self.frames = FrameReader(store, self.index, keys)

    @classmethod
    def by_parent(
        cls, store: ObjectStore, uid: str, checkpoint: CheckpointId, key: JobKey
    ) -> CheckpointReader | None:
        """The same bytes as they were saved, with the parent's, where a synthetic full stands; None where none does.

        For readers that found the full damaged. Raises what the constructor raises.
        """
        found = load_manifest(store, uid, checkpoint, key)
        if found.parent is None or load_full(store, uid, found, key) is None:
            return None
        return cls(store, uid, checkpoint, key, found)

    def _check_against_manifest(self) -> None:
        """The index and the manifest must speak of the same packs and files."""
        sizes = {entry.name: entry.size for entry in self.manifest.packs}
        own = str(self.manifest.id)
        for pack in self.index.packs:
            if pack.name.split("/")[1] == own and sizes.get(pack.name) != pack.size:
                raise DamagedError(f"pack {pack.name}: index and manifest disagree about it")
        streams = {stream.name: stream for stream in self.index.streams if stream.area == "files"}
        entries = {entry.copy: entry for entry in self.manifest.files}
        if streams.keys() != entries.keys() or any(
            (streams[name].size, streams[name].digest) != (entry.size, entry.digest)
            for name, entry in entries.items()
        ):
            raise DamagedError(f"checkpoint {own}: index and manifest disagree about its captured files")

    def blocks(self, stream: Stream) -> Iterator[bytes | memoryview]:
        """The bytes of a stream, in order; DamagedError at the end when its digest differs.

        The next frames are opened, and the digest is computed, beside what the caller does with the bytes.
        """
        with Beside("open frames") as opening, Beside("stream digest") as digesting:
            digest = DigestBeside(self._key.hasher(), digesting)
            try:
                for block in _gathered(self._pieces(stream, opening)):
                    digest.update(block)
                    yield block
            finally:
                self.frames.forget()
            if digest.hexdigest() == stream.digest:
                return
        raise DamagedError(
            f"{stream.area}/{clean(stream.name, limit=120)} of checkpoint {self.manifest.id}: its digest differs"
        )

    def _pieces(self, stream: Stream, opening: Beside) -> Iterator[bytes | memoryview]:
        upcoming = (extent.frame for extent in stream.extents if extent.frame != ZERO)
        for extent in stream.extents:
            if stream.size > FRAME_BYTES:
                self.frames.ahead(upcoming, opening)
            yield from self._extent(stream, extent)

    def _extent(self, stream: Stream, extent: Extent) -> Iterator[bytes | memoryview]:
        if extent.frame == ZERO:
            yield from _zeros(extent.length)
            return
        plain = memoryview(self.frames.plain(extent.frame))
        if not stream.zero:
            yield plain[extent.at : extent.at + extent.length]
            return
        size, at = stream.page_size, extent.at
        for zero, pages in spans(stream.zero, extent.offset // size, extent.length // size):
            if zero:
                yield from _zeros(pages * size)
            else:
                yield plain[at : at + pages * size]
                at += pages * size


def _manifest(store: ObjectStore, uid: str, checkpoint: CheckpointId, key: JobKey) -> Manifest:
    found = load_manifest(store, uid, checkpoint, key)
    return found if found.parent is None else load_full(store, uid, found, key) or found


def _gathered(pieces: Iterator[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """The same bytes with small pieces put together: a scattered image comes in runs of a few pages."""
    small: list[bytes | memoryview] = []
    size = 0
    for piece in pieces:
        if len(piece) < GATHER_BYTES:
            small.append(piece)
            size += len(piece)
        if size and (len(piece) >= GATHER_BYTES or size >= GATHER_BYTES):
            yield small[0] if len(small) == 1 else b"".join(small)
            small, size = [], 0
        if len(piece) >= GATHER_BYTES:
            yield piece
    if size:
        yield small[0] if len(small) == 1 else b"".join(small)


def _zeros(length: int) -> Iterator[bytes]:
    for at in range(0, length, len(_ZEROS)):
        yield _ZEROS[: min(len(_ZEROS), length - at)]


def fetch(
    store: ObjectStore,
    uid: str,
    checkpoint: CheckpointId,
    key: JobKey,
    into: Path,
    progress: Progress | None = None,
    *,
    ops: FileOps | None = None,
) -> Manifest:
    """Write a checkpoint's files to `into/images` and `into/files`; return its manifest.

    `into` exists or its parent does; `images` and `files` must not exist yet. Files are 0600, directories 0700;
    modes and owners from the manifest are for whoever rolls files back.

    Raises:
        NotFoundError: no such checkpoint.
        NewerFormatError: made by a newer version.
        DamagedError: naming the object and what is wrong with it; the directory must not be used.
        FullError: the target disk cannot take it.
    """
    reader = _Readers(store, uid, checkpoint, key)
    target = ops if ops is not None else RealOps(into)
    try:
        _write_streams(reader, target, progress or (lambda done, total: None))
    except OSError as error:
        raise FullError(
            f"{into}: checkpoint {checkpoint} cannot be written there: {error.strerror or 'I/O error'}"
        ) from None
    return reader.manifest


class _Readers:
    """A checkpoint's reader, and once its synthetic full proves damaged the one that goes by the parent."""

    def __init__(self, store: ObjectStore, uid: str, checkpoint: CheckpointId, key: JobKey) -> None:
        self._what = (store, uid, checkpoint, key)
        self._tried = False
        try:
            self.now = CheckpointReader(store, uid, checkpoint, key)
        except (DamagedError, NotFoundError) as error:
            self.turn(error)

    @property
    def manifest(self) -> Manifest:
        """The one read by."""
        return self.now.manifest

    def turn(self, error: StoreError) -> None:
        """Go by the parent from now on; raises `error` where that is no other way, or was tried."""
        found = None if self._tried else CheckpointReader.by_parent(*self._what)
        self._tried = True
        if found is None:
            raise error
        self.now = found


def _write_streams(reader: _Readers, target: FileOps, progress: Progress) -> None:
    total = reader.manifest.size_bytes
    made: set[str] = set()
    if target.stat("") is None:
        target.mkdir("")
    for area in ("images", "files"):
        if target.stat(area) is not None:
            raise StoreError(
                f"{area}/ exists already in the directory to fetch into; an empty one is expected"
            )
        _make(target, area, made)
    done = 0
    progress(done, total)
    for area, name in [(stream.area, stream.name) for stream in reader.now.index.streams]:
        path = f"{area}/{name}"
        _make(target, path.rpartition("/")[0], made)
        try:
            done = _write_stream(reader.now, path, target, done, lambda now: progress(now, total))
        except (DamagedError, NotFoundError) as error:
            reader.turn(error)
            target.unlink(path)
            done = _write_stream(reader.now, path, target, done, lambda now: progress(now, total))


def _write_stream(
    reader: CheckpointReader, path: str, target: FileOps, done: int, progress: Callable[[int], None]
) -> int:
    """Write one file; returns the bytes done in all."""
    stream = next((s for s in reader.index.streams if f"{s.area}/{s.name}" == path), None)
    if stream is None:
        raise DamagedError(f"checkpoint {reader.manifest.id}: {clean(path, limit=120)} is not in its index")
    handle = target.create(path)
    try:
        for block in reader.blocks(stream):
            target.write(handle, block)
            done += len(block)
            progress(done)
    finally:
        target.close(handle)
    return done


def _make(target: FileOps, directory: str, made: set[str]) -> None:
    if not directory or directory in made:
        return
    _make(target, directory.rpartition("/")[0], made)
    target.mkdir(directory)
    made.add(directory)

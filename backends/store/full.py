"""A synthetic full save: the same content as a committed incremental one, without its parent.

What the parent's packs hold is read, put into packs of this save, and described by `full.json`, created only once every
stream was read back whole. Nothing of the save that stands is touched. The frames are sealed with the save's own data
key under numbers from a random start, so that no attempt, however many broke off, uses a nonce again.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace

from backends.errors import DamagedError, ExistsError
from backends.ids import CheckpointId, new_nonce
from backends.records.manifest import IndexFrame, Manifest
from backends.store import layout
from backends.store.fetch import CheckpointReader
from backends.store.format.extents import ZERO, Extent, PackedExtents, pack_extents
from backends.store.format.index import Frame, Index, PackRef, Stream, encode_index, stored
from backends.store.format.manifests import load_full, seal_manifest
from backends.store.format.packs import FRAME_BYTES, PackWriter, check_pack, first_packs
from backends.store.port import ObjectStore
from backends.store.sealing import Buffer, JobKey

FIRST_NUMBER = 1 << 62  # frames of the save itself count from 0


class StoppedError(Exception):
    """The next save wants the link."""


def make_full(
    store: ObjectStore, uid: str, checkpoint: CheckpointId, key: JobKey, stop: Callable[[], bool]
) -> Manifest | None:
    """Make a committed incremental save independent of its parent; None when `stop` said so before it was done.

    Returns the full manifest: the one made, the one that stood already, or that of a save that needs none.

    Raises:
        DamagedError: what the parent or the new packs hold is not what it should be; nothing was changed.
        StoreError, UnreachableError, FullError: given up; packs without a manifest are left for retention.
    """
    reader = CheckpointReader(store, uid, checkpoint, key)
    if reader.manifest.parent is None:
        return reader.manifest
    try:
        manifest = _write(store, uid, reader, key, stop)
        for entry in manifest.packs:
            _go_on(stop)
            check_pack(store, uid, entry, key)
        made = CheckpointReader(store, uid, checkpoint, key, manifest)
        for stream in made.index.streams:
            for _ in made.blocks(stream):
                _go_on(stop)
    except StoppedError:
        return None
    name = layout.checkpoint(uid, checkpoint, layout.FULL)
    data = seal_manifest(manifest, key)
    with contextlib.suppress(ExistsError):
        store.create(name, data)
    found = load_full(store, uid, reader.manifest, key)
    if found is None:
        raise DamagedError(
            f"{name}: what stands there is damaged or no full manifest of checkpoint {checkpoint}"
        )
    return found


def _go_on(stop: Callable[[], bool]) -> None:
    if stop():
        raise StoppedError


def _write(
    store: ObjectStore, uid: str, reader: CheckpointReader, key: JobKey, stop: Callable[[], bool]
) -> Manifest:
    """The missing packs and a manifest that names them all."""
    old, identity = reader.manifest, reader.manifest.id
    start = FIRST_NUMBER + secrets.randbits(61)
    data_key = key.unwrap(old.keys[str(identity)], uid, identity)
    writer = PackWriter(store, key, data_key, first_packs(store, uid, identity), start)
    gather = _Gatherer(reader, stop)
    writer.write("packs", gather.pieces())
    index = gather.index(writer)
    encoded = b"".join(encode_index(index))
    first = len(writer.frames)
    writer.write("packs", (encoded[at : at + FRAME_BYTES] for at in range(0, len(encoded), FRAME_BYTES)))
    return replace(
        old,
        nonce=new_nonce(),
        parent=None,
        packs=(*old.packs, *writer.packs),
        index=tuple(
            IndexFrame(writer.packs[f.pack].name, f.offset, f.length, f.number, f.plain)
            for f in writer.frames[first:]
        ),
        index_digest=key.digest(encoded),
        keys={str(identity): old.keys[str(identity)]},
        notes={name: value for name, value in old.notes.items() if name == "page_hash"},
    )


class _Gatherer:
    """Walks the extents of an incremental save and gathers what its parent holds into new frames."""

    def __init__(self, reader: CheckpointReader, stop: Callable[[], bool]) -> None:
        self._reader = reader
        self._stop = stop
        self._old = reader.index
        self._own = f"/{reader.manifest.id}/"
        self._streams: list[Stream] = []
        self._made = 0  # new frames that are full

    def _is_own(self, frame: Frame) -> bool:
        return self._own in self._old.packs[frame.pack].name

    def pieces(self) -> Iterator[Buffer]:
        """New frames; afterwards the streams point to them by their places after the old table."""
        base = len(self._old.frames)
        pending = bytearray()
        for stream in self._old.streams:
            extents = []
            for extent in stream.extents:
                _go_on(self._stop)
                if extent.frame == ZERO or self._is_own(self._old.frames[extent.frame]):
                    extents.append(extent)
                    continue
                size = stored(stream, extent)
                if len(pending) + size > FRAME_BYTES and pending:
                    self._made += 1
                    yield pending
                    pending = bytearray()
                extents.append(_moved(extent, base + self._made, len(pending)))
                plain = memoryview(self._reader.frames.plain(extent.frame))
                pending += plain[extent.at : extent.at + size]
            self._streams.append(replace(stream, extents=PackedExtents(pack_extents(extents))))
        if pending:
            self._made += 1
            yield pending

    def index(self, writer: PackWriter) -> Index:
        """The index of the full save: own frames where they were, then the new ones; none of the parent's."""
        own_packs = {place: pack for place, pack in enumerate(self._old.packs) if self._own in pack.name}
        packs: list[PackRef] = [*own_packs.values(), *writer.refs]
        moved = {place: number for number, place in enumerate(own_packs)}
        frames: list[Frame] = []
        places: dict[int, int] = {}
        for place, frame in enumerate(self._old.frames):
            if self._is_own(frame):
                places[place] = len(frames)
                frames.append(frame._replace(pack=moved[frame.pack]))
        for number, frame in enumerate(writer.frames):
            places[len(self._old.frames) + number] = len(frames)
            frames.append(frame._replace(pack=len(own_packs) + frame.pack))
        streams = tuple(
            replace(
                stream,
                extents=PackedExtents(
                    pack_extents(
                        e if e.frame == ZERO else _moved(e, places[e.frame], e.at) for e in stream.extents
                    )
                ),
            )
            for stream in self._streams
        )
        return Index(self._old.uid, self._old.checkpoint, tuple(packs), tuple(frames), streams)


def _moved(extent: Extent, frame: int, at: int) -> Extent:
    return extent._replace(frame=frame, at=at)

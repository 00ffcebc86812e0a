"""The extent index: where every byte of every stream of a checkpoint lies.

A stream is one image file or one captured file. Readers never walk parents: a stream's extents name packs of this
save or of its committed parent directly. For CRIU's pages files an extent carries the virtual address of its first
page, and the stream names its memory map, so that a later save can reuse pages by (map, address). The layout is in
docs/formats.md; all numbers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from backends.clean import clean
from backends.errors import DamagedError, UsageError
from backends.ids import CheckpointId, check_uid
from backends.records import strict
from backends.records.manifest import check_distinct, check_stream_name
from backends.store import layout
from backends.store.format.extents import EXTENT_BYTES, ZERO, Extent, PackedExtents, pack_extents, zeros_in

MAGIC = b"RPVIDX1\n"
HEADER_LIMIT = 64 << 20
FRAME_LIMIT = 16 << 20  # plaintext bytes of one frame that a reader accepts
_FRAME = struct.Struct("<IIQQII")

Area = Literal["images", "files"]


class Frame(NamedTuple):
    """One sealed frame."""

    pack: int  # place in the index's table of packs
    offset: int  # bytes from the start of the pack
    length: int  # sealed bytes
    number: int  # frame number inside the save that sealed it
    plain: int  # plaintext bytes


class PackRef(NamedTuple):
    """A pack the index points into."""

    name: str  # packs/<e>.<s>/<k> or files/<e>.<s>/<k>
    size: int  # bytes


@dataclass(frozen=True)
class Stream:
    """One file of the checkpoint."""

    area: Area
    name: str  # relative to images/ or files/
    size: int
    digest: str  # keyed BLAKE3-256 of the content, hex
    extents: Sequence[Extent]
    map: str | None = None  # the pagemap file that describes it; None for plain streams
    page_size: int = 0  # bytes; 0 for plain streams
    zero: bytes = b""  # bit per page of the stream: set = a page of zeros that no frame holds; empty: none
    hash: str = "none"  # what `hashes` are: none | blake3-128 (keyed) | xxh3-128 (seeded)
    hashes: bytes = b""  # 16 bytes per page, in stream order


@dataclass(frozen=True)
class Index:
    """The whole index of one checkpoint."""

    uid: str
    checkpoint: CheckpointId
    packs: tuple[PackRef, ...]
    frames: tuple[Frame, ...]
    streams: tuple[Stream, ...]


def encode_index(index: Index) -> Iterable[bytes]:
    """The index as bytes, in pieces."""
    streams = [
        {
            "area": stream.area,
            "name": stream.name,
            "size": stream.size,
            "digest": stream.digest,
            "extents": len(stream.extents),
            "map": stream.map,
            "page_size": stream.page_size,
            "zero_bytes": len(stream.zero),
            "hash": stream.hash,
            "hash_bytes": len(stream.hashes),
        }
        for stream in index.streams
    ]
    header = strict.canonical(
        {
            "format": 1,
            "job_uid": index.uid,
            "checkpoint": str(index.checkpoint),
            "packs": [list(pack) for pack in index.packs],
            "frames": len(index.frames),
            "streams": streams,
        }
    )
    yield MAGIC + len(header).to_bytes(4, "little") + header
    yield b"".join(_FRAME.pack(f.pack, f.length, f.offset, f.number, f.plain, 0) for f in index.frames)
    for stream in index.streams:
        packed = stream.extents
        yield packed.raw if isinstance(packed, PackedExtents) else pack_extents(packed)
        yield stream.zero
        yield stream.hashes


@dataclass(frozen=True)
class _StreamHeader:
    area: Area
    name: str
    size: int
    digest: str
    extents: int
    map: str | None
    page_size: int
    zero_bytes: int
    hash: Literal["none", "blake3-128", "xxh3-128"]
    hash_bytes: int


@dataclass(frozen=True)
class _Header:
    format: int
    job_uid: str
    checkpoint: str
    packs: tuple[tuple[Any, ...], ...]
    frames: int
    streams: tuple[_StreamHeader, ...]


class _Cursor:
    """Takes pieces off a buffer; DamagedError when it ends early."""

    def __init__(self, data: bytes, what: str) -> None:
        self.view = memoryview(data)
        self.what = what

    def take(self, size: int) -> memoryview:
        if not 0 <= size <= len(self.view):
            raise DamagedError(f"{self.what}: {len(self.view)} bytes left, {size} expected")
        piece, self.view = self.view[:size], self.view[size:]
        return piece


def decode_index(data: bytes, uid: str, checkpoint: CheckpointId, parent: CheckpointId | None) -> Index:
    """Read an index and check that it is whole: every stream covered once, every frame inside its pack.

    Raises:
        DamagedError: naming the first thing that is wrong.
    """
    what = f"extent index of checkpoint {checkpoint} of job {uid}"
    cursor = _Cursor(data, what)
    if bytes(cursor.take(len(MAGIC))) != MAGIC:
        raise DamagedError(f"{what}: it does not start with the index's magic; unknown format")
    length = int.from_bytes(cursor.take(4), "little")
    document = strict.loads(bytes(cursor.take(length)), what=what, limit=HEADER_LIMIT)
    header = strict.read(_Header, document, what=what)
    if (header.format, header.job_uid, header.checkpoint) != (1, uid, str(checkpoint)):
        raise DamagedError(f"{what}: it belongs to format {header.format}, {header.checkpoint}")
    packs = tuple(_pack_ref(row, what) for row in header.packs)
    frames = tuple(
        Frame(pack, offset, size, number, plain)
        for pack, size, offset, number, plain, _ in _FRAME.iter_unpack(
            cursor.take(header.frames * _FRAME.size)
        )
    )
    streams = tuple(_stream(entry, cursor) for entry in header.streams)
    if cursor.view:
        raise DamagedError(f"{what}: {len(cursor.view)} bytes too many")
    index = Index(uid, checkpoint, packs, frames, streams)
    try:
        _check(index, {checkpoint} | ({parent} if parent else set()))
    except (ValueError, UsageError) as error:
        raise DamagedError(f"{what}: {error}") from None
    return index


def _pack_ref(row: tuple[Any, ...], what: str) -> PackRef:
    if len(row) != 2 or not isinstance(row[0], str) or type(row[1]) is not int:
        raise DamagedError(f"{what}: an entry of the pack table is not [name, size]")
    return PackRef(row[0], row[1])


def _stream(entry: _StreamHeader, cursor: _Cursor) -> Stream:
    extents = PackedExtents(cursor.take(entry.extents * EXTENT_BYTES))
    zero = bytes(cursor.take(entry.zero_bytes))
    hashes = bytes(cursor.take(entry.hash_bytes))
    return Stream(
        entry.area, entry.name, entry.size, entry.digest, extents, entry.map, entry.page_size, zero, entry.hash, hashes
    )  # fmt: skip


def _check(index: Index, owners: set[CheckpointId]) -> None:
    check_uid(index.uid)
    for pack in index.packs:
        parsed = layout.parse_pack(pack.name)
        if parsed is None or parsed[1] not in owners or pack.size < 0:
            raise ValueError(f"pack {clean(pack.name, limit=80)!r} is neither this save's nor its parent's")
    for place, frame in enumerate(index.frames):
        if frame.pack >= len(index.packs) or frame.offset + frame.length > index.packs[frame.pack].size:
            raise ValueError(f"frame {place} lies outside its pack")
        if not frame.plain <= FRAME_LIMIT or frame.length > 2 * FRAME_LIMIT:
            raise ValueError(f"frame {place} holds {frame.plain} bytes, at most {FRAME_LIMIT} are read")
    for area in ("images", "files"):
        check_distinct([stream.name for stream in index.streams if stream.area == area])
    for stream in index.streams:
        check_stream_name(stream.name)
        _check_stream(stream, index.frames)


def _check_stream(stream: Stream, frames: tuple[Frame, ...]) -> None:
    name = f"stream {stream.name!r}"
    size = stream.page_size
    if (
        size < 0
        or (size and (size & (size - 1) or stream.size % size))
        or (size == 0) != (stream.map is None)
    ):
        raise ValueError(f"{name}: page size {size} does not fit")
    pages = stream.size // size if size else 0
    if stream.zero and len(stream.zero) != (pages + 7) // 8:
        raise ValueError(f"{name}: the bitmap of zero pages has the wrong length")
    if len(stream.hashes) != (0 if stream.hash == "none" else pages * 16):
        raise ValueError(f"{name}: the page hashes have the wrong length")
    end = 0
    for extent in stream.extents:
        if extent.offset != end or extent.length == 0:
            raise ValueError(f"{name}: extents leave a gap or overlap at byte {end}")
        if size and (extent.offset % size or extent.length % size or extent.vaddr % size):
            raise ValueError(f"{name}: an extent does not begin and end at a page")
        end += extent.length
        if end > stream.size:
            raise ValueError(f"{name}: extents reach beyond the stream's {stream.size} bytes")
        if extent.frame == ZERO:
            continue
        if extent.frame >= len(frames) or extent.at + stored(stream, extent) > frames[extent.frame].plain:
            raise ValueError(f"{name}: an extent lies outside its frame")
    if end != stream.size:
        raise ValueError(f"{name}: extents cover {end} of {stream.size} bytes")


def stored(stream: Stream, extent: Extent) -> int:
    """Bytes of the extent that its frame holds: its length without the pages of zeros."""
    if extent.frame == ZERO:
        return 0
    if not stream.zero:
        return extent.length
    first, count = extent.offset // stream.page_size, extent.length // stream.page_size
    return extent.length - zeros_in(stream.zero, first, count) * stream.page_size

"""Extents of a stream, kept as the 32 bytes each has in the index, and the bitmap of zero pages."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, overload

ZERO = 0xFFFFFFFF  # an extent's frame: no bytes are stored, the content is zeros
_EXTENT = struct.Struct("<QQQII")
EXTENT_BYTES = _EXTENT.size
_SAME = re.compile("0+|1+")
_PIECE = 1 << 16  # pages of a bitmap looked at together


class Extent(NamedTuple):
    """A piece of a stream inside one frame."""

    offset: int  # bytes from the start of the stream
    length: int  # bytes
    vaddr: int  # virtual address of the first page; 0 in plain streams
    frame: int  # place in the index's table of frames, or ZERO
    at: int  # bytes from the start of the frame's plaintext


def pack_extents(extents: Iterable[Extent]) -> bytes:
    """Extents as the index holds them."""
    return b"".join(_EXTENT.pack(*extent) for extent in extents)


class PackedExtents(Sequence[Extent]):
    """Extents read from their packed bytes as they are asked for: a scattered image has one for every few pages."""

    def __init__(self, raw: bytes | bytearray | memoryview) -> None:
        self.raw = bytes(raw)

    def __len__(self) -> int:
        return len(self.raw) // EXTENT_BYTES

    @overload
    def __getitem__(self, place: int) -> Extent: ...
    @overload
    def __getitem__(self, place: slice) -> PackedExtents: ...
    def __getitem__(self, place: int | slice) -> Extent | PackedExtents:
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step != 1:
                raise ValueError("extents are cut in order")
            return PackedExtents(self.raw[start * EXTENT_BYTES : max(start, stop) * EXTENT_BYTES])
        where = place + len(self) if place < 0 else place
        if not 0 <= where < len(self):
            raise IndexError(place)
        return Extent._make(_EXTENT.unpack_from(self.raw, where * EXTENT_BYTES))

    def __iter__(self) -> Iterator[Extent]:
        return map(Extent._make, _EXTENT.iter_unpack(self.raw))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedExtents):
            return self.raw == other.raw
        return tuple(self) == other

    def __hash__(self) -> int:
        return hash(self.raw)


class ExtentWriter:
    """Builds the extents of one pages file in order; pages that go on where the last ones ended share an extent."""

    def __init__(self) -> None:
        self._raw = bytearray()
        self._offset = self._length = self._vaddr = self._frame = self._at = 0
        self._next_at = 0  # where the extent's next stored byte would lie in its frame

    def add(self, length: int, vaddr: int, frame: int, at: int) -> None:
        """Pages at `vaddr` whose bytes all lie in `frame` from `at`."""
        if self._follows(vaddr) and (self._frame, self._next_at) == (frame, at):
            self._length += length
        else:
            self._begin(length, vaddr, frame, at)
        self._next_at = at + length

    def add_zeros(self, length: int, vaddr: int) -> None:
        """Pages of zeros: they need no bytes, so they never cut an extent in two."""
        if self._follows(vaddr):
            self._length += length
        else:
            self._begin(length, vaddr, ZERO, 0)

    def _follows(self, vaddr: int) -> bool:
        return self._length > 0 and self._vaddr + self._length == vaddr

    def _begin(self, length: int, vaddr: int, frame: int, at: int) -> None:
        offset = self._offset + self._length
        self._close()
        self._offset, self._length, self._vaddr, self._frame, self._at = offset, length, vaddr, frame, at

    def _close(self) -> None:
        if self._length:
            self._raw += _EXTENT.pack(self._offset, self._length, self._vaddr, self._frame, self._at)

    def done(self) -> PackedExtents:
        """All of them."""
        self._close()
        self._length = 0
        return PackedExtents(self._raw)


def zeros_in(bitmap: bytes | bytearray, first: int, count: int) -> int:
    """How many of `count` pages from `first` the bitmap marks as zeros."""
    if not bitmap or count <= 0:
        return 0
    bits = int.from_bytes(bitmap[first >> 3 : (first + count + 7) >> 3], "little") >> (first & 7)
    return (bits & ((1 << count) - 1)).bit_count()


def spans(bitmap: bytes | bytearray, first: int, count: int) -> Iterator[tuple[bool, int]]:
    """The pages from `first` as runs of (is zero, pages)."""
    last, pages = False, 0
    for zero, many in _runs(bitmap, first, count) if bitmap else [(False, max(0, count))]:
        if zero != last and pages:
            yield last, pages
            pages = 0
        last, pages = zero, pages + many
    if pages:
        yield last, pages


def _runs(bitmap: bytes | bytearray, first: int, count: int) -> Iterator[tuple[bool, int]]:
    """The runs, cut where a piece of the bitmap ends."""
    for at in range(first, first + count, _PIECE):
        many = min(_PIECE, first + count - at)
        bits = int.from_bytes(bitmap[at >> 3 : (at + many + 7) >> 3], "little") >> (at & 7)
        text = format(bits & ((1 << many) - 1), f"0{many}b")[::-1]  # a digit a page, in order
        for run in _SAME.finditer(text):
            yield run[0][0] == "1", len(run[0])


def mark_zeros(bitmap: bytearray, first: int, count: int) -> None:
    """Mark `count` pages from `first` as zeros."""
    end = (first + count + 7) >> 3
    bits = int.from_bytes(bitmap[first >> 3 : end], "little") | ((1 << count) - 1) << (first & 7)
    bitmap[first >> 3 : end] = bits.to_bytes(end - (first >> 3), "little")

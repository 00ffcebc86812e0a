"""What an incremental save refers to: the committed full save whose pages it may use again.

Pages are found by memory map and virtual address, so that mappings that came, went or moved shift nothing. The
references name the packs of that one save, never older ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from backends.errors import DamagedError
from backends.ids import CheckpointId
from backends.store.format.extents import ZERO, Extent, zeros_in
from backends.store.format.index import Index, Stream
from backends.store.format.table import PageTable, TableStream


class Overlap(NamedTuple):
    """Pages of a run of addresses: where the base has them, if it has."""

    pages: int
    base: int | None  # page of the base's stream


class Place(NamedTuple):
    """Pages that lie one after the other in a frame of the base."""

    pages: int
    frame: int  # place in the base's table of frames
    at: int  # bytes from the start of the frame's plaintext


class BaseStream:
    """The pages of one memory map in the base."""

    def __init__(self, stream: Stream, table: PageTable, place: TableStream) -> None:
        self._stream = stream
        self._table = table
        self._place = place
        runs = sorted(_runs(stream))
        self._starts = [vaddr for vaddr, _, _ in runs]
        self._runs = runs
        self._at, self._last = 0, None if not stream.extents else stream.extents[0]
        size = stream.page_size
        for (one, _, pages), (two, _, _) in pairwise(runs):
            if one + pages * size > two:
                raise ValueError("two runs of a memory map overlap")

    def hashes(self, page: int, count: int) -> bytes:
        """The page hashes of the base."""
        return self._table.hashes(self._place, page, count)

    def block_hashes(self, page: int, count: int) -> list[bytes]:
        """The hashes of `count` blocks from the one that begins at `page`; zeros for one that is not known."""
        return self._table.blocks(self._place, page, count)

    def overlaps(self, vaddr: int, pages: int) -> Iterator[Overlap]:
        """The pages from `vaddr` in order, cut where the base begins or ceases to have them."""
        size = self._stream.page_size
        place = max(0, bisect_right(self._starts, vaddr) - 1)
        while pages:
            start, first, count = self._runs[place] if place < len(self._runs) else (1 << 65, 0, 0)
            end = start + count * size
            if vaddr < start:
                found = Overlap(min(pages, (start - vaddr) // size), None)
            elif vaddr < end:
                found = Overlap(min(pages, (end - vaddr) // size), first + (vaddr - start) // size)
            else:
                place += 1
                continue
            yield found
            vaddr += found.pages * size
            pages -= found.pages

    def places(self, page: int, count: int) -> Iterator[Place]:
        """Where the base's packs hold `count` pages from `page`, none of them zeros."""
        stream, size = self._stream, self._stream.page_size
        while count:
            extent = self._extent(page * size)
            begin = extent.offset // size
            found = min(count, begin + extent.length // size - page)
            if extent.frame == ZERO or found < 1 or zeros_in(stream.zero, page, found):
                raise DamagedError("the page table on this disk does not fit the save it names")
            before = page - begin - zeros_in(stream.zero, begin, page - begin)
            yield Place(found, extent.frame, extent.at + before * size)
            page += found
            count -= found

    def _extent(self, offset: int) -> Extent:
        """The extent that holds this byte of the stream: mostly the last one asked for, or the next."""
        extents, last = self._stream.extents, self._last
        if last is None or not last.offset <= offset < last.offset + last.length:
            follows = last is not None and offset == last.offset + last.length
            self._at = self._at + 1 if follows else bisect_right(extents, offset, key=lambda e: e.offset) - 1
            self._last = last = extents[self._at]
        return last


def _runs(stream: Stream) -> Iterator[tuple[int, int, int]]:
    """The stream's runs of consecutive addresses: (virtual address, first page, pages)."""
    size = stream.page_size
    vaddr = first = pages = 0
    for extent in stream.extents:
        count = extent.length // size
        if pages and vaddr + pages * size == extent.vaddr:
            pages += count
            continue
        if pages:
            yield vaddr, first, pages
        vaddr, first, pages = extent.vaddr, extent.offset // size, count
    if pages:
        yield vaddr, first, pages


@dataclass(frozen=True)
class Base:
    """A committed full save and the hashes of its pages."""

    checkpoint: CheckpointId
    index: Index
    table: PageTable
    wrapped_key: str  # its data key, wrapped by the job key

    def __post_init__(self) -> None:
        own = {stream.map: stream for stream in self.index.streams if stream.map is not None}
        if own.keys() != self.table.streams.keys() or any(
            (own[name].name, own[name].page_size, own[name].size)
            != (found.name, found.page_size, found.pages * found.page_size)
            for name, found in self.table.streams.items()
        ):
            raise DamagedError("the page table on this disk does not fit the save it names")

    def stream(self, map_name: str, page_size: int) -> BaseStream | None:
        """The base's pages of a memory map; None when it has none that can be used."""
        found = self.table.streams.get(map_name)
        if found is None or found.page_size != page_size:
            return None
        stream = next(each for each in self.index.streams if each.map == map_name)
        try:
            return BaseStream(stream, self.table, found)
        except ValueError:
            return None

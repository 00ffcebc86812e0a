"""Cutting a pages file into what must be stored: changed pages in frames, zeros in a bitmap, the rest in the parent.

The file is read once, a window at a time; a page is told by its hash (`pagehash`). Memory is a window and a frame,
whatever the image's size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from backends.store.beside import DigestBeside
from backends.store.format.base import BaseStream
from backends.store.format.extents import ExtentWriter, PackedExtents, mark_zeros
from backends.store.format.hashing import Run, WindowHasher
from backends.store.format.pagehash import PageHash
from backends.store.format.pagemap import Pagemap
from backends.store.format.slots import Slots
from backends.store.format.table import TableWriter
from backends.store.sealing import Buffer

Read = Callable[[int, int], bytes]  # length, offset


class PageCutter:
    """Cuts one pages file; afterwards `extents` and `zero` describe it."""

    def __init__(
        self,
        pagemap: Pagemap,
        page_size: int,
        page_hash: PageHash,
        slots: Slots,
        base: BaseStream | None,
        frame_bytes: int,
    ) -> None:
        self.changed = 0  # pages stored
        self._pagemap = pagemap
        self._size = page_size
        self._hash = page_hash
        self._slots = slots
        self._base = base
        self._frame_bytes = frame_bytes
        self._bitmap = bytearray((pagemap.pages + 7) // 8)
        self._any_zero = False
        self._writer = ExtentWriter()
        self._pending = bytearray()
        self._slot: int | None = None  # of the frame that is being filled
        self._page = 0  # of the stream

    @property
    def zero(self) -> bytes:
        """The bitmap of zero pages; empty when there is none."""
        return bytes(self._bitmap) if self._any_zero else b""

    def done(self) -> PackedExtents:
        """The extents of the whole stream."""
        return self._writer.done()

    def pieces(self, read: Read, digest: DigestBeside, table: TableWriter | None) -> Iterator[Buffer]:
        """The frames to store, in order; `digest` sees every byte, `table` every page's hash.

        Raises:
            ValueError: the file is shorter than its map says.
        """
        total = self._pagemap.pages * self._size
        hashes = WindowHasher(self._hash, self._size, table)
        windows = _Windows(read, total, digest, hashes, self._size, self._frame_bytes)
        for vaddr, pages in self._pagemap.runs:
            address, left = vaddr, pages
            while left:
                count = windows.at_hand(left)
                yield from self._run(windows, address, count)
                address += count * self._size
                left -= count
        if self._pending:
            yield self._flush()

    def _run(self, windows: _Windows, vaddr: int, pages: int) -> Iterator[Buffer]:
        """Pages of one run that lie in the window."""
        overlaps = self._base.overlaps(vaddr, pages) if self._base is not None else ((pages, None),)
        for count, base_page in overlaps:
            base = None if base_page is None else self._base
            data, found = windows.take(count, vaddr, base, base_page or 0)
            done = 0
            for kind, many in found:
                where = vaddr + done * self._size
                if kind == "changed":
                    yield from self._store(data, done, many, where)
                elif kind == "zero":
                    self._zeros(many, where)
                elif base_page is not None:
                    self._refer(base_page + done, many, where)
                self._page += many
                done += many
            vaddr += count * self._size

    def _zeros(self, pages: int, vaddr: int) -> None:
        self._any_zero = True
        mark_zeros(self._bitmap, self._page, pages)
        self._writer.add_zeros(pages * self._size, vaddr)

    def _refer(self, page: int, count: int, vaddr: int) -> None:
        """Pages that the base holds."""
        if self._base is None:
            return
        for found in self._base.places(page, count):
            length = found.pages * self._size
            self._writer.add(length, vaddr, self._slots.parent(found.frame), found.at)
            vaddr += length

    def _store(self, data: memoryview, first: int, pages: int, vaddr: int) -> Iterator[Buffer]:
        """Pages that must be stored."""
        self.changed += pages
        at, end = first * self._size, (first + pages) * self._size
        while at < end:
            if self._slot is None:
                self._slot = self._slots.own()
            room = min(end - at, self._frame_bytes - len(self._pending))
            self._writer.add(room, vaddr, self._slot, len(self._pending))
            piece = data[at : at + room]
            at += room
            vaddr += room
            if room == self._frame_bytes:  # a frame of its own: no copy
                yield self._flush(piece)
                continue
            self._pending += piece
            if len(self._pending) >= self._frame_bytes:
                yield self._flush()

    def _flush(self, whole: memoryview | None = None) -> Buffer:
        """The frame that is full, or `whole` where nothing was pending."""
        if self._slot is not None:
            self._slots.fill(self._slot)
        self._slot = None
        if whole is not None:
            return whole
        frame, self._pending = self._pending, bytearray()
        return frame


class _Windows:
    """Reads a pages file window by window."""

    def __init__(
        self, read: Read, total: int, digest: DigestBeside, hashes: WindowHasher, size: int, window: int
    ) -> None:
        self._read = read
        self._total = total  # bytes of the file
        self._digest = digest
        self._hashes = hashes
        self._size = size
        self._window = window
        self._offset = 0
        self._data = memoryview(b"")
        self._at = 0  # byte of the window

    def at_hand(self, pages: int) -> int:
        """At most `pages`, as many as the window holds; reads the next one when it is used up. ValueError: none."""
        if self._at == len(self._data):
            length = min(self._window, self._total - self._offset)
            data = self._read(length, self._offset)
            if not data or len(data) != length:
                raise ValueError("the pages file is shorter than its map")
            self._offset += length
            self._digest.update(data)
            self._hashes.window(data)
            self._data, self._at = memoryview(data), 0
        return min(pages, (len(self._data) - self._at) // self._size)

    def take(
        self, pages: int, vaddr: int, base: BaseStream | None, base_page: int
    ) -> tuple[memoryview, list[Run]]:
        """The next pages of the window: their bytes, and what became of them."""
        begin, self._at = self._at, self._at + pages * self._size
        return self._data[begin : self._at], self._hashes.take(pages, vaddr, base, base_page)

"""Page hashes of a window of a pages file, by way of blocks: what did not change costs one hash for four pages.

A block is four pages at an address that is a multiple of four; its hash costs a third of theirs, since BLAKE3 takes so
many bytes at once. Blocks are found by address, as pages are, so that mappings which come and go shift none. They only
save work: a block that no table knows, or that a window cuts in two, is hashed page by page.
"""

from __future__ import annotations

from backends.store.format.base import BaseStream
from backends.store.format.table import BLOCK_PAGES, HASH_BYTES, TableWriter
from backends.store.sealing import JobKey

_NONE = bytes(HASH_BYTES)


class WindowHasher:
    """Hashes the pages of one window after the other and hands them to the table."""

    def __init__(self, key: JobKey, page_size: int, table: TableWriter | None) -> None:
        self._key = key
        self._size = page_size
        self._table = table
        self._block = BLOCK_PAGES * page_size  # bytes
        self.zero = key.hashes(bytes(page_size), page_size)[0]  # hash of a page of zeros
        self._zero_block = key.hashes(bytes(self._block), self._block)[0]
        self._data = b""
        self._hashes: list[bytes] = []
        self._blocks: list[bytes] = []  # by the place of their first page, divided by four

    def window(self, data: bytes) -> None:
        """The window that follows."""
        pages = len(data) // self._size
        self._data, self._hashes = data, []
        self._blocks = [_NONE] * -(-pages // BLOCK_PAGES)

    def take(
        self, pages: int, vaddr: int, base: BaseStream | None, base_page: int
    ) -> tuple[list[bytes], bytes]:
        """Hashes of the next pages of the window, which lie from `vaddr` on, and those of the base's pages there.

        `base` is None where the base has none of them.
        """
        first = len(self._hashes)
        old = b"" if base is None else base.hashes(base_page, pages)
        lead = min(pages, -(vaddr // self._size) % BLOCK_PAGES)
        count = (pages - lead) // BLOCK_PAGES
        found = self._single(first, lead)
        begin = first + lead
        blocks = self._key.hashes(self._data, self._block, begin * self._size, count)
        before = [] if base is None else base.block_hashes(base_page + lead, count)
        for number, block in enumerate(blocks):
            at = lead + number * BLOCK_PAGES
            self._blocks[(first + at) // BLOCK_PAGES] = block
            if before and before[number] == block:
                place = at * HASH_BYTES
                found += [
                    old[n : n + HASH_BYTES]
                    for n in range(place, place + BLOCK_PAGES * HASH_BYTES, HASH_BYTES)
                ]
            elif block == self._zero_block:
                found += [self.zero] * BLOCK_PAGES
            else:
                found += self._single(first + at, BLOCK_PAGES)
        found += self._single(first + len(found), pages - len(found))
        self._hashes += found
        if len(self._hashes) * self._size == len(self._data) and self._table is not None:
            self._table.add(b"".join(self._hashes), b"".join(self._blocks))
        return found, old

    def _single(self, first: int, pages: int) -> list[bytes]:
        return self._key.hashes(self._data, self._size, first * self._size, pages)

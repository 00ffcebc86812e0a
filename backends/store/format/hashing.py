"""What became of the pages of a window of a pages file: zeros, the same as in the base, or changed.

Pages are compared by their hashes, and by way of blocks: what did not change costs one hash for four pages. A block is
four pages at an address that is a multiple of four; its hash costs a third of theirs, since BLAKE3 takes so many bytes
at once. Blocks are found by address, as pages are, so that mappings which come and go shift none. They only save work:
a block that no table knows, or that a window cuts in two, is hashed page by page.
"""

from __future__ import annotations

from itertools import groupby
from typing import Literal, NamedTuple

from backends.store.format.base import BaseStream
from backends.store.format.pagehash import PageHash
from backends.store.format.table import BLOCK_PAGES, HASH_BYTES, TableWriter

Kind = Literal["zero", "same", "changed"]


class Run(NamedTuple):
    """Pages one after the other to which the same happened."""

    kind: Kind
    pages: int


class WindowHasher:
    """Hashes the pages of one window after the other and hands them to the table."""

    def __init__(self, page_hash: PageHash, page_size: int, table: TableWriter | None) -> None:
        self._hash = page_hash
        self._size = page_size
        self._table = table
        self._block = BLOCK_PAGES * page_size  # bytes
        self.zero = page_hash.hashes(bytes(page_size), page_size)[0]  # hash of a page of zeros
        self._zero_block = page_hash.hashes(bytes(self._block), self._block)[0]
        self._data = b""
        self._hashes = bytearray()  # of the pages so far
        self._blocks = bytearray()  # by the place of their first page, divided by four; zeros: none
        self._runs: list[Run] = []

    def window(self, data: bytes) -> None:
        """The window that follows."""
        pages = len(data) // self._size
        self._data, self._hashes = data, bytearray()
        self._blocks = bytearray(HASH_BYTES * -(-pages // BLOCK_PAGES))

    def take(self, pages: int, vaddr: int, base: BaseStream | None, base_page: int) -> list[Run]:
        """What became of the next pages of the window, which lie from `vaddr` on.

        `base` is None where the base has none of them; else they lie there from `base_page` on.
        """
        self._runs = []
        first = len(self._hashes) // HASH_BYTES
        old = b"" if base is None else base.hashes(base_page, pages)
        lead = min(pages, -(vaddr // self._size) % BLOCK_PAGES)
        count = (pages - lead) // BLOCK_PAGES
        self._singly(first, lead, old)
        blocks = self._hash.hashes(self._data, self._block, (first + lead) * self._size, count)
        place = HASH_BYTES * ((first + lead) // BLOCK_PAGES)
        self._blocks[place : place + HASH_BYTES * count] = b"".join(blocks)
        before = [] if base is None else base.block_hashes(base_page + lead, count)
        done = lead + count * BLOCK_PAGES
        self._take_blocks(blocks, before, first + lead, old[lead * HASH_BYTES : done * HASH_BYTES])
        self._singly(first + done, pages - done, old[done * HASH_BYTES :])
        if len(self._hashes) // HASH_BYTES * self._size == len(self._data) and self._table is not None:
            self._table.add(bytes(self._hashes), bytes(self._blocks))
        return self._runs

    def _take_blocks(self, blocks: list[bytes], before: list[bytes], first: int, old: bytes) -> None:
        """Whole blocks from page `first` of the window; `before`: the base's, `old`: its pages' hashes."""
        if blocks == before and self.zero not in old:  # nothing changed: the usual case, at no cost a page
            self._hashes += old
            self._add("same", len(blocks) * BLOCK_PAGES)
            return
        one = self._zero_block
        marks: list[Kind] = (
            [
                "same" if a == b else "zero" if a == one else "changed"
                for a, b in zip(blocks, before, strict=True)
            ]
            if before
            else ["zero" if a == one else "changed" for a in blocks]
        )
        page = 0  # from `first`
        for mark, group in groupby(marks):
            pages = BLOCK_PAGES * sum(1 for _ in group)
            known = old[page * HASH_BYTES : (page + pages) * HASH_BYTES]
            if mark == "same":
                self._hashes += known
                if self.zero in known:
                    self._compare(first + page, _split(known), known)
                else:
                    self._add("same", pages)
            elif mark == "zero" and self._is_zero(first + page, pages):
                self._hashes += self.zero * pages
                self._add("zero", pages)
            else:
                self._singly(first + page, pages, known)
            page += pages

    def _singly(self, first: int, pages: int, old: bytes) -> None:
        """Pages from `first` of the window, each hashed; `old`: the base's hashes of as many or more, or none."""
        if pages:
            found = self._hash.hashes(self._data, self._size, first * self._size, pages)
            self._hashes += b"".join(found)
            self._compare(first, found, old[: pages * HASH_BYTES])

    def _compare(self, first: int, found: list[bytes], old: bytes) -> None:
        """The runs of pages whose hashes are `found`."""
        if self.zero not in found:
            if not old:
                self._add("changed", len(found))
                return
            if old == b"".join(found):
                self._add("same", len(found))
                return
        before = _split(old) if old else found
        same: Kind = "same" if old else "changed"
        for number, (one, two) in enumerate(zip(found, before, strict=True)):
            if one == self.zero and self._is_zero(first + number, 1):
                self._add("zero", 1)
            else:
                self._add(same if one == two and one != self.zero else "changed", 1)

    def _is_zero(self, page: int, pages: int) -> bool:
        """Whether so many pages of the window hold zeros: looked at, since no page may be lost to a hash."""
        at, size = page * self._size, pages * self._size
        return self._data.count(0, at, at + size) == size

    def _add(self, kind: Kind, pages: int) -> None:
        if not pages:
            return
        if self._runs and self._runs[-1].kind == kind:
            self._runs[-1] = Run(kind, self._runs[-1].pages + pages)
        else:
            self._runs.append(Run(kind, pages))


def _split(hashes: bytes) -> list[bytes]:
    return [hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES)]

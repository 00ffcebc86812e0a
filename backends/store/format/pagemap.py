"""Which memory lies where in CRIU's `pages-N.img`: a strict reader of `pagemap-*.img`.

The file is two magic numbers and length-prefixed protocol buffers (CRIU's images/pagemap.proto): a head with
`pages_id` = 1, then entries with `vaddr` = 1, `nr_pages` = 2, `in_parent` = 3, `flags` = 4 and, from CRIU 4.1,
a 64-bit `nr_pages` = 5 that replaces field 2. Anything else is refused: the caller then stores plain extents.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

MAGIC = struct.pack("<II", 0x54564319, 0x56084025)  # CRIU's common image magic and that of pagemaps
PE_PARENT = 1
PE_LAZY = 2
PE_PRESENT = 4
ADDRESS_LIMIT = 1 << 64
SMALLEST_PAGE = 4096
_VARINT = 0
_HEAD_FIELDS = {1}
_ENTRY_FIELDS = {1, 2, 3, 4, 5}


class PagemapError(ValueError):
    """Not a pagemap this reader knows."""


@dataclass(frozen=True)
class Pagemap:
    """One memory map: its runs of pages in the order in which they lie in `pages-<pages_id>.img`."""

    pages_id: int
    runs: tuple[tuple[int, int], ...]  # (virtual address, pages)

    @property
    def pages(self) -> int:
        """Pages in all runs."""
        return sum(count for _, count in self.runs)

    def page_size(self, file_bytes: int) -> int:
        """Bytes of a page, from the size of the pages file; PagemapError when the two do not fit together."""
        pages = self.pages
        if pages == 0 or file_bytes % pages:
            raise PagemapError(f"{file_bytes} bytes do not hold {pages} pages")
        size = file_bytes // pages
        if size < SMALLEST_PAGE or size & (size - 1):
            raise PagemapError(f"{size} bytes is no page size")
        if any(vaddr % size or vaddr + count * size > ADDRESS_LIMIT for vaddr, count in self.runs):
            raise PagemapError("a run does not start at a page, or ends beyond the address space")
        return size


def read_pagemap(data: bytes) -> Pagemap:
    """Parse a whole `pagemap-*.img`; PagemapError for anything unknown, short or out of range."""
    if data[:8] != MAGIC:
        raise PagemapError("the magic numbers are not those of a pagemap")
    messages = _messages(data, 8)
    if not messages:
        raise PagemapError("the head is missing")
    head = _fields(messages[0], _HEAD_FIELDS)
    if 1 not in head or head[1] >= 1 << 32:
        raise PagemapError("the head names no pages file")
    runs = []
    for message in messages[1:]:
        run = _run(_fields(message, _ENTRY_FIELDS))
        if run is not None:
            runs.append(run)
    return Pagemap(head[1], tuple(runs))


def _run(entry: dict[int, int]) -> tuple[int, int] | None:
    """(virtual address, pages) of an entry whose pages lie in this pages file; None when they lie elsewhere."""
    if 1 not in entry or 2 not in entry:
        raise PagemapError("an entry lacks its address or length")
    flags = entry.get(4, PE_PRESENT)
    if entry.get(3):
        flags |= PE_PARENT
    if flags & ~(PE_PARENT | PE_LAZY | PE_PRESENT):
        raise PagemapError(f"flags {flags} are unknown")
    if flags & PE_PARENT or not flags & PE_PRESENT:
        return None
    count = entry.get(5, entry[2])
    if not 0 < count < ADDRESS_LIMIT // SMALLEST_PAGE:
        raise PagemapError(f"a run of {count} pages")
    return entry[1], count


def _messages(data: bytes, offset: int) -> list[bytes]:
    found = []
    while offset < len(data):
        if offset + 4 > len(data):
            raise PagemapError("cut short inside a length")
        (size,) = struct.unpack_from("<I", data, offset)
        offset += 4
        if size > 4096 or offset + size > len(data):
            raise PagemapError(f"a message of {size} bytes does not fit")
        found.append(data[offset : offset + size])
        offset += size
    return found


def _fields(message: bytes, known: set[int]) -> dict[int, int]:
    """The variable-length integer fields of a message by number; each at most once, none unknown."""
    fields: dict[int, int] = {}
    offset = 0
    while offset < len(message):
        tag, offset = _varint(message, offset)
        number, wire = tag >> 3, tag & 7
        if wire != _VARINT or number not in known or number in fields:
            raise PagemapError(f"field {number} of wire type {wire} is unknown or repeated")
        fields[number], offset = _varint(message, offset)
    return fields


def _varint(message: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if offset >= len(message) or shift > 63:
            raise PagemapError("a number is cut short or too long")
        byte = message[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if value >= ADDRESS_LIMIT:
        raise PagemapError("a number exceeds 64 bits")
    return value, offset

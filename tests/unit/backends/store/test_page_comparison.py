"""Comparing the pages of a window, by blocks and by either hash: always what comparing page by page would say."""

from __future__ import annotations

from itertools import groupby
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.store.format.base import BaseStream
from backends.store.format.extents import mark_zeros, spans, zeros_in
from backends.store.format.hashing import WindowHasher
from backends.store.format.pagehash import PageHash, PageHashOption
from backends.store.format.table import BLOCK_PAGES, HASH_BYTES
from backends.store.sealing import JobKey
from tests.support.memory import PAGE, page

KEY = JobKey(bytes(32))
HASHES: dict[PageHashOption, PageHash] = {
    "blake3": PageHash.new(KEY, "blake3"),
    "xxh3": PageHash.new(KEY, "xxh3"),
}
PAGES = {mark: page(mark) for mark in range(4)}


class PlainBase:
    """The base's pages of one run, block hashes computed from the pages themselves where their place is known."""

    def __init__(self, pages: list[int], vaddr: int, page_hash: PageHash, known: bool) -> None:
        self._pages, self._first, self._hash, self._known = pages, vaddr // PAGE, page_hash, known

    def hashes(self, at: int, count: int) -> bytes:
        return b"".join(self._hash.hashes(PAGES[mark], PAGE)[0] for mark in self._pages[at : at + count])

    def block_hashes(self, at: int, count: int) -> list[bytes]:
        assert count == 0 or (self._first + at) % BLOCK_PAGES == 0
        blocks = [self._pages[n : n + BLOCK_PAGES] for n in range(at, at + count * BLOCK_PAGES, BLOCK_PAGES)]
        if not self._known:
            return [bytes(HASH_BYTES)] * count
        return [
            self._hash.hashes(b"".join(PAGES[m] for m in block), BLOCK_PAGES * PAGE)[0] for block in blocks
        ]


class Table:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.hashes, self.blocks = b"", b""

    def add(self, hashes: bytes, blocks: bytes) -> None:
        self.hashes += hashes
        self.blocks += blocks


def plain(new: list[int], old: list[int] | None) -> list[tuple[str, int]]:
    """The definition: page by page."""
    kinds = [
        "zero" if mark == 0 else "same" if old is not None and old[n] == mark else "changed"
        for n, mark in enumerate(new)
    ]
    return [(kind, len(list(group))) for kind, group in groupby(kinds)]


@pytest.mark.parametrize("option", ["blake3", "xxh3"])
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
    st.integers(0, 8),
)
def test_pages_are_compared_as_one_by_one(
    option: PageHashOption,
    pairs: list[tuple[int, int]],
    shift: int,
    known: bool,
    mostly_same: bool,
    lead: int,
) -> None:
    page_hash = HASHES[option]
    old = [a for a, _ in pairs]
    new = [a if mostly_same and n % 5 else b for n, (a, b) in enumerate(pairs)]
    vaddr = 0x400000 + shift * PAGE
    lead = min(lead, len(new))  # pages of the window that another run holds, without a base
    table = Table()
    hasher = WindowHasher(page_hash, PAGE, cast(Any, table))
    hasher.window(b"".join(PAGES[mark] for mark in new))
    base = cast(BaseStream, PlainBase(old, vaddr, page_hash, known))
    first = hasher.take(lead, 0x7000 * PAGE, None, 0) if lead else []
    rest = hasher.take(len(new) - lead, vaddr + lead * PAGE, base, lead) if lead < len(new) else []
    assert [tuple(run) for run in first] == (plain(new[:lead], None) if lead else [])
    assert [tuple(run) for run in rest] == (plain(new[lead:], old[lead:]) if lead < len(new) else [])
    assert table.hashes == b"".join(page_hash.hashes(PAGES[mark], PAGE)[0] for mark in new)
    assert len(table.blocks) == HASH_BYTES * -(-len(new) // BLOCK_PAGES)


def test_a_page_that_only_hashes_like_zeros_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PageHash, "hashes", lambda self, data, size, begin=0, count=1: [b"h" * 16] * count)
    hasher = WindowHasher(HASHES["xxh3"], PAGE, None)
    hasher.window(page(1) * 4 + page(0) * 4)
    assert [tuple(run) for run in hasher.take(8, 0x400000, None, 0)] == [("changed", 4), ("zero", 4)]


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.data())
def test_bitmaps_say_what_was_marked(zeros: list[bool], data: st.DataObject) -> None:
    bitmap = bytearray((len(zeros) + 7) // 8)
    at = 0
    for zero, group in groupby(zeros):
        count = len(list(group))
        if zero:
            mark_zeros(bitmap, at, count)
        at += count
    assert [bool(bitmap[n >> 3] >> (n & 7) & 1) for n in range(len(zeros))] == zeros
    first = data.draw(st.integers(0, len(zeros)))
    count = data.draw(st.integers(0, len(zeros) - first))
    piece = zeros[first : first + count]
    assert list(spans(bitmap, first, count)) == [(z, len(list(g))) for z, g in groupby(piece)]
    assert zeros_in(bitmap, first, count) == sum(piece)
    assert list(spans(b"", first, count)) == ([(False, count)] if count else [])


def test_runs_go_on_over_the_pieces_of_a_long_bitmap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.store.format.extents._PIECE", 16)
    bitmap = bytearray(b"\xff" * 5 + b"\x00" * 5 + b"\x0f")
    assert list(spans(bitmap, 3, 83)) == [(True, 37), (False, 40), (True, 4), (False, 2)]


@pytest.mark.parametrize(("name", "seed"), [("xxh3-128", ""), ("blake3-128", "00" * 8), ("md5", "")])
def test_a_hash_that_is_none_is_refused(name: str, seed: str) -> None:
    with pytest.raises(ValueError, match="is no hash of pages"):
        PageHash(KEY, name, seed)

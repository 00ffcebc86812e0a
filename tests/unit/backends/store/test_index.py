"""The extent index: round trips, damage, the parts later versions write."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backends.errors import DamagedError
from backends.ids import CheckpointId
from backends.store.format.extents import ZERO, Extent, spans
from backends.store.format.index import Frame, Index, PackRef, Stream, decode_index, encode_index, stored
from tests.support.store import UID

TWO = CheckpointId(1, 2)
PARENT = CheckpointId(1, 1)
DIGEST = "0" * 64
PAGE = 4096
PLAIN = Stream("images", "core-1.img", 30, DIGEST, (Extent(0, 10, 0, 0, 0), Extent(10, 20, 0, 1, 4)))
PAGES = Stream(
    "images", "pages-1.img", 6 * PAGE, DIGEST,
    (Extent(0, 2 * PAGE, 0x400000, 2, 0), Extent(2 * PAGE, 4 * PAGE, 0x7F0000000000, 2, PAGE)),
    "pagemap-1.img", PAGE, bytes((0b001010,)), "blake3-128", b"h" * 96,
)  # fmt: skip
ZEROS = Stream("files", "sparse", 5000, DIGEST, (Extent(0, 5000, 0, ZERO, 0),))
INDEX = Index(
    UID, TWO, (PackRef("packs/1.2/0", 40000), PackRef("packs/1.1/3", 99)),
    (Frame(0, 0, 27, 0, 10), Frame(1, 50, 49, 9, 32), Frame(0, 27, 5 * PAGE, 1, 4 * PAGE)),
    (PLAIN, PAGES, ZEROS),
)  # fmt: skip


def encoded(index: Index = INDEX) -> bytes:
    return b"".join(encode_index(index))


def test_an_index_with_every_part_comes_back() -> None:
    assert decode_index(encoded(), UID, TWO, PARENT) == INDEX


def test_pages_of_zeros_need_no_bytes_in_a_frame() -> None:
    assert list(spans(PAGES.zero, 0, 6)) == [(False, 1), (True, 1), (False, 1), (True, 1), (False, 2)]
    assert [stored(PAGES, extent) for extent in PAGES.extents] == [PAGE, 3 * PAGE]
    assert stored(ZEROS, ZEROS.extents[0]) == 0


BAD = {
    "gap": replace(PLAIN, extents=(Extent(0, 9, 0, 0, 0), Extent(10, 20, 0, 1, 4))),
    "overlap": replace(PLAIN, extents=(Extent(0, 10, 0, 0, 0), Extent(9, 21, 0, 1, 4))),
    "short": replace(PLAIN, size=31),
    "empty extent": replace(PLAIN, extents=(Extent(0, 0, 0, 0, 0), *PLAIN.extents)),
    "outside its frame": replace(PLAIN, extents=(Extent(0, 10, 0, 0, 1), Extent(10, 20, 0, 1, 4))),
    "no such frame": replace(PLAIN, extents=(Extent(0, 30, 0, 3, 0),)),
    "traversal": replace(PLAIN, name="../core"),
    "page size": replace(PAGES, page_size=PAGE * 3),
    "no map": replace(PAGES, map=None),
    "unaligned": replace(PAGES, extents=(Extent(0, PAGE, 1, 2, 0), Extent(PAGE, 5 * PAGE, 0, 2, 0))),
    "bitmap": replace(PAGES, zero=b"12"),
    "hashes": replace(PAGES, hashes=b"h" * 95),
    "hash kind": replace(PAGES, hash="none"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_stream_that_is_not_whole_is_refused(name: str) -> None:
    with pytest.raises(DamagedError):
        decode_index(encoded(replace(INDEX, streams=(BAD[name],))), UID, TWO, PARENT)


@pytest.mark.parametrize(
    "index",
    [
        replace(INDEX, packs=(PackRef("packs/1.2/0", 20000), INDEX.packs[1])),
        replace(INDEX, packs=(INDEX.packs[0], PackRef("packs/1.0/3", 99))),
        replace(INDEX, packs=(INDEX.packs[0], PackRef("../x", 99))),
        replace(INDEX, frames=(Frame(2, 0, 27, 0, 10), *INDEX.frames[1:])),
        replace(INDEX, frames=(Frame(0, 0, 27, 0, 1 << 31), *INDEX.frames[1:])),
        replace(INDEX, streams=(PLAIN, PLAIN)),
        replace(INDEX, streams=(PLAIN, replace(PLAIN, name="CORE-1.img"))),
        replace(INDEX, checkpoint=PARENT),
        replace(INDEX, uid=UID[::-1]),
    ],
)
def test_tables_that_do_not_fit_are_refused(index: Index) -> None:
    with pytest.raises(DamagedError):
        decode_index(encoded(index), UID, TWO, PARENT)


def test_only_the_committed_parents_packs_may_be_named() -> None:
    with pytest.raises(DamagedError, match="neither this save's nor its parent's"):
        decode_index(encoded(), UID, TWO, None)


@given(st.integers(0, 10_000), st.integers(1, 255), st.booleans())
@example(6689, 1, False)  # an extent that reaches beyond the bitmap of zero pages
def test_damage_is_refused_or_changes_figures_only(place: int, mask: int, cut: bool) -> None:
    data = bytearray(encoded())
    place %= len(data)
    data[place] ^= mask
    try:
        found = decode_index(bytes(data[:place] if cut else data), UID, TWO, PARENT)
    except DamagedError:
        return
    assert not cut
    assert sum(e.length for s in found.streams for e in s.extents) == sum(s.size for s in found.streams)


@given(st.binary(max_size=100))
def test_arbitrary_bytes_are_refused(tail: bytes) -> None:
    for data in (tail, b"RPVIDX1\n" + tail):
        with pytest.raises(DamagedError):
            decode_index(data, UID, TWO, PARENT)


def test_trailing_bytes_are_refused() -> None:
    with pytest.raises(DamagedError, match="too many"):
        decode_index(encoded() + b"x", UID, TWO, PARENT)

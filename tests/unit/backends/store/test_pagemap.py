"""CRIU's pagemap: what is read, and that nothing odd is."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backends.store.format.pagemap import Pagemap, PagemapError, read_pagemap
from tests.support.store import pagemap_image

RUNS = [(0x400000, 3, 4), (0x600000, 1, 6), (0x700000, 9, 1), (0x7FFFFFFFF000, 2, 4), (0x800000, 4, 2)]
PRESENT = ((0x400000, 3), (0x600000, 1), (0x7FFFFFFFF000, 2))


@pytest.mark.parametrize("wide", [True, False])
def test_runs_in_the_pages_file_are_read_in_order(wide: bool) -> None:
    assert read_pagemap(pagemap_image(7, RUNS, wide=wide)) == Pagemap(7, PRESENT)


def test_entries_without_flags_are_present_unless_in_the_parent() -> None:
    head = pagemap_image(1, [])
    plain = b"\x04\x00\x00\x00" + b"\x08\x80\x20" + b"\x10"
    with pytest.raises(PagemapError):
        read_pagemap(head + plain)
    assert read_pagemap(head + b"\x05\x00\x00\x00" + b"\x08\x80\x20\x10\x03").runs == ((0x1000, 3),)
    assert read_pagemap(head + b"\x07\x00\x00\x00" + b"\x08\x80\x20\x10\x03\x18\x01").runs == ()


def test_the_page_size_follows_from_the_file() -> None:
    pagemap = read_pagemap(pagemap_image(7, RUNS))
    assert pagemap.page_size(6 * 4096) == 4096
    for size in (0, 6 * 4095, 6 * 4096 + 1, 6 * 12288, 6 * 2048):
        with pytest.raises(PagemapError):
            pagemap.page_size(size)
    with pytest.raises(PagemapError):
        pagemap.page_size(6 * 2**40)  # the last run would leave the address space, the first is not aligned


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x19\x43\x56\x54",
        pagemap_image(1, [])[:8],
        b"x" + pagemap_image(1, RUNS)[1:],
        pagemap_image(1, RUNS)[:-1],
        pagemap_image(1, RUNS) + b"\x01",
        pagemap_image(1, RUNS) + b"\xff\xff\xff\x7f",
        pagemap_image(1, [(0x1000, 1, 8)]),
        pagemap_image(1, [(0x1000, 0, 4)]),
        pagemap_image(1, [(0x1000, 2**60, 4)]),
        pagemap_image(1, [(2**64, 1, 4)]),
        pagemap_image(2**32, []),
        pagemap_image(1, []) + b"\x02\x00\x00\x00\x08\x01",
        pagemap_image(1, []) + b"\x07\x00\x00\x00\x08\x01\x08\x01\x10\x01\x10",
        pagemap_image(1, []) + b"\x06\x00\x00\x00\x08\x01\x10\x01\x38\x01",
        pagemap_image(1, []) + b"\x06\x00\x00\x00\x0a\x01x\x10\x01\x00",
    ],
)
def test_anything_odd_is_refused(data: bytes) -> None:
    with pytest.raises(PagemapError):
        read_pagemap(data)


@given(st.binary(max_size=200))
@example(b"")
def test_arbitrary_bytes_never_do_worse_than_be_refused(tail: bytes) -> None:
    for data in (tail, pagemap_image(1, [])[:8] + tail, pagemap_image(1, RUNS) + tail):
        try:
            found = read_pagemap(data)
        except PagemapError:
            continue
        assert all(0 <= vaddr < 2**64 and count > 0 for vaddr, count in found.runs)


@given(
    st.lists(st.tuples(st.integers(0, 2**50), st.integers(1, 2**40), st.sampled_from([1, 2, 4, 6]))),
    st.integers(0, 2**32 - 1),
)
def test_what_criu_writes_is_read_back(runs: list[tuple[int, int, int]], pages_id: int) -> None:
    found = read_pagemap(pagemap_image(pages_id, runs))
    assert found == Pagemap(pages_id, tuple((v, n) for v, n, flags in runs if flags & 4))

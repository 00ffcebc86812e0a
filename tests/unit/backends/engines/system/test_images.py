"""Reading what CRIU measured, and whether a dump is whole."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.engines.system.images import DumpStats, missing_parts, parse_stats, tighten

REAL = bytes.fromhex(
    "40591055063309572400" "00000a2208b90110bc6018b31420fb0d28f10930003" "8a909400048005008580860006800" "7000"
)  # fmt: skip


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def stats_file(freezing: int, frozen: int, pages: int) -> bytes:
    entry = b"\x08" + varint(freezing) + b"\x10" + varint(frozen) + b"\x18\x01\x20\x01\x38" + varint(pages)
    outer = b"\x0a" + varint(len(entry)) + entry
    return struct.pack("<III", 0x55105940, 0x57093306, len(outer)) + outer


def test_a_real_file() -> None:
    assert parse_stats(REAL) == DumpStats(0.000185, 0.012348, 1193)


@given(st.integers(0, 1 << 32), st.integers(0, 1 << 32), st.integers(0, 1 << 63))
def test_any_values(freezing: int, frozen: int, pages: int) -> None:
    assert parse_stats(stats_file(freezing, frozen, pages)) == DumpStats(freezing / 1e6, frozen / 1e6, pages)


@given(st.binary(max_size=60), st.integers(0, 60))
def test_garbage_and_cut_files_are_none_and_never_raise(data: bytes, cut: int) -> None:
    assert parse_stats(data) is None or data.startswith(REAL[:4])
    assert parse_stats(REAL[: min(cut, len(REAL) - 1)]) is None
    parse_stats(REAL[:12] + data)


def whole(images: Path) -> None:
    images.mkdir()
    for name in ("inventory", "pstree", "core-1", "mm-1", "pagemap-1", "fdinfo-2", "pages-1"):
        (images / f"{name}.img").write_bytes(b"x" * 10)


def test_each_missing_part_is_named(tmp_path: Path) -> None:
    images = tmp_path / "images"
    assert "inventory.img" in missing_parts(images)
    whole(images)
    assert missing_parts(images) == []
    for path in sorted(images.iterdir()):
        path.rename(tmp_path / "away")
        assert len(missing_parts(images)) == 1
        (tmp_path / "away").rename(path)


def test_images_become_private(tmp_path: Path) -> None:
    images = tmp_path / "images"
    whole(images)
    assert tighten(images) == 70
    assert {path.stat().st_mode & 0o777 for path in images.iterdir()} == {0o600}


def test_a_link_among_the_images_is_not_followed(tmp_path: Path) -> None:
    images = tmp_path / "images"
    whole(images)
    (images / "x.img").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic"):
        tighten(images)

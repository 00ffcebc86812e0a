"""What a finished dump left behind: is it whole, how long did the job stand still, how large is it."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

_SERVICE_MAGIC = 0x55105940
_STATS_MAGIC = 0x57093306
_DUMP_ENTRY, _FREEZING, _FROZEN, _PAGES = 1, 1, 2, 7  # field numbers in CRIU's stats messages
NEEDED = ("inventory.img", "pstree.img")


@dataclass(frozen=True)
class DumpStats:
    """CRIU's own measurements of one dump."""

    freezing_s: float  # bringing all tasks to a stop
    frozen_s: float  # how long they stood still
    pages: int  # memory pages written


def parse_stats(data: bytes) -> DumpStats | None:
    """Read a `stats-dump` file; None for anything that is not one."""
    if len(data) < 12:
        return None
    first, _, size = struct.unpack_from("<III", data)
    if first != _SERVICE_MAGIC or size > len(data) - 12:
        return None
    outer = _fields(data[12 : 12 + size])
    inner = None if outer is None else outer.get(_DUMP_ENTRY)
    entry = _fields(inner) if isinstance(inner, bytes) else None
    if entry is None:
        return None
    values = [entry.get(number, 0) for number in (_FREEZING, _FROZEN, _PAGES)]
    if not all(isinstance(value, int) for value in values):
        return None
    freezing, frozen, pages = (value for value in values if isinstance(value, int))
    return DumpStats(freezing / 1e6, frozen / 1e6, pages)


def _fields(data: bytes) -> dict[int, int | bytes] | None:
    """The top level of a protobuf message: field number → varint or bytes; None when it is malformed."""
    result: dict[int, int | bytes] = {}
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, kind = key >> 3, key & 7
        if position < 0 or kind not in (0, 2):
            return None
        value, position = _varint(data, position)
        if position < 0:
            return None
        if kind == 0:
            result[number] = value
            continue
        if position + value > len(data):
            return None
        result[number] = data[position : position + value]
        position += value
    return result


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A varint and the position after it; position -1 when it does not end inside `data` or is too long."""
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
        shift += 7
    return 0, -1


def missing_parts(images: Path) -> list[str]:
    """Names of what a whole dump must hold and this one does not: the tree, one core and fdinfo a process."""
    names = {entry.name for entry in images.iterdir()} if images.is_dir() else set()
    missing = [name for name in NEEDED if name not in names]
    prefixes = ("core-", "mm-", "pagemap-", "fdinfo-", "pages-")
    return missing + [f"{prefix}*.img" for prefix in prefixes if not any(n.startswith(prefix) for n in names)]


def tighten(images: Path) -> int:
    """Give every image mode 0600 (CRIU makes them 0644) and flush them; returns their size in bytes."""
    total = 0
    for entry in sorted(images.iterdir()):
        handle = os.open(entry, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            os.fchmod(handle, 0o600)
            os.fsync(handle)
            total += os.fstat(handle).st_size
        finally:
            os.close(handle)
    directory = os.open(images, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return total

"""What tells one build of an executable or library from another: its size and its GNU build id."""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path

from backends.records.facts import FileIdentity

_NOTE, _BUILD_ID = 4, 3  # PT_NOTE, NT_GNU_BUILD_ID (elf.h)
_HEADERS_LIMIT = 512  # program headers of one file
_NOTES_LIMIT = 1 << 16  # bytes of one note segment


def identify(path: Path) -> FileIdentity | None:
    """Identity of a regular file (links are followed); None when it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        info = os.fstat(descriptor)
        return FileIdentity(info.st_size, _build_id(descriptor)) if stat.S_ISREG(info.st_mode) else None
    finally:
        os.close(descriptor)


def _build_id(descriptor: int) -> str | None:
    """The build id of an ELF file (layout: elf(5)), hex; None for other or broken files."""
    try:
        return _program_notes(descriptor)
    except (struct.error, OSError, ValueError, OverflowError):
        return None


def _program_notes(descriptor: int) -> str | None:
    head = os.pread(descriptor, 64, 0)
    if head[:4] != b"\x7fELF" or head[4] not in (1, 2):
        return None
    wide = head[4] == 2
    order = ">" if head[5] == 2 else "<"
    start, size, count = (
        struct.unpack_from(f"{order}Q", head, 32) + struct.unpack_from(f"{order}HH", head, 54)
        if wide
        else struct.unpack_from(f"{order}I", head, 28) + struct.unpack_from(f"{order}HH", head, 42)
    )
    for index in range(min(count, _HEADERS_LIMIT)):
        header = os.pread(descriptor, size, start + index * size)
        if struct.unpack_from(f"{order}I", header)[0] != _NOTE:
            continue
        offset, length = (
            (struct.unpack_from(f"{order}Q", header, 8)[0], struct.unpack_from(f"{order}Q", header, 32)[0])
            if wide
            else (
                struct.unpack_from(f"{order}I", header, 4)[0],
                struct.unpack_from(f"{order}I", header, 16)[0],
            )
        )
        found = _in_notes(os.pread(descriptor, min(length, _NOTES_LIMIT), offset), order)
        if found is not None:
            return found
    return None


def _in_notes(notes: bytes, order: str) -> str | None:
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from(f"{order}III", notes, at)
        body = at + 12 + (name_size + 3) // 4 * 4
        if kind == _BUILD_ID and notes[at + 12 : at + 16] == b"GNU\0" and 0 < size <= 64:
            value = notes[body : body + size]
            return value.hex() if len(value) == size else None
        at = body + (size + 3) // 4 * 4
    return None

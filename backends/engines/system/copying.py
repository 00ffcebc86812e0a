"""Copying file contents: by reflink where the file system has it, else inside the kernel; holes stay holes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable
from typing import Literal

_FICLONE = 0x40049409  # ioctl number of a whole-file reflink, from linux/fs.h
_CHUNK_BYTES = 8 << 20

How = Literal["reflink", "copied"]


def copy_contents(source: int, target: int, size: int, check: Callable[[], None] = lambda: None) -> How:
    """Fill the empty file `target` with the first `size` bytes of `source`; OSError when that fails.

    `check` is called every few MiB; what it raises ends the copy.
    """
    if size and reflink(source, target):
        os.ftruncate(target, size)
        return "reflink"
    os.ftruncate(target, size)
    for start, end in data_ranges(source, size):
        _copy_range(source, target, start, end, check)
    return "copied"


def reflink(source: int, target: int) -> bool:
    """Let `target` share the blocks of `source`; False where the file systems cannot."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def data_ranges(source: int, size: int) -> list[tuple[int, int]]:
    """The parts of the first `size` bytes that are no holes, as (start, end)."""
    result: list[tuple[int, int]] = []
    position = 0
    while position < size:
        try:
            start = os.lseek(source, position, os.SEEK_DATA)
            end = os.lseek(source, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                break
            return [(0, size)]
        if start >= size:
            break
        result.append((start, min(end, size)))
        position = end
    return result


def _copy_range(source: int, target: int, start: int, end: int, check: Callable[[], None]) -> None:
    position = start
    while position < end:
        check()
        wanted = min(_CHUNK_BYTES, end - position)
        done = 0
        with contextlib.suppress(OSError):
            done = os.copy_file_range(source, target, wanted, position, position)
        if not done:
            data = os.pread(source, wanted, position)
            done = os.pwrite(target, data, position) if data else 0
        if not done:
            raise OSError(errno.EIO, f"the file ended at {position} bytes, {end} expected")
        position += done

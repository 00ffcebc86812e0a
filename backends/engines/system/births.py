"""When a file was created, which Python does not tell before 3.15: statx(2) through the C library.

A program that writes under a temporary name and renames keeps the file's birth: it is when the writing began.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable

_AT_FDCWD, _AT_SYMLINK_NOFOLLOW = -100, 0x100
_STATX_BTIME = 0x800
_BYTES = 256  # struct statx of linux/stat.h
_MASK_AT, _BTIME_AT = 0, 80  # stx_mask; stx_btime: seconds (8 bytes), nanoseconds (4 bytes)


@functools.cache
def _statx() -> Callable[..., int] | None:
    try:
        function = ctypes.CDLL(None, use_errno=True).statx
    except (OSError, AttributeError):  # no Linux, or a C library before glibc 2.28
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p]
    function.restype = ctypes.c_int
    return function


def birth_ns(path: str) -> int | None:
    """When the file at `path` was created, ns since 1970; None when its file system does not know or it is gone."""
    statx = _statx()
    if statx is None:
        return None
    data = ctypes.create_string_buffer(_BYTES)
    if statx(_AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, data) != 0:
        return None
    if not int.from_bytes(data.raw[_MASK_AT : _MASK_AT + 4], "little") & _STATX_BTIME:
        return None
    at = _BTIME_AT
    seconds = int.from_bytes(data.raw[at : at + 8], "little", signed=True)
    return seconds * 1_000_000_000 + int.from_bytes(data.raw[at + 8 : at + 12], "little")

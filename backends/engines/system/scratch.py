"""Inside a rehearsal's namespaces: no network, and a scratch layer over every directory the job works in.

Standard library only; runs in the namespace's init before the job is brought back. The scratch tree already holds
the captured files; it becomes the upper layer of an overlay, so the node's own files are read but never written.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path
from typing import Any

_MS_PRIVATE, _MS_REC = 1 << 18, 1 << 14
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def enter(plan: dict[str, Any]) -> None:
    """Bring `lo` up and lay the scratch tree over `plan["places"]`; OSError or RuntimeError when that fails."""
    loopback_up()
    libc = ctypes.CDLL(None, use_errno=True)
    _mount(libc, None, "/", None, _MS_REC | _MS_PRIVATE, None)
    layers = [(place, os.open(place, os.O_PATH | os.O_DIRECTORY)) for place in plan["places"]]
    for number, (place, lower) in enumerate(layers):
        _overlay(
            libc, place, lower, Path(plan["tree"]), Path(plan["work"]) / f"{number}", plan.get("user", False)
        )
        os.close(lower)


def loopback_up() -> None:
    """Bring the loopback interface up and let sockets bind addresses that this namespace does not have."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh", b"lo", 0)
        flags = struct.unpack_from("16sh", fcntl.ioctl(control, _SIOCGIFFLAGS, request.ljust(40, b"\0")))[1]
        request = struct.pack("16sh", b"lo", flags | _IFF_UP)
        fcntl.ioctl(control, _SIOCSIFFLAGS, request.ljust(40, b"\0"))
    for name in ("ipv4", "ipv6"):
        with contextlib.suppress(OSError):
            Path(f"/proc/sys/net/{name}/ip_nonlocal_bind").write_text("1", "ascii")


def _overlay(libc: ctypes.CDLL, place: str, lower: int, tree: Path, work: Path, user: bool) -> None:
    upper = tree / place.lstrip("/")
    upper.mkdir(parents=True, exist_ok=True)
    work.mkdir(parents=True, exist_ok=True)
    layers = f"lowerdir=/proc/self/fd/{lower},upperdir={_escape(upper)},workdir={_escape(work)}"
    _mount(libc, "overlay", place, "overlay", 0, layers + (",userxattr" if user else ""))


def _escape(path: Path) -> str:
    text = str(path)
    for char in "\\,:":
        text = text.replace(char, f"\\{char}")
    return text


def _mount(
    libc: ctypes.CDLL, source: str | None, target: str, kind: str | None, flags: int, data: str | None
) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    if libc.mount(*words, ctypes.c_ulong(flags), None if data is None else os.fsencode(data)) != 0:
        code = ctypes.get_errno()
        raise RuntimeError(f"a scratch layer over {target} cannot be mounted: {os.strerror(code)}")


def places_for(wanted: list[str]) -> tuple[list[str], list[str]]:
    """Where overlays go so that all `wanted` directories are covered, and directories that must be made first.

    A missing directory is covered by its nearest existing ancestor; one right under `/` has to be made (empty) since
    `/` itself cannot be covered. Directories below a covered one on the same file system need none of their own.
    """
    chosen: set[str] = set()
    make: set[str] = set()
    for path in wanted:
        ancestor = Path(path)
        while not ancestor.is_dir() and ancestor != ancestor.parent:
            top, ancestor = ancestor, ancestor.parent
            if ancestor == ancestor.parent:
                make.add(str(top))
                ancestor = top
                break
        if str(ancestor) != "/":
            chosen.add(str(ancestor))
    return sorted(path for path in chosen if not _covered(path, chosen)), sorted(make)


def _covered(path: str, chosen: set[str]) -> bool:
    for parent in Path(path).parents:
        if str(parent) in chosen and _device(parent) == _device(Path(path)):
            return True
    return False


def _device(path: Path) -> int | None:
    try:
        return path.stat().st_dev
    except OSError:
        return None

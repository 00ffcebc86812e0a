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
from pathlib import Path, PurePosixPath
from typing import Any, Literal

_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_PRIVATE, _MS_REC = 1, 1 << 5, 1 << 12, 1 << 18, 1 << 14
_KEPT_FLAGS = {
    "nosuid": 2,
    "nodev": 4,
    "noexec": 8,
    "noatime": 1 << 10,
    "nodiratime": 1 << 11,
    "relatime": 1 << 21,
}
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def enter(plan: dict[str, Any]) -> None:
    """Bring `lo` up and lay the scratch tree over `plan["places"]`; OSError or RuntimeError when that fails."""
    loopback_up()
    libc = ctypes.CDLL(None, use_errno=True)
    _mount(libc, None, "/", None, _MS_REC | _MS_PRIVATE, None)
    places, mounts = (
        list(plan["places"]),
        mount_flags(Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")),
    )
    steps = layers(places, list(mounts))
    handles = {path: handle for path, _ in steps if (handle := _handle(path, path in places)) is not None}
    for number, (path, act) in enumerate(steps):
        if path not in handles:
            continue
        if act == "overlay":
            work = Path(plan["work"]) / f"{number}"
            _overlay(libc, path, handles[path], Path(plan["tree"]), work, plan.get("user", False))
            continue
        if act == "bind":
            _mount(libc, f"/proc/self/fd/{handles[path]}", path, None, _MS_BIND | _MS_REC, None)
        _mount(libc, None, path, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | mounts[path], None)
    for handle in handles.values():
        os.close(handle)


def _handle(path: str, needed: bool) -> int | None:
    """A descriptor of what lies at `path` before anything is laid over it; None for a mount we may not look into."""
    try:
        return os.open(path, os.O_PATH | (os.O_DIRECTORY if needed else 0))
    except OSError:
        if needed:
            raise
        return None


def mount_flags(mountinfo: str) -> dict[str, int]:
    """Mount points with the flags that a remount has to keep; odd lines are left out."""
    found = {}
    for line in mountinfo.splitlines():
        words = line.split(" ")
        if len(words) > 5:
            point = words[4]
            for code, char in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
                point = point.replace(code, char)
            found[point] = sum(_KEPT_FLAGS.get(word, 0) for word in words[5].split(","))
    return found


def layers(places: list[str], mounts: list[str]) -> list[tuple[str, Literal["overlay", "bind", "remount"]]]:
    """What to lay where, parents first: a scratch overlay over each place, and the mounts below them once more.

    An overlay hides what is mounted below its place (a Python, a data disk): that is bound there again, read-only,
    since a rehearsal must not write to it. What came along with such a binding is only made read-only.
    """
    steps: dict[str, Literal["overlay", "bind", "remount"]] = {}
    for path in sorted({*places, *mounts}, key=lambda each: PurePosixPath(each).parts):
        over = next((steps[str(up)] for up in PurePosixPath(path).parents if str(up) in steps), None)
        if path in places:
            steps[path] = "overlay"
        elif over is not None:
            steps[path] = "bind" if over == "overlay" else "remount"
    return list(steps.items())


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
    `/` itself cannot be covered. Directories below a covered one on the same mount need none of their own.
    """
    mounts = set(mount_flags(Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")))
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
    return sorted(path for path in chosen if not _covered(path, chosen, mounts)), sorted(make)


def _covered(path: str, chosen: set[str], mounts: set[str]) -> bool:
    """Whether a chosen directory above `path` lies on the same mount."""
    if path in mounts:
        return False
    for parent in map(str, Path(path).parents):
        if parent in chosen:
            return True
        if parent in mounts:
            return False
    return False

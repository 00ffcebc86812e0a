"""The few Linux system calls that Python 3.11 does not offer: namespaces, mounts, process control.

Every function raises OSError naming what was tried. Nothing here decides anything.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19
MS_SHARED = 1 << 20
MNT_DETACH = 2

_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_PR_SET_CHILD_SUBREAPER = 36
_SO_ATTACH_FILTER = 26
_SO_DETACH_FILTER = 27

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move this process into new namespaces (a new PID namespace is for its children only)."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(descriptor: int, flags: int) -> None:
    """Enter the namespace behind a namespace file or a pidfd."""
    _check(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(flags)), "setns")


def mount(
    source: str | Path, target: str | Path, kind: str | None = None, flags: int = 0, data: str = ""
) -> None:
    """Attach a file system, or change how one is attached (the system call of that name)."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    _check(result, f"mount {source} on {target}")


def bind(source: Path, target: Path, *, read_only: bool) -> None:
    """Show `source` at `target`, with the mounts below it; read-only for the top one when asked."""
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        mount("none", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID)


def unmount(target: str | Path, flags: int = MNT_DETACH) -> None:
    """umount2(2); lazily unless told otherwise."""
    _check(_libc.umount2(os.fsencode(target), ctypes.c_int(flags)), f"unmount {target}")


def pivot_root(new: Path) -> None:
    """Make the mount at `new` the root of this mount namespace and drop the old one."""
    os.chdir(new)
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(f"pivot_root is not known on {os.uname().machine}")
    # Old root stacked on the new one ("." twice), then detached: pivot_root(2), NOTES.
    _check(_libc.syscall(ctypes.c_long(number), b".", b"."), f"pivot_root {new}")
    unmount(".")
    os.chdir("/")


def become_subreaper() -> None:
    """Let orphaned descendants be re-parented to this process instead of the machine's init."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(PR_SET_CHILD_SUBREAPER)")


@contextmanager
def inside_network_of(descriptor: int) -> Iterator[None]:
    """Run the body in the network namespace behind `descriptor` (namespace file or pidfd), then come back.

    The namespace belongs to the calling thread; the body must not await. Sockets made in it stay there.
    """
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        setns(descriptor, CLONE_NEWNET)
        try:
            yield
        finally:
            setns(home, CLONE_NEWNET)
    finally:
        os.close(home)


def set_silent(sock: socket.socket, silent: bool) -> None:
    """Make a socket drop every packet that reaches it (a blackhole, no refusal), or hear again.

    A classic socket filter of one instruction, "accept 0 bytes"; on a listening TCP socket it swallows the
    handshake too. Needs no privilege.
    """
    if silent:
        program = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
        packed = struct.pack("HL", 1, ctypes.addressof(program))
        sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, packed)
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
    except FileNotFoundError:
        return  # there was none

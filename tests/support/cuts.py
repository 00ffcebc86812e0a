"""Cuts a process, or all of a practice host, off from a directory: every access fails with ENOTCONN.

That is what a file store says whose server cannot be reached. A program: `python -m tests.support.cuts do|undo PID
PLACE` enters the mount namespace of process PID; `… run PLACE WORD …` runs a command in a namespace of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backends.practice import syscalls
from tests.support.lab import ROOT

PROGRAM = [sys.executable, "-m", "tests.support.cuts"]


def lay(server: int, place: Path) -> None:
    """Lay a FUSE file system over `place` whose server, this process with the descriptor `server`, goes at once."""
    try:
        syscalls.mount("cut", place, "fuse", data=f"fd={server},rootmode=40000,user_id=0,group_id=0")
    finally:
        os.close(server)


@contextmanager
def cut(pid: int, place: Path) -> Iterator[None]:
    """All processes that share the mounts of `pid` are cut off from `place` meanwhile."""
    _call("do", pid, place)
    try:
        yield
    finally:
        _call("undo", pid, place)


def _call(verb: str, pid: int, place: Path) -> None:
    subprocess.run([*PROGRAM, verb, str(pid), str(place)], cwd=ROOT, check=True)


def main(verb: str, *words: str) -> None:
    """One verb in this process, which needs no other threads."""
    if verb == "undo":
        enter(int(words[0]))
        syscalls.unmount(words[1])
        return
    server = os.open(
        "/dev/fuse", os.O_RDWR
    )  # a practice host has no such device: opened before it is entered
    if verb == "run":
        syscalls.unshare(syscalls.CLONE_NEWNS)
        syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
        lay(server, Path(words[0]))
        os.execv(words[1], words[1:])
    enter(int(words[0]))
    lay(server, Path(words[1]))


def enter(pid: int) -> None:
    """Enter the mount namespace of `pid`."""
    with Path(f"/proc/{pid}/ns/mnt").open("rb") as space:
        syscalls.setns(space.fileno(), syscalls.CLONE_NEWNS)


if __name__ == "__main__":
    main(*sys.argv[1:])

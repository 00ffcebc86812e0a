"""Processes that a start or restore left when the guard died in the middle of it."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from backends.engines.port import Process, start_ticks


def by_argument(pattern: str) -> list[int]:
    """Pids with a command-line argument that matches `pattern` whole, this process left out."""
    wanted = re.compile(pattern.encode())
    return [
        pid
        for pid in _pids()
        if pid != os.getpid() and any(wanted.fullmatch(word) for word in _read(pid, "cmdline").split(b"\0"))
    ]


def by_environment(uid: str, epoch: int) -> list[Process]:
    """Session leaders that were started for this job and epoch."""
    marks = {f"REPRIEVE_UID={uid}".encode(), f"REPRIEVE_EPOCH={epoch}".encode()}
    found = []
    for pid in _pids():
        if marks <= set(_read(pid, "environ").split(b"\0")) and _leads_session(pid):
            ticks = start_ticks(pid)
            if ticks is not None:
                found.append(Process(pid, ticks))
    return found


def kill(pids: list[int]) -> None:
    """SIGKILL each; a pid that is gone is fine."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _pids() -> list[int]:
    try:
        return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    except OSError:
        return []


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _leads_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except OSError:
        return False

"""Starting the guard's own processes, detached, and locks that say whether they live."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import backends

LOG_LIMIT = 1 << 20  # bytes; a longer log is set aside when its process starts


def detached(argv: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Run `argv` in a session of its own, all three streams redirected, with this process's import path."""
    if log.exists() and log.stat().st_size > LOG_LIMIT:
        log.replace(log.with_suffix(".old"))
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    inherited = {
        name: value for name, value in os.environ.items() if name != "INVOCATION_ID"
    }  # no unit's process
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=handle,
            cwd="/",
            env={**inherited, "PYTHONPATH": path},
            start_new_session=True,
            close_fds=True,
        )
    finally:
        os.close(handle)


def unmoved() -> None:
    """Outlive terminals and SSH sessions. Handlers, not SIG_IGN: what is ignored stays so in every program started."""
    signal.signal(signal.SIGHUP, lambda number, frame: None)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # CRIU waits for its children


def take_lock(path: Path) -> int | None:
    """An exclusive lock on `path`, held until this process ends; None when another process holds it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    os.ftruncate(handle, 0)
    os.write(handle, f"{os.getpid()} {code_place()}\n".encode())
    return handle


def code_place() -> str:
    """Where the running code lies: another bundle, another place."""
    return str(Path(backends.__file__).parent.parent)


def holder(path: Path) -> tuple[int, str] | None:
    """Process number and code place of the lock's holder; None when nobody holds it."""
    if not is_held(path):
        return None
    number, _, place = path.read_text().strip().partition(" ")
    return (int(number), place) if number.isdigit() else None


def is_held(path: Path) -> bool:
    """Whether a live process holds the lock."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(handle)

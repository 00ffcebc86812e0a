"""A real PostgreSQL server of our own on loopback, in a folder that is removed afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.objects import UnavailableError, free_ports

_PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def _program(name: str) -> str:
    for place in (*_PROGRAMS, Path(shutil.which(name) or "/nowhere").resolve().parent):
        if (place / name).exists():
            return str(place / name)
    raise UnavailableError("PostgreSQL (Debian package postgresql) is not installed")


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of an empty database; durability is switched off, for speed. UnavailableError where there is no server."""
    initdb, control = _program("initdb"), _program("pg_ctl")
    user = pwd.getpwnam("postgres" if _known("postgres") else "nobody") if os.geteuid() == 0 else None
    who: dict[str, Any] = (
        {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    )
    folder = Path(tempfile.mkdtemp(prefix="reprieve-postgres-"))
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    data, (port,) = folder / "data", free_ports(1, paired=False)

    def run(*argv: str) -> None:
        done = subprocess.run(
            argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False, **who
        )
        if done.returncode != 0:
            raise AssertionError(f"{argv[0]}: exit {done.returncode}: {done.stderr[-500:]!r}")

    try:
        run(initdb, "-D", str(data), "-A", "trust", "-N", "--no-locale", "-E", "UTF8", "-U", "reprieve")
        options = (
            f"-c listen_addresses=127.0.0.1 -p {port} -c unix_socket_directories={folder} -c fsync=off "
            f"-c shared_buffers=32MB -c full_page_writes=off"
        )
        run(control, "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql://reprieve@127.0.0.1:{port}/postgres"
        finally:
            run(control, "-D", str(data), "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _known(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True

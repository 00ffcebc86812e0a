"""What this machine can practise with: real hosts in namespaces, or why not, in one plain line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from backends.clean import clean
from backends.errors import ReprieveError
from backends.nodes.closures import criu_closure
from backends.practice.sshd import find_sshd
from backends.xdg import base

_PROBE_S = 20.0


def why_no_namespaces(cache: Path | None = None) -> str | None:
    """Why the namespaces fleet cannot run here, None when it can.

    Looks for root, Linux, namespaces, an SSH server and a CRIU; the last two are fetched into `cache` (the user's
    cache directory by default) when they are not there.
    """
    place = cache or base("CACHE")
    checks: tuple[Callable[[], str | None], ...] = (
        _platform,
        _tools,
        _namespaces,
        lambda: _needs("sshd", lambda: find_sshd(place)),
        lambda: _needs("CRIU", lambda: criu_closure(place)),
    )
    return next((reason for check in checks if (reason := check()) is not None), None)


def _platform() -> str | None:
    if sys.platform != "linux":
        return f"this is {sys.platform}: namespaces and CRIU need Linux"
    if os.geteuid() != 0:
        return "not root: namespaces and CRIU need it"
    return None


def _tools() -> str | None:
    return None if shutil.which("unshare") else "the tool unshare (util-linux) is not on this machine"


def _namespaces() -> str | None:
    """Try what hosts need, in namespaces that end with the trial."""
    from backends.practice.namespaces import run_in_own_namespaces

    argv = run_in_own_namespaces([sys.executable, "-m", "backends.practice.probe"])
    try:
        done = subprocess.run(
            argv, env=daemon_environment(), capture_output=True, timeout=_PROBE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"namespaces cannot be tried here: {clean(error)}"
    if done.returncode == 0:
        return None
    lines = (done.stdout + done.stderr).decode("utf-8", "replace").strip().splitlines()
    return f"no namespaces here: {clean(lines[-1] if lines else f'exit {done.returncode}')}"


def _needs(what: str, find: Callable[[], object]) -> str | None:
    try:
        find()
    except ReprieveError as error:
        return f"no {what}: {error.message}"
    return None


def daemon_environment() -> dict[str, str]:
    """Environment in which `python -m backends.practice…` finds this program, wherever it was started."""
    here = str(Path(__file__).resolve().parents[2])
    kept = os.environ.get("PYTHONPATH")
    path = f"{here}:{kept}" if kept else here
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}

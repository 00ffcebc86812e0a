"""What this machine can practise with: real hosts in namespaces, or why not, in one plain line."""

from __future__ import annotations

import os
import re
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
_CRIU_PACKAGE = re.compile(r"criu_(?:\d+%3a)?(\d+\.\d+[^_-]*)")  # name of the .deb file


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
        lambda: _criu(place),
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
    from backends.practice.birth import run_in_own_namespaces

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


def _criu(cache: Path) -> str | None:
    try:
        packages = criu_closure(cache).packages
    except ReprieveError as error:
        return f"no CRIU: {error.message}"
    version = next((match.group(1) for name in packages if (match := _CRIU_PACKAGE.match(name))), "unknown")
    return why_criu_is_old(version, os.uname().release)


def why_criu_is_old(version: str, kernel: str) -> str | None:
    """Why this CRIU cannot save jobs on this kernel, None when it can as far as versions tell.

    Kernels from 6.13 need CRIU 4.1 (vDSO), kernels from 6.16 need 4.2 (socket options).
    """
    for wanted_kernel, wanted in (((6, 16), (4, 2)), ((6, 13), (4, 1))):
        if _numbers(kernel) >= wanted_kernel and _numbers(version) < wanted:
            needed = ".".join(map(str, wanted))
            return f"CRIU {clean(version, limit=40)} is too old for kernel {clean(kernel, limit=80)}: {needed} or newer is needed"
    return None


def _numbers(text: str) -> tuple[int, int]:
    """The first two numbers of a version; (0, 0) when there are none."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def daemon_environment() -> dict[str, str]:
    """Environment in which `python -m backends.practice…` finds this program, wherever it was started."""
    here = str(Path(__file__).resolve().parents[2])
    kept = os.environ.get("PYTHONPATH")
    path = f"{here}:{kept}" if kept else here
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}

"""What a machine lacks costs one plain line: the practice fleet says it and is a loopback fleet instead."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.cli import MAIN, ROOT, clean_environment
from tests.support.practice import processes_naming, wait_until

pytestmark = pytest.mark.lab
NOT_ROOT = "import os; os.geteuid = lambda: 1000; " + MAIN
OLD = (
    "import pathlib, backends.practice.abilities as a; from backends.nodes.closures import Closure; "
    "a.find_sshd = lambda cache: None; "
    "a.criu_closure = lambda cache: Closure(pathlib.Path('/'), ('criu_3.17.1-2_amd64.deb',)); " + MAIN
)
FRESH_KERNEL = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 13)


def first_lines(
    home: Path, code: str, before: tuple[str, ...] = (), extra: Mapping[str, str] | None = None
) -> tuple[str, list[str]]:
    """`practice up` with `code` as its program: the first line on stdout, and all lines on stderr."""
    child = subprocess.Popen(
        [*before, sys.executable, "-c", code, "practice", "up", "--hosts", "2"],
        cwd=ROOT, env=clean_environment(home, extra), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 130, said
    assert wait_until(lambda: not processes_naming(str(home)))
    return line.rstrip("\n"), said.splitlines()


def check_loopback(line: str, said: list[str], *reasons: str) -> None:
    """One plain line with the reason, the next best fleet, no traceback."""
    assert line.startswith("practice fleet of 2 hosts · loopback: "), (line, said)
    for reason in reasons:
        assert reason in line
    assert not any("Traceback" in text for text in said)


def test_without_root(tmp_path: Path) -> None:
    check_loopback(*first_lines(tmp_path, NOT_ROOT), "not root: namespaces and CRIU need it")


def test_without_the_tools(tmp_path: Path) -> None:
    line, said = first_lines(tmp_path, MAIN, extra={"PATH": "/nowhere"})
    check_loopback(line, said, "the tool unshare (util-linux) is not on this machine")


def test_without_a_way_to_fetch_criu(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "unshare").symlink_to(str(shutil.which("unshare")))
    line, said = first_lines(tmp_path, MAIN, extra={"PATH": str(tools)})
    check_loopback(line, said, "apt-get is not on this machine")


@pytest.mark.skipif(not FRESH_KERNEL, reason="every CRIU is new enough for this kernel")
def test_with_an_old_criu(tmp_path: Path) -> None:
    line, said = first_lines(tmp_path, OLD)
    check_loopback(
        line, said, f"CRIU 3.17.1 is too old for kernel {os.uname().release}", "or newer is needed"
    )


def test_without_a_package_source(tmp_path: Path) -> None:
    hidden = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /etc/apt && exec "$@"', "sh")
    line, said = first_lines(tmp_path, MAIN, hidden)
    check_loopback(line, said, "this machine has no Debian package source")


def test_without_a_network(tmp_path: Path) -> None:
    alone = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
    line, said = first_lines(tmp_path, MAIN, alone)
    check_loopback(line, said, "Debian's packages cannot be reached")


def test_who_asks_for_namespaces_without_root_is_told_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOT_ROOT, "demo", "--headless", "--mode", "namespaces"],
        cwd=ROOT, env=clean_environment(tmp_path), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: no namespaces fleet: not root: namespaces and CRIU need it" in done.stderr
    assert "hint: the loopback fleet needs none of it" in done.stderr

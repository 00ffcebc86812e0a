"""The headless demo without root's powers: the loopback fleet, as this user and as one without rights."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.lab import ROOT, environment
from tests.support.story import check, play

pytestmark = pytest.mark.slow
NOBODY = 65534


def test_the_story_needs_no_root(tmp_path: Path) -> None:
    state = tmp_path / "state"
    environ = {**environment(state), "REPRIEVE_MODE": "loopback"}
    document = play([sys.executable, "-m", "console.cli.main"], state, environ)
    check(document, "loopback", "signal")
    assert document["reason"] == "asked for"


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that a user without rights can reach."""
    with tempfile.TemporaryDirectory(prefix="reprieve-story-") as place:
        os.chown(place, NOBODY, NOBODY)
        yield Path(place)


def test_the_story_runs_for_a_user_without_rights(open_directory: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("not root: this user has no rights already, see the test above")
    argv, packages = python_of_others()
    state = open_directory / "state"
    environ = {**environment(state), **packages, "HOME": str(open_directory), "TMPDIR": str(open_directory)}
    environ["XDG_CACHE_HOME"] = str(open_directory / "cache")
    document = play([*argv, "-m", "console.cli.main"], state, environ, user=NOBODY)
    check(document, "loopback", "signal")
    assert document["reason"].startswith("not root")


def python_of_others() -> tuple[list[str], dict[str, str]]:
    """A Python with our packages that others may run: this one, or the machine's of the same version; else skip."""
    packages = {"PYTHONPATH": sysconfig.get_path("purelib")}
    for program, extra in ((sys.executable, {}), ("/usr/bin/python3", packages)):
        done = subprocess.run(
            [program, "-c", "import sys, asyncssh, console.cli.main; print(sys.version_info[:2])"],
            cwd=ROOT, env={"PATH": os.environ["PATH"], **extra}, capture_output=True, text=True, timeout=60,
            user=NOBODY, group=NOBODY, extra_groups=[], check=False,
        ) if os.access(program, os.X_OK) and may_run(program) else None  # fmt: skip
        if done is not None and done.stdout.strip() == str(sys.version_info[:2]):
            return [program], extra
    pytest.skip(f"no Python with our packages that user {NOBODY} may run")


def may_run(program: str) -> bool:
    """Whether a user without rights gets to the program at all."""
    try:
        subprocess.run(
            [program, "-c", ""], user=NOBODY, group=NOBODY, extra_groups=[], timeout=20, check=False
        )
    except OSError:
        return False
    return True

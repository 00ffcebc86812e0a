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
    program = python_for_others(open_directory)
    state, place = open_directory / "state", str(open_directory)
    environ = {**environment(state), "HOME": place, "TMPDIR": place, "XDG_CACHE_HOME": f"{place}/cache"}
    document = play([str(program), "-m", "console.cli.main"], state, environ, user=NOBODY)
    check(document, "loopback", "signal")
    assert document["reason"].startswith("not root")


def python_for_others(place: Path) -> Path:
    """A Python with our packages that others may run, in a virtual environment under `place`; else skip by name."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for number, program in enumerate((sys.executable, f"/usr/bin/python{version}")):
        made = place / f"venv{number}"
        if not Path(program).exists():
            continue
        subprocess.run([program, "-m", "venv", "--without-pip", made], timeout=60, check=True)
        (packages,) = made.glob("lib/python*/site-packages")
        (packages / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
        if imports(made / "bin" / "python"):
            return made / "bin" / "python"
    pytest.skip(f"no Python {version} with our packages that user {NOBODY} may run")


def imports(program: Path) -> bool:
    """Whether a user without rights gets to the program, and the program to our packages."""
    try:
        done = subprocess.run(
            [program, "-c", "import asyncssh, numpy, console.cli.main"], cwd=ROOT, capture_output=True, timeout=60,
            user=NOBODY, group=NOBODY, extra_groups=[], check=False,
        )  # fmt: skip
    except OSError:
        return False
    return done.returncode == 0

"""Real containers: the contract suite on runc and crun, each in namespaces of its own with a `cgroup2` mount."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.engines import criu_or_skip
from tests.support.oci import runtime_or_skip

pytestmark = pytest.mark.lab
ROOT = Path(__file__).parents[2]
SCRIPT = 'mount --make-rprivate / && mount -t cgroup2 none /sys/fs/cgroup && exec "$@"'


@pytest.mark.parametrize("name", ["crun", pytest.param("runc", marks=pytest.mark.prove)])
def test_containers(tmp_path: Path, name: str) -> None:
    runtime_or_skip(name, criu_or_skip(), tmp_path / "runtime")
    done = subprocess.run(
        ["unshare", "-m", "-p", "-f", "--mount-proc", "--kill-child", "sh", "-c", SCRIPT, "sh", sys.executable, "-m",
         "pytest", "-q", "-p", "no:xdist", "--basetemp", str(tmp_path / "inside"), "tests/support/oci_inside.py"],
        capture_output=True, text=True, timeout=300, check=False, cwd=ROOT,
        env={**os.environ, "REPRIEVE_TEST_RUNTIME": name},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]
    assert "skipped" not in done.stdout.splitlines()[-1], done.stdout[-2000:]

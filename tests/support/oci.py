"""Containers for tests: a bundle with the contract suite's workload, and the runtimes at hand.

`python -m pytest tests/support/oci_inside.py` runs the suite; it needs a mount namespace with a `cgroup2` mount.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from backends.engines.criu_tool import CriuTool
from backends.engines.oci.engine import OciEngine
from backends.engines.oci.runtime import Runtime
from backends.engines.port import Process, process_of
from backends.errors import ReprieveError
from backends.nodes.closures import crun_closure
from backends.xdg import base
from tests.support.engines import WORKLOAD, RealBench, lines_of, until

SYSTEM_PYTHON = "/usr/bin/python3"


def runtime_or_skip(name: str, criu: CriuTool, place: Path) -> Runtime:
    """The runtime for a lab test, its own state below `place`; the test is skipped by name where there is none."""
    program = shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/bin:/usr/local/sbin")
    if name == "crun":
        program = _crun(place) or program
    program = os.environ.get(f"REPRIEVE_TEST_{name.upper()}", program)
    if program is None:
        pytest.skip(f"no {name} on this machine")
    found = Runtime(name, Path(program), criu, place / "home", place / "state")
    if problem := found.problem():
        pytest.skip(problem)
    if not Path(SYSTEM_PYTHON).exists():
        pytest.skip(f"no {SYSTEM_PYTHON} for the container")
    return found


def _crun(place: Path) -> str | None:
    """A script that starts the crun unpacked into the cache, because a Debian release may have one without CRIU."""
    with suppress(ReprieveError):
        closure = crun_closure(base("CACHE"))
        script = place / "crun"
        place.mkdir(parents=True, exist_ok=True)
        script.write_text(f'#!/bin/sh\nexec {shlex.join(closure.argv("usr/bin/crun"))} "$@"\n')
        script.chmod(0o755)
        return str(script)
    return None


def make_bundle(place: Path, argv: list[str], data: Path) -> None:
    """A bundle whose root file system shows the host's /usr, and `data` as /data."""
    root = place / "rootfs"
    for name in ("usr", "proc", "tmp", "dev", "data"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    spaces = ("pid", "mount", "ipc", "uts")
    config = {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": argv,
            "env": ["PATH=/usr/bin:/bin"],
            "cwd": "/data",
        },
        "root": {"path": "rootfs"},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
            {"destination": "/data", "type": "bind", "source": str(data), "options": ["rbind", "rw"]},
        ],
        "linux": {"namespaces": [{"type": name} for name in spaces]},
    }
    (place / "config.json").write_text(json.dumps(config))


class ContainerBench(RealBench):
    """The contract suite's workload as a container."""

    def __init__(self, engine: OciEngine, place: Path) -> None:
        super().__init__(engine, place / "data")
        self.runtime, self.bundle = engine.runtime, place / "bundle"
        self.name = f"bench-{uuid4().hex[:12]}"  # control groups are the whole machine's
        argv = [SYSTEM_PYTHON, "-S", "-s", "-c", WORKLOAD, "/data", str(self.last), "0.01"]
        make_bundle(self.bundle, argv, self.home)

    def start(self) -> Process:
        """Run it and wait for its first steps."""
        pid_file = self.bundle / "pid"
        argv = [str(self.runtime.program), "--root", str(self.runtime.root), "run", "--detach", "--bundle",
                str(self.bundle), "--pid-file", str(pid_file), self.name]  # fmt: skip
        null = subprocess.DEVNULL
        subprocess.run(argv, stdin=null, stdout=null, stderr=null, check=True)
        until(lambda: len(lines_of(self.log)) > 2, "the workload's first steps")
        process = process_of(int(pid_file.read_text()))
        assert process is not None
        return process

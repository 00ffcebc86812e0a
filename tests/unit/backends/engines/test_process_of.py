"""A process that a restore brought back is recognised, so that it can be examined and protected anew."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backends.engines.port import NSINIT, Process, process_of, start_ticks

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="making PID namespaces needs root")
CHILD = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"


@contextmanager
def namespace(*words: str) -> Iterator[tuple[int, int]]:
    """A process 1 with `words` in its command line; outer pids of it and of its child."""
    command = [
        "unshare",
        "-p",
        "-f",
        "--mount-proc",
        "--kill-child",
        sys.executable,
        "-S",
        "-c",
        CHILD,
        *words,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as outer:
        try:
            assert outer.stdout is not None
            assert int(outer.stdout.readline()) > 1
            init = int(_children(outer.pid))
            yield init, int(_children(init))
        finally:
            outer.kill()


def _children(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")


@ROOT
def test_what_our_init_started_is_pinned_with_it() -> None:
    with namespace("-m", NSINIT) as (init, job):
        ticks = start_ticks(job)
        assert ticks is not None
        assert process_of(job) == Process(job, ticks, init, 2)


@ROOT
def test_a_foreign_container_is_not_ours() -> None:
    with namespace(f"x{NSINIT}") as (_, job):
        found = process_of(job)
        assert found is not None
        assert found.init_pid is None


def test_a_plain_process_has_no_init_and_a_missing_one_is_none() -> None:
    found = process_of(os.getpid())
    assert found is not None
    assert (found.pid, found.init_pid, found.inner_pid) == (os.getpid(), None, None)
    assert process_of(2**30) is None
    assert process_of(-1) is None

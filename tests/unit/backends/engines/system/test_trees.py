"""Stopping, continuing, ending and believing in process trees."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from backends.clock import SystemClock
from backends.engines.launch import identify
from backends.engines.port import Process, alive
from backends.engines.proc import read_stat, tree_pids
from backends.engines.system import trees
from backends.errors import EngineError

CLOCK = SystemClock()
FAMILY = "import os, time\nfor _ in range(3): os.fork()\nwhile True: sum(range(1000)); time.sleep(0.001)"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen([sys.executable, "-S", "-c", FAMILY], start_new_session=True)
    end = CLOCK.monotonic() + 10
    while len(tree_pids(started.pid)) < 8:
        assert CLOCK.monotonic() < end
        CLOCK.sleep(0.01)
    yield started
    if started.poll() is None:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def pinned(child: subprocess.Popen[bytes]) -> Process:
    process = identify(child.pid)
    assert process is not None
    return process


def states(pids: list[int]) -> set[str]:
    return {found.state for pid in pids if (found := read_stat(pid)) is not None}


def test_a_tree_stops_and_goes_on(child: subprocess.Popen[bytes]) -> None:
    process = pinned(child)
    pids = tree_pids(child.pid)
    trees.stop(process, CLOCK)
    assert states(pids) == {"T"}
    with pytest.raises(EngineError, match="came back stopped"):
        trees.prove_life(process, CLOCK, window_s=0.1)
    trees.go_on(process, CLOCK)
    assert "T" not in states(pids)
    trees.prove_life(process, CLOCK)


def test_the_end_leaves_the_exit_status_to_the_parent(child: subprocess.Popen[bytes]) -> None:
    process = pinned(child)
    pids = tree_pids(child.pid)
    trees.end(process, CLOCK)
    assert states(pids) <= {"Z"}
    assert not alive(process)
    assert child.wait(5) == -signal.SIGKILL, "a killed job must not look finished"
    trees.end(process, CLOCK)


def test_a_reused_pid_is_never_touched(child: subprocess.Popen[bytes]) -> None:
    real = pinned(child)
    stranger = Process(real.pid, real.start_ticks - 1)
    trees.stop(stranger, CLOCK)
    trees.end(stranger, CLOCK)
    assert alive(real)
    assert "T" not in states([real.pid])
    assert not trees.send(real.pid, real.start_ticks - 1, signal.SIGKILL)
    assert alive(real)


def test_an_init_pid_that_is_no_init_is_not_killed(child: subprocess.Popen[bytes]) -> None:
    real = pinned(child)
    trees.end(Process(1 << 23, 5, init_pid=os.getpid(), inner_pid=7), CLOCK)
    assert alive(real)


def test_ending_well_is_told_from_ending_badly() -> None:
    for code, well in ((0, True), (3, False)):
        done = subprocess.Popen(
            [sys.executable, "-S", "-c", f"import time; time.sleep(0.1); raise SystemExit({code})"]
        )
        process = identify(done.pid)
        assert process is not None
        os.waitid(os.P_PID, done.pid, os.WEXITED | os.WNOWAIT)
        assert trees.ended_well(process) is well
        with pytest.raises(EngineError, match="ended right after"):
            trees.prove_life(process, CLOCK)
        done.wait()
        assert not trees.ended_well(process)


def test_only_criu_s_dump_counts_as_a_tracer_to_end() -> None:
    assert not trees.is_criu(os.getpid())
    assert not trees.is_criu(1 << 23)


def test_a_sleeper_is_believed_after_the_whole_window() -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    process = identify(sleeper.pid)
    assert process is not None
    begun = CLOCK.monotonic()
    trees.prove_life(process, CLOCK, window_s=0.3)
    assert CLOCK.monotonic() - begun >= 0.3
    sleeper.kill()
    sleeper.wait()

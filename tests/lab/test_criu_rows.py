"""The list of job kinds that were tried by hand with CRIU, and the test that holds each: a refusal of one is a failure.

What worked, or worked with one of CRIU's options, must be saved and brought back with no option named by anybody; what
cannot work is refused beforehand with its reason.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.clock import SystemClock
from backends.engines.criu import CriuEngine
from backends.engines.launch import identify
from backends.engines.port import RestoreRequest, SaveRequest
from backends.records.job import Job
from tests.support.engines import criu_or_skip, end_all, goes_on, lines_of, until
from tests.support.kinds import KINDS, PRELUDE

JOB = Job("kind", "here")
ROOT = Path(__file__).resolve().parents[2]
LAB = "tests/lab/test_criu_kinds.py"

# Kind as it was tried → the test of this folder, or the kind of `tests.support.kinds`, that holds it.
WORKS = {
    "single process": "plain",
    "/dev/null, /dev/urandom, /proc/self/status open": "devices, its own /proc, a child program",
    "children, anonymous shared mapping, pipe, POSIX segment": "eight children on shared memory",
    "segment in /dev/shm, carried": "shared memory segment",
    "multi-threaded numpy": f"{LAB}::test_a_numpy_job_survives",
    "threads": "threads",
    "socketpair, named unix socket": "unix sockets inside",
    "epoll, timerfd, memfd": "epoll, timerfd, eventfd, memfd",
    "child program": "devices, its own /proc, a child program",
    "file in /tmp, mapped file": "shared file mapping",
    "deleted open file, 5 MB": "deleted open file",
    "deleted open file, 50 MB": "large deleted open file",
    "flock, POSIX lock": "locks",
    "inotify watch": "inotify",
    "TCP listener, UDP, AF_PACKET, netlink": "listener and packets",
    "TCP connection, closed at the restore": f"{LAB}::test_a_connection_comes_back_closed_and_the_job_reconnects",
    "TCP connection among its own processes": f"{LAB}::test_connections_among_its_own_processes_go_on",
    "somebody else's terminal": f"{LAB}::test_a_job_on_somebody_elses_terminal_survives",
    "a tmux pane's process": "tests/lab/test_criu_rows.py::test_the_process_of_a_tmux_pane_survives",
    "a whole tmux server": f"{LAB}::test_a_whole_tmux_server_survives",
    "not a session leader": f"{LAB}::test_a_job_that_leads_no_session_survives",
    "a taken process id": f"{LAB}::test_a_young_host_whose_process_ids_are_small",
    "file written over, file appended to": "written file",
}
REFUSED = {
    "io_uring": f"{LAB}::test_what_uses_io_uring_is_refused_with_the_line_to_restart",
    "a CRIU too old for the kernel": "tests/cases/test_compat_cases.py::test_rc_34_criu_too_old_for_the_kernel",
    "files over 1 GiB without reflink": "tests/unit/backends/engines/test_open_files.py::test_a_long_pause_is_refused_with_its_length",
}


@pytest.mark.parametrize("row", [*WORKS, *REFUSED])
def test_each_kind_has_its_test(row: str) -> None:
    name = WORKS.get(row) or REFUSED[row]
    path, found, test = name.partition("::")
    if not found:
        assert name in KINDS, "tests/lab/test_criu_kinds.py::test_it_survives_twice runs each of these"
        return
    assert f"\ndef {test}(" in (ROOT / path).read_text(), f"{row}: {name} is gone"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[CriuEngine]:
    yield CriuEngine(criu_or_skip(), tmp_path / "run", SystemClock())
    end_all(tmp_path)


@pytest.mark.lab
@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux on this machine")
def test_the_process_of_a_tmux_pane_survives(engine: CriuEngine, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    command = shlex.join([sys.executable, "-S", "-s", "-c", PRELUDE + "run()", str(home)])
    tmux = ["tmux", "-f", "/dev/null", "-S", str(tmp_path / "socket")]
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "LANG": "C.UTF-8", "HOME": str(home)}

    def tell(*words: str) -> bytes:
        done = subprocess.run([*tmux, *words], check=True, capture_output=True, env=environment, cwd=home)
        return done.stdout

    tell("new-session", "-d", f"exec {command}")
    try:
        pid = int(tell("display-message", "-p", "#{pane_pid}"))
        until(lambda: len(lines_of(home / "log.txt")) > 2, "the job's first steps")
        process = identify(pid)
        assert process is not None
        verdict = engine.examine(JOB, process)
        assert verdict.answer == "ok", verdict.reasons
        directory = tmp_path / "save"
        directory.mkdir(mode=0o700)
        saved = engine.save(SaveRequest(JOB, process, directory, 20.0, 20.0), lambda: None)
        goes_on(home)
        engine.end(process)
    finally:
        subprocess.run(
            [*tmux, "kill-server"], capture_output=True, env=environment, check=False
        )  # gone with its only pane, or not
    back = engine.restore(
        RestoreRequest(JOB, directory, saved.files, saved.details, 20.0, tmp_path / "aside")
    )
    goes_on(home)
    engine.end(back)

"""Finding criu and running tools that hang, talk too much or die."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.clock import SystemClock
from backends.engines import criu_tool
from backends.engines.criu_tool import (
    DUMP_DONE,
    TAIL_BYTES,
    CriuTool,
    find_criu,
    last_line,
    read_tail,
    run_bounded,
)
from backends.engines.proc import read_stat
from backends.errors import EngineError

CLOCK = SystemClock()


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_the_first_candidate_that_says_a_version(tmp_path: Path) -> None:
    broken = script(tmp_path / "broken", "exit 127")
    silent = script(tmp_path / "silent", "echo hello")
    good = script(tmp_path / "good", "echo 'Version: 4.2.1'; echo GitID: x")
    tool = find_criu([tmp_path / "absent", broken, silent, good])
    assert tool == CriuTool((str(good),), "4.2.1")
    assert tool.command("dump", "-t", "7") == [str(good), "dump", "--no-default-config", "-t", "7"]
    assert find_criu([tmp_path / "absent", broken, silent]) is None


def test_unpacked_packages_run_through_their_own_loader(tmp_path: Path) -> None:
    library = tmp_path / "usr" / "lib" / "x86_64-linux-gnu"
    loader = script(library / "ld-linux-x86-64.so.2", 'test "$1" = --library-path && exec sh "$3" "$4"')
    program = script(tmp_path / "usr" / "sbin" / "criu", "echo Version: 4.3")
    tool = find_criu([tmp_path])
    assert tool is not None
    assert tool.argv == (str(loader), "--library-path", str(library), str(program))
    program.unlink()
    assert find_criu([tmp_path]) is None


def test_a_run_that_ends_by_itself(tmp_path: Path) -> None:
    ended = run_bounded(["sh", "-c", "exit 7"], log=tmp_path / "log", deadline_s=10, clock=CLOCK)
    assert (ended.code, ended.stopped) == (7, None)


def test_a_run_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    ended = run_bounded(
        ["sh", "-c", f"sleep 100 & echo $! > {pids}; wait"], log=tmp_path / "log", deadline_s=0.3, clock=CLOCK
    )
    assert ended.code == -9
    assert ended.stopped == "it took longer than 0.3 s"
    child = int(pids.read_text())
    end = CLOCK.monotonic() + 5
    while (found := read_stat(child)) is not None and found.state != "Z":
        assert CLOCK.monotonic() < end
        CLOCK.sleep(0.01)


def test_a_log_without_end_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(criu_tool, "LOG_LIMIT_BYTES", 100_000)
    log = tmp_path / "log"
    ended = run_bounded(["sh", "-c", f"yes > {log}"], log=log, deadline_s=20, clock=CLOCK)
    assert ended.stopped is not None
    assert "loops" in ended.stopped


def test_a_reason_from_outside_ends_the_run_after_the_preparation(tmp_path: Path) -> None:
    calls: list[str] = []
    ended = run_bounded(
        ["sleep", "100"],
        log=tmp_path / "log",
        deadline_s=20,
        clock=CLOCK,
        tick=lambda: "enough",
        before_kill=lambda: calls.append("before"),
    )
    assert (ended.code, ended.stopped, calls) == (-9, "enough", ["before"])


def test_what_cannot_be_started_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="/absent/criu could not be started"):
        run_bounded(["/absent/criu"], log=tmp_path / "log", deadline_s=1, clock=CLOCK)


def test_the_end_of_a_log_is_clean_and_bounded(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert read_tail(log) == ""
    log.write_bytes(b"a" * 1000 + b"\nlast \x1b[0m\n\n")
    assert len(read_tail(log, 20)) <= 24
    assert read_tail(log, 20).startswith("a")
    assert last_line(read_tail(log)) == "last \\x1b[0m"
    assert last_line("") == ""


def test_the_last_line_of_a_long_log_is_never_cut(tmp_path: Path) -> None:
    """Cleaning makes a text longer: the log of a job with nine processes passed 256 KiB, and no save of it counted."""
    log = tmp_path / "log"
    log.write_bytes(b"\tfd: \x1b\xff\n" * 40_000 + f"(01.06) {DUMP_DONE}\n".encode())
    assert log.stat().st_size > TAIL_BYTES
    assert last_line(read_tail(log)) == f"(01.06) {DUMP_DONE}"

"""Bad days of the criu engine: whatever fails, the job runs on, and nothing half-made stays."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backends.clock import SystemClock
from backends.engines.criu import CriuEngine
from backends.engines.criu_tool import CriuTool
from backends.engines.dump import Dump
from backends.engines.port import Process, RestoreRequest, Saved, SaveRequest, alive
from backends.engines.proc import read_stat, status_fields
from backends.engines.system.trees import detach
from backends.errors import EngineError
from backends.records.job import Job
from tests.support.engines import (
    CLOCK,
    RealBench,
    begin,
    criu_or_skip,
    end_all,
    goes_on,
    lines_of,
    naming,
    until,
)  # fmt: skip
from tests.support.kinds import KINDS

pytestmark = pytest.mark.lab
JOB = Job("bad", "here")
LARGE = "block = os.urandom(1 << 20) * 150\ndef check(step): assert len(block) == 150 << 20\nrun(check)\n"


@pytest.fixture
def tool() -> CriuTool:
    return criu_or_skip()


@pytest.fixture
def engine(tool: CriuTool, tmp_path: Path) -> Iterator[CriuEngine]:
    yield CriuEngine(tool, tmp_path / "run", SystemClock())
    end_all(tmp_path)


def save(engine: CriuEngine, process: Process, directory: Path, **limits: float) -> Saved:
    directory.mkdir(mode=0o700)
    request = SaveRequest(JOB, process, directory, 20.0, 20.0)
    return engine.save(replace(request, **limits), lambda: None)  # type: ignore[arg-type]  # floats only


def request_for(saved: Saved, directory: Path, deadline_s: float = 20.0) -> RestoreRequest:
    return RestoreRequest(
        JOB, directory, saved.files, saved.details, deadline_s, directory.with_suffix(".aside")
    )


def runs_untraced(process: Process, home: Path) -> None:
    until(lambda: status_fields(process.pid).get("TracerPid") == "0", "the job is let go")
    found = read_stat(process.pid)
    assert found is not None
    assert found.state not in "TtZ"
    assert alive(process)
    goes_on(home)


def test_criu_ended_at_random_moments(engine: CriuEngine, tmp_path: Path) -> None:
    """By the engine's own way to end it: outside of the moments in which any end of criu kills the job."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    moments = random.Random(seed)
    home = tmp_path / "home"
    process = begin(home, KINDS["threads"], "-S", "-s")
    failed = 0
    for number in range(15):
        killer = threading.Thread(target=end_criu, args=(process, moments.uniform(0.0, 0.03)))
        killer.start()
        try:
            save(engine, process, tmp_path / f"save{number}")
        except EngineError as error:
            failed += 1
            assert "signal 9" in error.message
        killer.join()
        runs_untraced(process, home)
    assert failed > 0, "nothing hit a dump"
    saved = save(engine, process, tmp_path / "last")
    engine.end(process)
    process = engine.restore(request_for(saved, tmp_path / "last"))
    goes_on(home)
    engine.end(process)


def end_criu(process: Process, after_s: float) -> None:
    end = CLOCK.monotonic() + 3
    while CLOCK.monotonic() < end:
        if status_fields(process.pid).get("TracerPid", "0") != "0":
            CLOCK.sleep(after_s)
            detach(process, CLOCK)
            return
        CLOCK.sleep(0.0005)


GUARD = """
import sys
from pathlib import Path
from backends.clock import SystemClock
from backends.engines.criu import CriuEngine
from backends.engines.launch import identify
from backends.engines.port import SaveRequest
from backends.records.job import Job
from tests.support.engines import criu_tool
tool = criu_tool(); process = identify(int(sys.argv[1])); home = Path(sys.argv[2])
engine = CriuEngine(tool, home / "run", SystemClock())
number = 0
while True:
    number += 1
    directory = home / f"save{number}"; directory.mkdir(mode=0o700)
    engine.save(SaveRequest(Job("bad", "here"), process, directory, 20.0, 20.0), lambda: print("frozen", flush=True))
"""


def test_the_guard_killed_while_the_job_is_frozen(tool: CriuTool, engine: CriuEngine, tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = begin(home, KINDS["threads"], "-S", "-s")
    moments = random.Random(7)
    for number in range(4):
        place = tmp_path / f"guard{number}"
        place.mkdir()
        guard = subprocess.Popen(
            [sys.executable, "-c", GUARD, str(process.pid), str(place)], stdout=subprocess.PIPE, text=True
        )
        assert guard.stdout is not None
        assert guard.stdout.readline() == "frozen\n"
        CLOCK.sleep(moments.uniform(0.0, 0.05))
        guard.kill()
        guard.communicate()
        runs_untraced(process, home)
    save(engine, process, tmp_path / "after")
    engine.end(process)


def test_the_word_of_a_dead_guard_is_a_veto(engine: CriuEngine, tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = begin(home, "run()", "-S", "-s")

    def fail() -> None:
        raise KeyboardInterrupt

    directory = tmp_path / "save"
    directory.mkdir(mode=0o700)
    with pytest.raises(KeyboardInterrupt):
        engine.save(SaveRequest(JOB, process, directory, 20.0, 20.0), fail)
    runs_untraced(process, home)
    engine.end(process)


def test_a_freeze_longer_than_allowed_is_ended(engine: CriuEngine, tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = begin(home, LARGE, "-S", "-s")
    with pytest.raises(EngineError, match=r"max_freeze of 0\.01 s"):
        save(engine, process, tmp_path / "save", max_freeze_s=0.01)
    runs_untraced(process, home)
    with pytest.raises(EngineError, match=r"longer than 0\.02 s"):
        save(engine, process, tmp_path / "again", deadline_s=0.02)
    runs_untraced(process, home)
    engine.end(process)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "small", str(place)], check=True)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_staging_disk_is_refused_before_the_freeze(
    engine: CriuEngine, tmp_path: Path, small_disk: Path
) -> None:
    home = tmp_path / "home"
    process = begin(home, LARGE, "-S", "-s")
    with pytest.raises(EngineError, match=r"100 MiB free, this save needs 2\d\d MiB"):
        save(engine, process, small_disk / "save")
    runs_untraced(process, home)
    engine.end(process)


def test_a_staging_disk_that_fills_up_during_the_save(
    engine: CriuEngine, tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.engines.dump.Dump._check_room", lambda *_: None)
    home = tmp_path / "home"
    process = begin(home, LARGE, "-S", "-s")
    with pytest.raises(EngineError, match="staging disk is full"):
        save(engine, process, small_disk / "save")
    runs_untraced(process, home)
    engine.end(process)


def test_files_too_large_to_copy_in_a_freeze_are_refused_with_the_pause(
    tool: CriuTool, tmp_path: Path
) -> None:
    engine = CriuEngine(tool, tmp_path / "run", SystemClock(), copy_limit_bytes=1 << 20)
    home = tmp_path / "home"
    source = (
        'data = open(home / "data.bin", "wb"); data.write(bytes(range(256)) * 20000); data.flush(); run()'
    )
    process = begin(home, source, "-S", "-s")
    with pytest.raises(EngineError, match=r"adds about \d+ s to each pause"):
        save(engine, process, tmp_path / "save")
    runs_untraced(process, home)
    engine.end(process)


def test_damaged_images_never_run(engine: CriuEngine, tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = begin(home, LARGE.replace("150", "40"), "-S", "-s")
    saved = save(engine, process, tmp_path / "save")
    engine.end(process)
    count = len(lines_of(home / "log.txt"))
    images = tmp_path / "save" / "images"
    pages = next(images.glob("pages-*.img"))
    whole = pages.read_bytes()
    pages.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(EngineError, match=r"previous checkpoint|longer than|without end|incomplete"):
        engine.restore(request_for(saved, tmp_path / "save", deadline_s=3.0))
    pages.write_bytes(whole)
    fdinfo = next(images.glob("fdinfo-*.img"))
    kept = fdinfo.read_bytes()
    fdinfo.unlink()
    with pytest.raises(EngineError):
        engine.restore(request_for(saved, tmp_path / "save"))
    fdinfo.write_bytes(kept)
    core = next(images.glob("core-*.img"))
    kept = core.read_bytes()
    core.write_bytes(b"")
    with pytest.raises(EngineError, match="incomplete"):
        engine.restore(request_for(saved, tmp_path / "save"))
    core.write_bytes(kept)
    assert len(lines_of(home / "log.txt")) == count, "files are as before after failed restores"
    assert naming(tmp_path / "run") == [], "half-made restores stay behind"
    process = engine.restore(request_for(saved, tmp_path / "save"))
    goes_on(home)
    engine.end(process)


def test_a_taken_port_is_named(engine: CriuEngine, tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = begin(home, KINDS["listener and packets"], "-S", "-s")
    saved = save(engine, process, tmp_path / "save")
    with pytest.raises(EngineError, match=r"port [\d, ]+, on which job bad listens, is in use"):
        engine.restore(request_for(saved, tmp_path / "save"))
    runs_untraced(process, home)
    engine.end(process)


def test_a_link_in_the_way_is_never_followed(engine: CriuEngine, tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = begin(home, "run()", "-S", "-s")
    saved = save(engine, process, tmp_path / "save")
    engine.end(process)
    home.rename(tmp_path / "elsewhere")
    home.symlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere" / "log.txt").read_bytes()
    with pytest.raises(EngineError, match="is a link or a file here"):
        engine.restore(request_for(saved, tmp_path / "save"))
    assert (tmp_path / "elsewhere" / "log.txt").read_bytes() == before


def test_the_guard_killed_during_a_restore_leaves_nothing_running(engine: CriuEngine, tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = begin(home, "run()", "-S", "-s")
    saved = save(engine, process, tmp_path / "save")
    engine.end(process)
    pid = os.fork()
    if pid == 0:
        from backends.engines.system import trees

        trees.prove_life = lambda *_: os._exit(0)  # dies between restore and proof
        engine.restore(request_for(saved, tmp_path / "save"))
        os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    until(lambda: not naming(home), "the unclaimed job to end")
    count = len(lines_of(home / "log.txt"))
    CLOCK.sleep(0.2)
    assert len(lines_of(home / "log.txt")) == count


def test_how_a_restored_job_ended_is_known(engine: CriuEngine, tmp_path: Path) -> None:
    bench = RealBench(engine, tmp_path / "home", last=300)
    process = bench.start()
    saved = save(engine, process, tmp_path / "save")
    engine.end(process)
    process = engine.restore(request_for(saved, tmp_path / "save"))
    assert engine.outcome(process) is None
    assert bench.finish()
    until(lambda: not alive(process), "its end")
    until(lambda: engine.outcome(process) == 0, "the record of its end")
    again = CriuEngine(engine.tool, engine.run, SystemClock())
    assert again.outcome(process) == 0


def test_copying_files_stops_at_the_longest_freeze(
    engine: CriuEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Dump._check_freeze

    def slow(self: Dump) -> None:
        CLOCK.sleep(0.3)
        real(self)

    monkeypatch.setattr(Dump, "_check_freeze", slow)
    home = tmp_path / "home"
    process = begin(home, "run()", "-S", "-s")
    with pytest.raises(EngineError, match=r"max_freeze of 0\.25 s"):
        save(engine, process, tmp_path / "save", max_freeze_s=0.25)
    runs_untraced(process, home)
    engine.end(process)

"""Real-world cases of area restore that are about the engine on the node, by id: files, process ids, GPU memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.clock import SystemClock
from backends.engines.criu import CriuEngine
from backends.engines.criu_tool import CriuTool
from backends.engines.cuda import hold
from backends.engines.cuda.engine import CudaEngine
from backends.engines.cuda.tool import Answer
from backends.engines.explain import explain
from backends.engines.port import OpenFile, RestoreRequest, SaveRequest
from backends.engines.system.rollback import INDEX, Rollback
from backends.errors import EngineError
from backends.records.job import Job
from tests.support.cuda import GIB, FakeCuda, gpus
from tests.support.engines import begin, criu_or_skip, end_all, goes_on
from tests.support.kinds import KINDS
from tests.support.nodes_cases import case

JOB = Job("case", "here")
TRIES = 200  # forks of others on this machine take numbers too


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The case's output file as it lies on the target: grown since the save."""
    path = tmp_path / "run" / "out.log"
    path.parent.mkdir()
    path.write_bytes(bytes(number % 251 for number in range(case("RC-14")["input"]["target"][0]["size"])))
    return path


def rolled_back(log: Path, place: Path, root: Path | None = None) -> Rollback:
    """The file put back as the case's save recorded it."""
    size = case("RC-14")["input"]["recorded"][0]["size"]
    copies = place / "copies"
    copies.mkdir()
    (copies / "00000").write_bytes(log.read_bytes()[:size])
    file = OpenFile(str(log), size, 0o644, os.getuid(), os.getgid(), "00000", "open")
    back = Rollback(place / "aside", root=root)
    back.put_back((file,), copies, {})
    return back


def test_rc_14_what_a_file_had_grown_by_is_kept_aside_never_cut_off(log: Path, tmp_path: Path) -> None:
    """Our default is to roll back with the whole file kept; the case allows that only with the tail kept."""
    told = case("RC-14")["input"]
    grown, recorded = log.read_bytes(), told["recorded"][0]["size"]
    back = rolled_back(log, tmp_path)
    assert log.stat().st_size == recorded
    (row,) = json.loads((tmp_path / "aside" / INDEX).read_text())
    assert row["path"] == str(log)
    kept = (tmp_path / "aside" / row["kept_as"]).read_bytes()
    assert kept == grown
    assert len(kept[recorded:]) == 8230
    back.undo()  # what a restore that fails does
    assert log.read_bytes() == grown


def test_rc_14_a_rehearsal_leaves_the_file_as_it_is(log: Path, tmp_path: Path) -> None:
    grown = log.read_bytes()
    rolled_back(log, tmp_path, tmp_path / "scratch")
    assert log.read_bytes() == grown


@pytest.fixture
def bystander() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes of somebody else, ended afterwards."""
    found: list[subprocess.Popen[bytes]] = []
    yield found
    for child in found:
        child.kill()
        child.wait()


def occupy(pid: int, found: list[subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """A process of somebody else with exactly this number."""
    for _ in range(TRIES):
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        child = subprocess.Popen([sys.executable, "-S", "-s", "-c", "import time; time.sleep(600)"])
        found.append(child)
        if child.pid == pid:
            return child
        child.kill()
        child.wait()
    pytest.fail(f"process id {pid} was not to be had in {TRIES} tries")


@pytest.mark.lab
def test_rc_13_a_taken_process_id_matters_to_nobody(
    tmp_path: Path, bystander: list[subprocess.Popen[bytes]]
) -> None:
    assert case("RC-13")["input"]["pid_namespace_available"] is True
    engine = CriuEngine(criu_or_skip(), tmp_path / "run", SystemClock())
    process = begin(tmp_path / "home", KINDS["plain"], "-S", "-s")
    place = tmp_path / "save"
    place.mkdir(mode=0o700)
    saved = engine.save(SaveRequest(JOB, process, place, 20.0, 20.0), lambda: None)
    engine.end(process)
    os.waitpid(process.pid, 0)  # as a zombie it would hold its number itself
    other = occupy(process.inner_pid or process.pid, bystander)
    try:
        back = engine.restore(
            RestoreRequest(JOB, place, saved.files, saved.details, 20.0, tmp_path / "aside")
        )
        assert back.inner_pid == other.pid
        assert back.pid != other.pid
        goes_on(tmp_path / "home")
        assert other.poll() is None, "nobody else's process is touched"
        engine.end(back)
        assert other.poll() is None
    finally:
        end_all(tmp_path)


def refused(told: dict[str, Any], place: Path) -> str:
    """A restore of the case's image where it is too large for the GPU; nothing may be run."""
    free = int(told["free_vram_gib_at_first"] * GIB)
    mark = place / "criu-was-run"
    engine = CudaEngine(
        CriuTool(("touch", str(mark)), "4.2"), FakeCuda(place / "fake").tool(place / "run"), place / "run",
        SystemClock(), devices=lambda: gpus(1, free=free), arch="x86_64",
    )  # fmt: skip
    need = {"pids": [7], "gpus": ["GPU-1"], "models": [gpus(1).gpus[0].model], "device_bytes": 4 * GIB}
    with pytest.raises(EngineError) as caught:
        engine.restore(RestoreRequest(JOB, place, (), {"cuda": need}, 20.0, place / "aside"))
    assert not mark.exists()
    return caught.value.message


def test_rc_31_too_little_gpu_memory_is_seen_before_anything_is_tried(tmp_path: Path) -> None:
    told = case("RC-31")["input"]
    assert told["image_vram_gib"] == 4
    assert refused(told, tmp_path) == "the job needs 4.0 GiB of GPU memory, 0.2 GiB are free here"


def test_rc_31_a_process_whose_restore_failed_is_never_tried_again(tmp_path: Path) -> None:
    first, _, again = case("RC-31")["input"]["steps"]
    child = subprocess.Popen([sys.executable, "-S", "-s", "-c", "import time; time.sleep(600)"])
    try:
        fake = FakeCuda(tmp_path / "fake")
        fake.has_cuda(child.pid)
        with fake.tool(tmp_path / "run").turn(child.pid) as turn:
            assert turn is not None
            hold.take(turn, [child.pid], 1000)
            fake.fail("restore", first["text"], state="failed")
            with pytest.raises(EngineError, match=r"is failed.*not enough free GPU memory"):
                hold.give_back(turn, [child.pid])
            fake.heal()
            with pytest.raises(EngineError, match="is failed"):
                hold.give_back(turn, [child.pid])
        assert [call[0] for call in fake.calls()].count("restore") == 1
    finally:
        child.kill()
        child.wait()
    for cause in (explain(f"Error: {again['text']}").text, Answer(304, again["text"]).cause):
        assert "not root" in cause

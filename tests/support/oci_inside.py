"""The contract suite on a container runtime; run by `tests/lab/test_oci.py` inside of namespaces of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.engines.criu import CriuEngine
from backends.engines.oci.engine import OciEngine
from backends.engines.port import RestoreRequest, SaveRequest
from backends.errors import EngineError, UsageError
from backends.guard.jobs.beginning import attached_process
from backends.records.job import Attach, Job
from tests.contract.engine_suite import EngineSuite
from tests.support.engines import CLOCK, criu_or_skip, end_all, spawn
from tests.support.oci import ContainerBench, runtime_or_skip

NAME = os.environ.get("REPRIEVE_TEST_RUNTIME", "runc")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[ContainerBench]:
    tool = criu_or_skip()
    runtime = runtime_or_skip(NAME, tool, tmp_path / "runtime")
    criu = CriuEngine(tool, tmp_path / "run", CLOCK)
    yield ContainerBench(OciEngine(runtime, criu, tmp_path / "run", CLOCK), tmp_path)
    for container in runtime.containers():
        runtime.remove(container.name)
    end_all(tmp_path)


class TestContainer(EngineSuite):
    """All of it."""


def test_a_process_outside_of_containers_is_none_of_its(bench: ContainerBench) -> None:
    process = spawn(["sleep", "60"])
    verdict = bench.engine.examine(bench.job, process)
    assert verdict.answer == "impossible"
    assert f"is not the first process of a container of {NAME}" in verdict.reasons[0]
    bench.engine.end(process)


def test_a_move_needs_the_root_file_system_and_nothing_else(bench: ContainerBench, tmp_path: Path) -> None:
    """As on another host: neither config.json nor the container's data lie there."""
    process = bench.start()
    place = tmp_path / "save"
    place.mkdir(mode=0o700)
    saved = bench.engine.save(SaveRequest(bench.job, process, place, 20.0, 20.0), lambda: None)
    bench.engine.end(process)
    (bench.bundle / "config.json").unlink()
    (bench.home / "log.txt").unlink()
    wanted = RestoreRequest(bench.job, place, saved.files, saved.details, 20.0, tmp_path / "aside")
    shutil.move(bench.bundle / "rootfs", tmp_path / "elsewhere")
    with pytest.raises(EngineError, match="rootfs is not on this node"):
        bench.engine.restore(wanted)
    shutil.move(tmp_path / "elsewhere", bench.bundle / "rootfs")
    back = bench.engine.restore(wanted)
    bench.advance()
    assert bench.steps() == list(range(1, len(bench.steps()) + 1))
    engines = {NAME: bench.engine}
    named = Job("bench", "here", attach=Attach(container=bench.name))
    assert attached_process(named, engines).pid == back.pid
    with pytest.raises(UsageError, match="has a living container nobody"):
        attached_process(Job("bench", "here", attach=Attach(container="nobody")), engines)
    with pytest.raises(EngineError, match=f"a container {bench.name} lives on this node"):
        bench.engine.restore(wanted)
    bench.engine.end(back)

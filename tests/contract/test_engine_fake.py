"""The contract suite on the fake engine, and the fake's own promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.clock import SystemClock
from backends.engines.port import Process
from backends.errors import EngineError
from backends.fakes.engine import FakeEngine, FakeProgram
from backends.records.job import Job
from tests.contract.engine_suite import EngineSuite, save


class FakeBench:
    def __init__(self, home: Path) -> None:
        self.engine = FakeEngine(SystemClock(), freeze_s=0.001)
        self.job = Job("bench", "here")
        self.output = home / "log.txt"

    def start(self) -> Process:
        process = self.engine.start(FakeProgram(self.output))
        self.advance()
        return process

    def advance(self) -> None:
        for program in self.engine.programs.values():
            program.work(3)

    def steps(self) -> list[int]:
        return [int(line) for line in self.output.read_text().splitlines()]

    def lives(self, process: Process) -> bool:
        return self.engine.alive(process)

    def finish(self) -> bool:
        self.advance()
        return self.steps() == list(range(1, len(self.steps()) + 1))


@pytest.fixture
def bench(tmp_path: Path) -> FakeBench:
    return FakeBench(tmp_path)


class TestFake(EngineSuite):
    """All of it."""


def test_failures_come_as_ordered(bench: FakeBench, tmp_path: Path) -> None:
    process = bench.start()
    bench.engine.fail("save", "the disk is full")
    with pytest.raises(EngineError, match="disk is full"):
        save(bench, process, tmp_path / "first")
    assert bench.lives(process)
    assert save(bench, process, tmp_path / "second").size_bytes > 0


def test_a_freeze_over_the_limit_fails(bench: FakeBench, tmp_path: Path) -> None:
    process = bench.start()
    bench.engine.freeze_s = 1000.0
    bench.engine.clock = Still()
    with pytest.raises(EngineError, match="max_freeze"):
        save(bench, process, tmp_path / "save")


class Still(SystemClock):
    def sleep(self, seconds: float) -> None:
        assert seconds <= 20.0

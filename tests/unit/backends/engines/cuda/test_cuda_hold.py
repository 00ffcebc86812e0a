"""Taking GPU state and giving it back, with a scripted `cuda-checkpoint`: after every failure all that can run does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.engines.cuda import hold
from backends.engines.cuda.tool import Turn
from backends.errors import EngineError
from tests.support.cuda import HELP, FakeCuda


@pytest.fixture
def two() -> Iterator[list[int]]:
    """Two living processes."""
    children = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) for _ in range(2)]
    yield [child.pid for child in children]
    for child in children:
        child.kill()
        child.wait()


@pytest.fixture
def fake(tmp_path: Path, two: list[int]) -> FakeCuda:
    made = FakeCuda(tmp_path / "fake")
    made.has_cuda(*two)
    return made


@pytest.fixture
def turn(fake: FakeCuda, tmp_path: Path, two: list[int]) -> Iterator[Turn]:
    with fake.tool(tmp_path / "run").turn(two[0]) as found:
        assert found is not None
        yield found


def test_in_order_with_a_limit_on_lock_alone(turn: Turn, fake: FakeCuda, two: list[int]) -> None:
    hold.take(turn, two, 1500)
    assert [fake.state(pid) for pid in two] == ["checkpointed"] * 2
    hold.give_back(turn, two, "a=b")
    assert [fake.state(pid) for pid in two] == ["running"] * 2
    one, other = two
    assert fake.calls() == [
        ["lock", one, "1500", None],
        ["lock", other, "1500", None],
        ["checkpoint", one, None, None],
        ["checkpoint", other, None, None],
        ["restore", one, None, "a=b"],
        ["restore", other, None, "a=b"],
        ["unlock", one, None, None],
        ["unlock", other, None, None],
    ]


@pytest.mark.parametrize("action", ["lock", "checkpoint"])
@pytest.mark.parametrize("which", [0, 1])
def test_after_a_failed_step_every_process_runs(
    turn: Turn, fake: FakeCuda, two: list[int], action: str, which: int
) -> None:
    fake.fail(action, "OS call failed or operation not supported on this OS", two[which])
    with pytest.raises(
        EngineError, match=rf"process {two[which]} cannot be saved \({action}\): the driver"
    ) as seen:
        hold.take(turn, two, 1000)
    assert [fake.state(pid) for pid in two] == ["running"] * 2
    assert seen.value.hint == "the job runs on; the older save stands"


def test_one_that_failed_for_good_is_named_and_the_other_runs(
    turn: Turn, fake: FakeCuda, two: list[int]
) -> None:
    fake.fail("checkpoint", "OS call failed", two[1], state="failed")
    with pytest.raises(EngineError, match=f"stands still on its GPU: process {two[1]} is failed"):
        hold.take(turn, two, 1000)
    assert [fake.state(pid) for pid in two] == ["running", "failed"]


def test_an_unlock_that_fails_is_said_with_its_reason(turn: Turn, fake: FakeCuda, two: list[int]) -> None:
    hold.take(turn, two, 1000)
    fake.fail("unlock", "device gone away")
    with pytest.raises(
        EngineError, match=f"process {two[0]} is locked.*unlock of process .*: device gone away"
    ):
        hold.give_back(turn, two)
    fake.heal()
    hold.give_back(turn, two)
    assert [fake.state(pid) for pid in two] == ["running"] * 2


def test_a_long_step_is_waited_for(turn: Turn, fake: FakeCuda, two: list[int]) -> None:
    fake.fail("checkpoint", "out of memory", two[0], after_s=1.0)
    with pytest.raises(EngineError, match="not enough free GPU memory"):
        hold.take(turn, two, 1)
    assert fake.state(two[0]) == "running"


def test_a_step_under_way_keeps_others_out(fake: FakeCuda, tmp_path: Path, two: list[int]) -> None:
    tool = fake.tool(tmp_path / "run")
    with tool.turn(two[0]) as first:
        assert first is not None
        with tool.turn(two[0]) as second:
            assert second is None
        with tool.turn(two[1]) as other:
            assert other is not None
        # as after a guard's death: the child alone still holds what it inherited
        child = subprocess.Popen(["sleep", "60"], pass_fds=(first.handle,))
    try:
        with tool.turn(two[0]) as late:
            assert late is None
    finally:
        child.kill()
        child.wait()
    with tool.turn(two[0]) as free:
        assert free is not None


def test_questions(fake: FakeCuda, tmp_path: Path, two: list[int]) -> None:
    tool = fake.tool(tmp_path / "run")
    assert tool.options() == frozenset(HELP.split())
    assert tool.uses_cuda(two[0])
    assert not tool.uses_cuda(1)
    assert tool.state(two[0]) == "running"
    assert tool.state(1 << 22) == "unknown"


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ("CUDA checkpoint and restore utility.\nVersion 570.86.10. Copyright (C) 2025 NVIDIA CORPORATION.", "570.86.10"),
        ("--action --pid", None),
        ("Version unknown", None),
    ],
)  # fmt: skip
def test_its_version_is_in_its_help(fake: FakeCuda, tmp_path: Path, told: str, version: str | None) -> None:
    fake.say_help(told)
    assert fake.tool(tmp_path / "run").version() == version

"""The contract suite on the engine `criu` with real processes; needs root and CRIU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.clock import SystemClock
from backends.engines.criu import CriuEngine
from tests.contract.engine_suite import EngineSuite
from tests.contract.test_engine_signal import end_all
from tests.support.engines import RealBench, criu_tool

pytestmark = pytest.mark.lab


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[RealBench]:
    if os.geteuid() != 0:
        pytest.skip("not root: CRIU needs it")
    tool = criu_tool()
    if tool is None:
        pytest.skip("no CRIU on this machine or in the cache")
    yield RealBench(CriuEngine(tool, tmp_path / "run", SystemClock()), tmp_path / "home")
    end_all(tmp_path)


class TestCriu(EngineSuite):
    """All of it."""

"""The contract suite on the engine `criu` with real processes; needs root and CRIU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.clock import SystemClock
from backends.engines.criu import CriuEngine
from tests.contract.engine_suite import EngineSuite, StandingSuite
from tests.support.engines import RealBench, criu_or_skip, end_all

pytestmark = pytest.mark.lab


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[RealBench]:
    yield RealBench(CriuEngine(criu_or_skip(), tmp_path / "run", SystemClock()), tmp_path / "home")
    end_all(tmp_path)


class TestCriu(EngineSuite, StandingSuite):
    """All of it, and what a group save needs."""

"""The contract suite on the engine `signal` with real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.clock import SystemClock
from backends.engines.signal import SignalEngine
from tests.contract.engine_suite import EngineSuite
from tests.support.engines import RealBench, end_all


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[RealBench]:
    made = RealBench(SignalEngine(tmp_path / "run", SystemClock()), tmp_path / "home")
    yield made
    end_all(tmp_path)


class TestSignal(EngineSuite):
    """All of it; the rehearsal needs root or user namespaces."""

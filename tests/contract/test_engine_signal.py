"""The contract suite on the engine `signal` with real processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.clock import SystemClock
from backends.engines.signal import SignalEngine
from tests.contract.engine_suite import EngineSuite
from tests.support.engines import RealBench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[RealBench]:
    made = RealBench(SignalEngine(tmp_path / "run", SystemClock()), tmp_path / "home")
    yield made
    end_all(tmp_path)


def end_all(home: Path) -> None:
    """Kill what a failed test left: processes whose command line names its directory."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(home).encode() in words and b"pytest" not in words:
                os.kill(int(entry.name), 9)


class TestSignal(EngineSuite):
    """All of it; the rehearsal needs root or user namespaces."""

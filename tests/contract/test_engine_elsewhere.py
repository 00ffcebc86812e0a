"""The engines that the contract suite does not run on here: skipped by name, with what is missing.

What each test says is checked first: an adapter that is written must be put to the suite, and its line here removed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import backends.engines
from tests.contract.engine_suite import EngineSuite
from tests.lab import test_criu_cuda

ADAPTERS = Path(backends.engines.__file__).parent
UNWRITTEN = ("podman", "cedana", "float")


def test_criu_cuda_runs_on_a_gpu() -> None:
    assert issubclass(test_criu_cuda.TestCriuCuda, EngineSuite), "the suite, on the scripted driver"
    if not Path("/dev/nvidiactl").exists():
        pytest.skip("criu-cuda: no NVIDIA GPU on this machine, tests marked `gpu` run on one")
    pytest.skip("criu-cuda: run with -m gpu")


@pytest.mark.parametrize("engine", UNWRITTEN)
def test_no_adapter_escapes_the_suite(engine: str) -> None:
    assert [path.name for path in ADAPTERS.rglob(f"{engine}*") if "__pycache__" not in path.parts] == []
    pytest.skip(f"{engine}: there is no adapter for it in this version")

"""The engines that the contract suite does not run on here: skipped by name, with what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

ABSENT = {
    "criu-cuda": "no NVIDIA GPU on this machine: tests marked `gpu` run there; its order of calls is in tests/lab/test_criu_cuda.py",
    "podman": "there is no adapter for podman in this version",
    "cedana": "there is no adapter for cedana in this version",
    "float": "there is no adapter for MemVerge's float in this version",
}


@pytest.mark.parametrize("engine", ABSENT)
def test_the_contract_suite(engine: str) -> None:
    if engine == "criu-cuda" and Path("/dev/nvidiactl").exists():
        pytest.skip("criu-cuda: run with -m gpu")
    pytest.skip(f"{engine}: {ABSENT[engine]}")

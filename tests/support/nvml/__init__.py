"""A fake NVML shared library, built from `fake.c`, so that the real binding is exercised without a GPU."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from backends.engines.system.nvml import LIBRARY, NvmlAnswer, ask_nvml

SOURCE = Path(__file__).with_name("fake.c")


@cache
def built(*flags: str) -> TemporaryDirectory[str] | None:
    """A directory with the library, removed when the tests end; None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    place = TemporaryDirectory(prefix="reprieve-nvml.")
    argv = [compiler, "-shared", "-fPIC", "-O1", f"-Wl,-soname,{LIBRARY}", *flags]
    subprocess.run([*argv, "-o", f"{place.name}/{LIBRARY}", str(SOURCE)], check=True)
    return place


def fake_nvml(monkeypatch: pytest.MonkeyPatch, fleet: str, *flags: str) -> Callable[[], NvmlAnswer]:
    """Let children of this process find the fake with the given fleet; how to ask it."""
    place = built(*flags)
    if place is None:
        pytest.skip("no C compiler: the fake NVML cannot be built")
    monkeypatch.setenv("LD_LIBRARY_PATH", place.name)
    monkeypatch.setenv("REPRIEVE_FAKE_NVML", fleet)
    return ask_nvml

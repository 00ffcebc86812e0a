"""NVML's answers on this node, read by a child process: a GPU that fails can hang whoever asks the driver."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from backends.clean import clean
from backends.errors import ReprieveError
from backends.records.facts import Gpu
from backends.records.gpu import GpuState
from backends.records.strict import loads, read

LIBRARY = "libnvidia-ml.so.1"
ANSWER_S = 20.0  # without persistence mode the first question loads the driver, which takes seconds per GPU


@dataclass(frozen=True)
class NvmlAnswer:
    """One inventory; with a `fault` nothing else is known."""

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    cuda: str | None = None
    faults: tuple[str, ...] = ()  # of single GPUs
    fault: str = ""
    code: int | None = None  # nvml.h's; None with a fault: no answer at all


@dataclass(frozen=True)
class Sweep:
    """One look at what the GPUs do; with a `fault` nothing else is known."""

    gpus: tuple[GpuState, ...] | None = None
    fault: str = ""
    code: int | None = None


T = TypeVar("T", NvmlAnswer, Sweep)


def nvidia_seen(base: Path) -> bool:
    """Whether there is anything of NVIDIA's to ask: a driver, a device, or its library on the search path."""
    if (base / "proc/driver/nvidia").is_dir() or (base / "dev/dxg").exists():
        return True
    if any((base / "dev").glob("nvidia*")):
        return True
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":") if base == Path("/") else []
    return any((Path(folder) / LIBRARY).exists() for folder in folders if folder)


def ask_nvml(limit_s: float = ANSWER_S) -> NvmlAnswer:
    """The inventory; an answer with a fault when there is none within `limit_s`. Never raises, never hangs."""
    return _asked("inventory", NvmlAnswer, limit_s)


def sweep_nvml(limit_s: float = ANSWER_S) -> Sweep:
    """One sweep; with a fault when there is none within `limit_s`. Never raises, never hangs."""
    return _asked("sweep", Sweep, limit_s)


def _asked(what: str, kind: type[T], limit_s: float) -> T:
    try:
        child = reader(what)
    except OSError as error:
        return kind(fault=f"NVML could not be asked: {clean(error.strerror)}")
    try:
        data, _ = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        child.kill()  # it may hang inside the kernel: nobody waits for it here
        threading.Thread(target=child.wait, name="nvml", daemon=True).start()
        return kind(fault=f"NVML did not answer within {limit_s:g} s: see the kernel log, reboot the node")
    try:
        return read(kind, loads(data, what="NVML's answer"), what="NVML's answer")
    except ReprieveError:
        return kind(fault=f"reading NVML ended with {_ending(child.returncode)}: see the kernel log")


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit {code}"


def reader(*arguments: str) -> subprocess.Popen[bytes]:
    """A child that reads NVML: see `backends.gpu.sweep` for its arguments and output."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen(
        [sys.executable, "-m", "backends.gpu.sweep", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
    )

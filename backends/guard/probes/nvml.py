"""NVML's answers on this node, read by a child process: a GPU that fails can hang whoever asks the driver."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from backends.clean import clean
from backends.clock import Clock
from backends.errors import ReprieveError
from backends.records.facts import Gpu
from backends.records.gpu import GpuState
from backends.records.strict import loads, read

LIBRARY = "libnvidia-ml.so.1"
ANSWER_S = 20.0  # without persistence mode the first question loads the driver, which takes seconds per GPU
EVERY_S = 1.0
STALE_S = 10.0
_AGAIN_S = 30.0
_LINE_LIMIT = 1 << 20


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
class _Sweep:
    gpus: tuple[GpuState, ...] | None = None
    fault: str = ""
    code: int | None = None


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
    try:
        child = _child("inventory")
    except OSError as error:
        return NvmlAnswer(fault=f"NVML could not be asked: {clean(error.strerror)}")
    try:
        data, _ = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        child.kill()  # it may hang inside the kernel: nobody waits for it here
        threading.Thread(target=child.wait, name="nvml", daemon=True).start()
        return NvmlAnswer(
            fault=f"NVML did not answer within {limit_s:g} s: see the kernel log, reboot the node"
        )
    try:
        return read(NvmlAnswer, loads(data, what="NVML's inventory"), what="NVML's inventory")
    except ReprieveError:
        return NvmlAnswer(fault=f"reading NVML ended with {_ending(child.returncode)}: see the kernel log")


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit {code}"


def _child(*arguments: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen(
        [sys.executable, "-m", "backends.gpu.sweep", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
    )


class GpuWatch:
    """What the GPUs do, swept every second by a child and kept for the node verb `status`."""

    def __init__(
        self,
        clock: Clock,
        base: Path = Path("/"),
        start: Callable[..., subprocess.Popen[bytes]] = _child,
    ) -> None:
        self._clock = clock
        self._base = base
        self._start = start
        self._last: tuple[float, _Sweep] | None = None
        self._began_at = clock.monotonic()
        self._ended = threading.Event()
        self._running: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start sweeping, where there is something to sweep."""
        if nvidia_seen(self._base):
            threading.Thread(target=self._work, name="gpus", daemon=True).start()
        else:
            self._last = (float("inf"), _Sweep(gpus=()))

    def end(self) -> None:
        """Stop sweeping."""
        self._ended.set()
        if self._running is not None:
            self._running.kill()

    def now(self) -> tuple[tuple[GpuState, ...] | None, str]:
        """The newest sweep; None with the reason when it is older than ten seconds or failed."""
        at, sweep = self._last or (self._began_at, _Sweep())
        age_s = self._clock.monotonic() - at
        if age_s > STALE_S:
            return None, f"NVML has not answered for {age_s:.0f} s: see the kernel log"
        if sweep.gpus is None:
            return None, sweep.fault or "NVML was not read yet"
        return sweep.gpus, ""

    def _work(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(OSError):
                self._running = self._start("watch", f"{EVERY_S:g}")
                self._listen(self._running)
            self._ended.wait(_AGAIN_S)

    def _listen(self, child: subprocess.Popen[bytes]) -> None:
        if child.stdout is None:
            return
        with child.stdout as stream:
            while line := stream.readline(_LINE_LIMIT):
                with contextlib.suppress(ReprieveError):
                    sweep = read(_Sweep, loads(line, what="NVML's sweep"), what="NVML's sweep")
                    self._last = (self._clock.monotonic(), sweep)
        child.wait()

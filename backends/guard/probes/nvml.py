"""A watch on the node's GPUs for the node verb `status`."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from backends.clock import Clock
from backends.engines.system.nvml import Sweep, nvidia_seen, reader
from backends.errors import ReprieveError
from backends.records.gpu import GpuState
from backends.records.strict import loads, read

EVERY_S = 1.0
STALE_S = 10.0
_AGAIN_S = 30.0
_LINE_LIMIT = 1 << 20


class GpuWatch:
    """What the GPUs do, swept every second by a child and kept for the node verb `status`."""

    def __init__(
        self,
        clock: Clock,
        base: Path = Path("/"),
        start: Callable[..., subprocess.Popen[bytes]] = reader,
    ) -> None:
        self._clock = clock
        self._base = base
        self._start = start
        self._last: tuple[float, Sweep] | None = None
        self._began_at = clock.monotonic()
        self._ended = threading.Event()
        self._running: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start sweeping, where there is something to sweep."""
        if nvidia_seen(self._base):
            threading.Thread(target=self._work, name="gpus", daemon=True).start()
        else:
            self._last = (float("inf"), Sweep(gpus=()))

    def end(self) -> None:
        """Stop sweeping."""
        self._ended.set()
        if self._running is not None:
            self._running.kill()

    def now(self) -> tuple[tuple[GpuState, ...] | None, str]:
        """The newest sweep; None with the reason when it is older than ten seconds or failed."""
        at, sweep = self._last or (self._began_at, Sweep())
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
                    sweep = read(Sweep, loads(line, what="NVML's sweep"), what="NVML's sweep")
                    self._last = (self._clock.monotonic(), sweep)
        child.wait()

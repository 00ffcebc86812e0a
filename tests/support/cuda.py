"""A fake `cuda-checkpoint`: the states of processes in files, failures from a script, the order of calls in a log."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from backends.engines.cuda.tool import CudaTool
from backends.engines.system.nvml import NvmlAnswer, Sweep
from backends.records.facts import Gpu
from backends.records.gpu import GpuProcess, GpuState

GIB = 1 << 30
# By pid in the job's own namespace, so that a restored process keeps its state: as with the driver, it is in the image.
PROGRAM = r"""#!PYTHON -SsE
import json, os, pathlib, sys, time
home = pathlib.Path("HOME")
words = sys.argv[1:]
if words == ["--help"]:
    print((home / "help").read_text()); sys.exit(0)
option = dict(zip(words[::2], words[1::2])) if words[0] != "--get-state" and words[0] != "--get-restore-tid" else {"--pid": words[2]}
try:
    rows = pathlib.Path(f"/proc/{option['--pid']}/status").read_text().splitlines()
    pid = next(row for row in rows if row.startswith("NSpid")).split()[-1]
except OSError:
    print("process not found"); sys.exit(1)
state = home / f"state-{pid}"
if not state.exists():
    print("CUDA is not initialized"); sys.exit(1)
if words[0] == "--get-restore-tid":
    print(pid); sys.exit(0)
if words[0] == "--get-state":
    print(state.read_text()); sys.exit(0)
action = option["--action"]
with open(home / "log", "a") as log:
    log.write(json.dumps([action, int(pid), option.get("--timeout"), option.get("--device-map")]) + "\n")
failure = home / f"fail-{action}-{pid}"
if not failure.exists():
    failure = home / f"fail-{action}"
if failure.exists():
    told = json.loads(failure.read_text())
    time.sleep(told.get("after_s", 0))
    if "state" in told:
        state.write_text(told["state"])
    print(told["text"]); sys.exit(1)
steps = {("running", "lock"): "locked", ("locked", "checkpoint"): "checkpointed",
         ("checkpointed", "restore"): "locked", ("locked", "unlock"): "running"}
after = steps.get((state.read_text(), action))
if after is None:
    print(f"invalid state {state.read_text()}"); sys.exit(1)
state.write_text(after)
"""
HELP = "--action --timeout --device-map --launch-job --get-state --get-restore-tid --pid"


class FakeCuda:
    """The program and its script."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir(mode=0o755, parents=True, exist_ok=True)
        self.program = home / "cuda-checkpoint"
        self.program.write_text(PROGRAM.replace("PYTHON", sys.executable).replace("HOME", str(home)))
        self.program.chmod(0o755)
        self.say_help(HELP)

    def tool(self, run: Path) -> CudaTool:
        """The tool as the engine knows it."""
        return CudaTool(self.program, run)

    def say_help(self, text: str) -> None:
        """What `--help` prints."""
        (self.home / "help").write_text(text)

    def has_cuda(self, *pids: int) -> None:
        """These processes use CUDA now."""
        for pid in pids:
            (self.home / f"state-{pid}").write_text("running")

    def state(self, pid: int) -> str:
        """State of a process."""
        return (self.home / f"state-{pid}").read_text()

    def fail(self, action: str, text: str, pid: int | None = None, **more: Any) -> None:
        """Let every `action` (of one process) fail with these words; `state`: what it is in then."""
        name = f"fail-{action}" + ("" if pid is None else f"-{pid}")
        (self.home / name).write_text(json.dumps({"text": text, **more}))

    def heal(self) -> None:
        """No failures any more."""
        for path in self.home.glob("fail-*"):
            path.unlink()

    def calls(self) -> list[list[Any]]:
        """Every step taken: action, pid, timeout, device map."""
        log = self.home / "log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def gpus(*numbers: int, mig: bool = False, free: int = 70 * GIB) -> NvmlAnswer:
    """A node with H100s of these numbers and a driver that can do everything."""
    found = tuple(
        Gpu(
            index=index, uuid=f"GPU-{number}", model="NVIDIA H100 80GB HBM3", memory_bytes=80 * GIB,
            memory_free_bytes=free, mig=mig,
        )
        for index, number in enumerate(numbers)
    )  # fmt: skip
    return NvmlAnswer(found, driver="590.48.01", cuda="13.1")


def sweep(*pids: int, used: int | None = 1 << 20) -> Sweep:
    """One GPU on which these processes compute."""
    return Sweep((GpuState(0, processes=tuple(GpuProcess(pid, used) for pid in pids)),))


def own_pid() -> int:
    """This process, which surely lives."""
    return os.getpid()

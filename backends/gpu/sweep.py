"""Reads the GPUs in a process of its own, because NVML can hang or die with a failing GPU.

`python -m backends.gpu.sweep inventory` (or `sweep`) prints one JSON line; `… watch SECONDS` prints one for each sweep until its
output is closed. A line is `{"gpus": […], …}` or `{"fault": TEXT, "code": N}`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from backends.clock import Clock, SystemClock
from backends.records.strict import to_document


def inventory() -> dict[str, Any]:
    """The driver and its GPUs, or the fault."""
    from backends.gpu.nvml import GpuError, opened

    try:
        with opened() as nvml:
            return to_document(nvml.inventory())
    except GpuError as error:
        return {"fault": str(error), "code": error.code}


def sweep() -> dict[str, Any]:
    """What the GPUs do now, or the fault."""
    from backends.gpu.nvml import GpuError, opened

    try:
        with opened() as nvml:
            return {"gpus": [to_document(state) for state in nvml.sweep()]}
    except GpuError as error:
        return {"fault": str(error), "code": error.code}


def watch(clock: Clock, every_s: float) -> None:
    """Print what the GPUs do, every so many seconds; returns when nobody reads it any more."""
    from backends.gpu.nvml import GpuError, opened

    while True:
        try:
            with opened() as nvml:
                while _say({"gpus": [to_document(state) for state in nvml.sweep()]}):
                    clock.sleep(every_s)
                return
        except GpuError as error:
            if not _say({"fault": str(error), "code": error.code}):
                return
        clock.sleep(max(every_s, 10.0))  # the driver may come back


def _say(document: dict[str, Any]) -> bool:
    try:
        sys.stdout.write(json.dumps(document) + "\n")
        sys.stdout.flush()
    except OSError:
        return False
    return True


def main(arguments: Sequence[str]) -> int:
    """The entry; the exit status."""
    if list(arguments) == ["inventory"]:
        return 0 if _say(inventory()) else 1
    if list(arguments) == ["sweep"]:
        return 0 if _say(sweep()) else 1
    if len(arguments) == 2 and arguments[0] == "watch":
        watch(SystemClock(), float(arguments[1]))
        return 0
    sys.stderr.write("backends.gpu.sweep: `inventory`, `sweep` or `watch SECONDS` is expected\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

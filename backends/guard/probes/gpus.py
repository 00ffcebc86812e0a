"""The GPUs of a node: as NVML tells them, else as the NVIDIA kernel driver lists them under /proc.

No GPU and an unknown number of GPUs are two answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from backends.clean import clean
from backends.engines.system.nvml import NvmlAnswer, ask_nvml, nvidia_seen
from backends.guard.probes.machine import text
from backends.records.facts import Gpu

_DRIVER = re.compile(r"Kernel Module(?: for \S+)?\s+(\d{1,5}(?:\.\d{1,5}){1,3}\S{0,20})(?:\s|$)")


def driver(base: Path) -> str | None:
    """Full version text of the NVIDIA kernel driver, None when it is not loaded or does not say."""
    match = _DRIVER.search(text(base / "proc/driver/nvidia/version") or "")
    return clean(match.group(1), limit=40) if match else None


_NO_LIBRARY = 12  # nvml.h: NVML_ERROR_LIBRARY_NOT_FOUND


def look(
    base: Path, ask: Callable[[], NvmlAnswer] | None = None
) -> tuple[tuple[Gpu, ...] | None, str, str | None, str | None]:
    """The GPUs, why they or their details are unknown, the driver's version and its CUDA version.

    `ask` is how NVML is asked; None: on this machine itself, not where `base` is made up.
    """
    listed, reason = gpus(base)
    kernel = driver(base)
    if ask is None and base == Path("/"):
        ask = ask_nvml
    if ask is None or not nvidia_seen(base):
        return listed, reason, kernel, None
    answer = ask()
    if answer.code == _NO_LIBRARY:
        return listed, f"memory and partitions are unknown: {clean(answer.fault)}", kernel, None
    if answer.fault:
        return None, clean(answer.fault), kernel, None
    missing = len(_devices(base)) - len(answer.gpus)
    if missing > 0:
        reason = f"driver fault: {len(_devices(base))} GPU devices, NVML lists {len(answer.gpus)}"
        return None, reason, kernel or answer.driver, answer.cuda
    return answer.gpus, clean("; ".join(answer.faults)), kernel or answer.driver, answer.cuda


def _devices(base: Path) -> list[Path]:
    return sorted(path for path in (base / "dev").glob("nvidia[0-9]*") if path.name[6:].isdigit())


def gpus(base: Path) -> tuple[tuple[Gpu, ...] | None, str]:
    """The GPUs under /proc and, when they or their details are unknown, why.

    `()` only where neither devices nor a driver are there; None wherever something is there that we cannot read.
    """
    devices = _devices(base)
    folder = base / "proc/driver/nvidia/gpus"
    if folder.is_dir():
        found = tuple(_gpu(item, base) for item in sorted(folder.iterdir()))
        if len(found) < len(devices):
            return None, f"driver fault: {len(devices)} GPU devices, the driver lists {len(found)}"
        return found, "memory and partitions are unknown without NVML" if found else ""
    if devices:
        return None, f"driver fault: {len(devices)} GPU devices, but the driver does not answer"
    if (base / "dev/kfd").exists():
        return None, "an AMD GPU is there; it is not read in this version"
    return (), ""


def _gpu(folder: Path, base: Path) -> Gpu:
    fields: dict[str, str] = {}
    for row in (text(folder / "information") or "").splitlines():
        key, colon, value = row.partition(":")
        if colon and value.strip() and "?" not in value:
            fields[key.strip()] = clean(value.strip(), limit=80)
    minor = fields.get("Device Minor", "")
    index = int(minor) if minor.isdigit() and len(minor) < 5 else None
    partitions = (
        () if index is None else (base / f"proc/driver/nvidia/capabilities/gpu{index}/mig").glob("gi[0-9]*")
    )
    return Gpu(
        index=index,
        uuid=fields.get("GPU UUID"),
        model=fields.get("Model"),
        mig=True if any(partitions) else None,
    )

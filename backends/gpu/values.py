"""What NVML answered, made into what we say: anything absurd becomes None. Pure."""

from __future__ import annotations

import re

from backends.clean import clean

MEMORY_LIMIT = 1 << 44  # bytes: 16 TiB, more than any GPU has
ECC_LIMIT = 1 << 40
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{8,80}\Z")
_ALL_ONES = {(1 << 32) - 1, (1 << 64) - 1}  # NVML's way to say "not available"
# gpu instance slices of 7, compute slices of those; memory in GB as NVIDIA rounds it
_MIG_SLICES = range(1, 8)

# Codes of nvml.h; the words are ours.
FAULTS = {
    4: "NVML: no permission to read the GPU: the guard needs access to /dev/nvidia*",
    9: "NVML: the NVIDIA driver is not loaded: load it (modprobe nvidia) or reboot the node",
    12: "NVML: libnvidia-ml.so.1 is not on this node: install the driver's user-space libraries",
    15: "fell off the bus: drain the node and reboot it",
    16: "needs a reset: end what uses it, then reset it or reboot the node",
    17: "NVML: the operating system refused: see the kernel log",
    18: "NVML: the driver in the kernel and its libraries differ in version: it was upgraded while loaded; reboot the node",
    999: "NVML: the driver failed in an unknown way: see the kernel log (Xid)",
}
NO_LIBRARY = 12
LOST = frozenset({15, 16, 999})  # of one GPU; the others may be well


def explain(code: int) -> str:
    """One line for an NVML error code."""
    return FAULTS.get(code, f"NVML: error {code}")


def memory(
    total: int | None, free: int | None, used: int | None
) -> tuple[int | None, int | None, int | None]:
    """(total, free, used) in bytes; None for each that cannot be."""
    whole = total if total is not None and 0 < total <= MEMORY_LIMIT else None
    limit = MEMORY_LIMIT if whole is None else whole
    parts = [value if value is not None and 0 <= value <= limit else None for value in (free, used)]
    return whole, parts[0], parts[1]


def count(value: int | None, limit: int) -> int | None:
    """A counter, None when it is negative, all ones or beyond `limit`."""
    return value if value is not None and 0 <= value <= limit and value not in _ALL_ONES else None


def share(percent: int | None) -> float | None:
    """A percentage as 0 … 1; None outside of that."""
    return percent / 100 if percent is not None and 0 <= percent <= 100 else None


def uuid(value: str | None) -> str | None:
    """A GPU's or partition's UUID; None for another text."""
    return value if value is not None and _UUID.match(value) else None


def name(value: str | None) -> str | None:
    """A model name, cleaned; None when empty or a placeholder."""
    text = clean(value or "", limit=80).strip()
    return text if text and text.lower() not in ("unknown", "unknown error", "n/a") else None


def cuda(version: int | None) -> str | None:
    """CUDA version of the driver: 13000 is 13.0; None for what is none."""
    if version is None or not 1000 <= version < 100_000:
        return None
    return f"{version // 1000}.{version % 1000 // 10}"


def capability(pair: tuple[int, int] | None) -> str | None:
    """Compute capability: (9, 0) is 9.0."""
    if pair is None or not (0 < pair[0] < 100 and 0 <= pair[1] < 100):
        return None
    return f"{pair[0]}.{pair[1]}"


def profile(gpu_slices: int, compute_slices: int, memory_mib: int) -> str | None:
    """A partition's profile as NVIDIA writes it: 1g.10gb, or 1c.3g.40gb where compute is divided further.

    NVML tells MiB of usable memory, a little less than the round figure of the name.
    """
    if gpu_slices not in _MIG_SLICES or compute_slices not in _MIG_SLICES or not 0 < memory_mib < 1 << 20:
        return None
    size = f"{gpu_slices}g.{-(-memory_mib // 1024)}gb"
    return size if compute_slices == gpu_slices else f"{compute_slices}c.{size}"

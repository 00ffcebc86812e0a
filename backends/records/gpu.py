"""What a node's GPUs do now: the changing half of `facts.Gpu`. None is unknown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuProcess:
    """One process that computes on a GPU."""

    pid: int  # as the driver knows it: in the node's own PID namespace
    memory_bytes: int | None = None  # None: the driver does not say (containers, MIG, WDDM)


@dataclass(frozen=True)
class GpuState:
    """One look at one GPU."""

    index: int
    uuid: str | None = None
    memory_used_bytes: int | None = None
    utilisation: float | None = None  # share of the last sample period in which a kernel ran, 0 … 1
    temperature_c: int | None = None
    ecc_uncorrected: int | None = None  # uncorrected memory errors since the driver was loaded
    processes: tuple[GpuProcess, ...] | None = None  # those that compute; () none
    fault: str = ""  # why nothing is known of it: lost, needs a reset

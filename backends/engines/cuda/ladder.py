"""What a driver and its `cuda-checkpoint` can do. Pure.

The features live in the driver; the program only exposes them, yet an old one lacks the options: both count.
Branches as NVIDIA's cuda-checkpoint describes them: 555 single actions, 570 process trees and NVML users, 580 device
maps, 590.44 jobs (`--launch-job`).
"""

from __future__ import annotations

from dataclasses import dataclass

from backends.clean import clean
from backends.versions import numbers, older

ACTIONS, TREES, MAPS, JOBS = "555", "570", "580", "590.44"


@dataclass(frozen=True)
class Abilities:
    """What can be done here; `problem` says why nothing can."""

    trees: bool = False  # several CUDA processes, and such that use NVML
    device_map: bool = False  # GPUs with other UUIDs
    jobs: bool = False  # started by `cuda-checkpoint --launch-job`
    problem: str = ""


def abilities(driver: str | None, options: frozenset[str]) -> Abilities:
    """From the driver's version and the options in the program's help."""
    shown = clean(driver or "", limit=40)
    if numbers(driver) is None or driver is None:
        return Abilities(problem="the NVIDIA driver's version is unknown: see `reprieve fleet show`")
    if older(driver, ACTIONS):
        return Abilities(
            problem=f"driver {shown} is too old for saving GPU state: {ACTIONS} or newer is needed, {MAPS} for moves"
        )
    if "--action" not in options:
        return Abilities(
            problem=f"cuda-checkpoint is older than driver {shown} and has no --action: install the one of that driver"
        )
    return Abilities(
        trees=not older(driver, TREES),
        device_map=not older(driver, MAPS) and "--device-map" in options,
        jobs=not older(driver, JOBS) and "--launch-job" in options,
    )


def device_map(old: list[str], new: list[str]) -> str | None:
    """`--device-map` for a process saved on the GPUs `old` (UUIDs, in the driver's order) and restored on `new`.

    None where the very same GPUs are there, in the same order. Every GPU must be named, used by the job or not.

    Raises:
        ValueError: the numbers differ, or a UUID occurs twice.
    """
    if len(old) != len(new):
        raise ValueError(f"{len(old)} GPUs in the save, {len(new)} on this node")
    if len(set(old)) != len(old) or len(set(new)) != len(new):
        raise ValueError("a GPU's UUID occurs twice")
    if old == new:
        return None
    return ",".join(f"{was}={now}" for was, now in zip(old, new, strict=True))

"""What every benchmark shares: timing in one run, the machine's name, and the one document it prints."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, Literal


def median_s(call: Callable[[], object], *, repeats: int = 9) -> float:
    """Median wall seconds of `call`, after one run to warm up."""
    call()
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def interleaved_s(calls: dict[str, Callable[[], object]], *, repeats: int = 15) -> dict[str, float]:
    """Median wall seconds of several calls, taken in turn so that the machine's mood falls on all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats + 1):
        for name, call in calls.items():
            begun = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begun)
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def ratio(value: float, target: float, better: Literal["lower", "higher"] = "lower") -> dict[str, Any]:
    """One ratio of the document."""
    return {"value": round(value, 4), "target": target, "better": better}


def report(
    name: str, figures: dict[str, float], ratios: dict[str, dict[str, Any]], packages: tuple[str, ...] = ()
) -> None:
    """Print the document `reprieve/benchmark/v1` (with -o json) or a table."""
    document = {
        "schema": "reprieve/benchmark/v1",
        "name": name,
        "machine": f"{platform.machine()} {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "versions": {
            "python": platform.python_version(),
            **{package: importlib.metadata.version(package) for package in packages},
        },
        "figures": figures,
        "ratios": ratios,
    }
    if "json" in sys.argv[1:]:
        print(json.dumps(document, indent=2))
        return
    print(f"{name} on {document['machine']}")
    for key, value in figures.items():
        print(f"  {key:<40} {value:.6g}")
    for key, part in ratios.items():
        good = (
            part["value"] <= part["target"] if part["better"] == "lower" else part["value"] >= part["target"]
        )
        sign = "≤" if part["better"] == "lower" else "≥"
        print(
            f"  {key:<40} {part['value']:.3g}  (target {sign} {part['target']:g}: {'met' if good else 'missed'})"
        )

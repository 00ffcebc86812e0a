"""Grids over the inputs of a plan: axes as typed, cells in row-major order, blocks for threads or a cluster.

`NAME=LO..HI:STEPS` is linear, `STEPS` with `log` before or after it logarithmic, both ends included; `NAME=A,B,C` is a list.
The arithmetic of a block is in `planner.arrays.cells`; this module needs no numpy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from planner.plan.inputs import PlanError

MOST_CELLS = 100_000_000
BLOCK = 65_536
_STEPS = re.compile(r"(log)?([0-9]{1,9})(log)?\Z")
INTEGERS = ("nodes", "history_reclaims", "keep")
NUMERIC = (
    "hours", "discount", "spot_price", "on_demand_price", "reclaims", "rate", "mean_run", "lost", "checkpoint_cost",
    "restore", "upload", "interval", "max_overhead", "size", "bandwidth", "wait", "early_failure_share", "nodes",
    "deadline",
)  # fmt: skip

Parse = Callable[[str, str], float]  # (input name, text) → value in the planner's unit


class Axis(NamedTuple):
    """One input and the values it takes, in the planner's unit (hours for durations)."""

    name: str
    values: tuple[float, ...]


class Grid(NamedTuple):
    """The axes; the last one varies fastest."""

    axes: tuple[Axis, ...]

    @property
    def cells(self) -> int:
        """How many scenarios there are."""
        return math.prod(len(axis.values) for axis in self.axes)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(axis.name for axis in self.axes)

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[int, int]]:
        """(start, stop) of cells, in order."""
        for start in range(0, self.cells, size):
            yield start, min(start + size, self.cells)


def parse_axis(text: str, parse: Parse) -> Axis:
    """The axis that `text` names; PlanError naming the text and the form otherwise."""
    name, equals, values = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or name not in NUMERIC:
        known = ", ".join(item.replace("_", "-") for item in NUMERIC)
        raise PlanError(
            f"--grid is {text[:60]!r}; NAME=LO..HI:STEPS[log] or NAME=A,B,C is expected, NAME one of {known}"
        )
    low, dots, rest = values.partition("..")
    if not dots:
        parts = values.split(",")
        if not any(part.strip() for part in parts):
            raise PlanError(f"--grid {text[:60]!r} has no value: an empty grid has no answer")
        if not all(part.strip() for part in parts):
            raise PlanError(f"--grid {text[:60]!r}: a value is missing beside a comma")
        found = tuple(parse(name, part) for part in parts)
        return Axis(name, _whole(name, found, text))
    high, colon, steps = rest.rpartition(":")
    match = _STEPS.match(steps.strip()) if colon else None
    if match is None:
        raise PlanError(f"--grid {text[:60]!r}: LO..HI:STEPS is expected, such as rate=0.01..1:20log")
    count, log = int(match.group(2)), bool(match.group(1) or match.group(3))
    return Axis(name, _whole(name, _spread(parse(name, low), parse(name, high), count, log, text), text))


def _spread(low: float, high: float, count: int, log: bool, text: str) -> tuple[float, ...]:
    if count < 1 or count > MOST_CELLS:
        raise PlanError(f"--grid {text[:60]!r}: {count} steps; 1 to {MOST_CELLS} are expected")
    if log and not (low > 0 and high > 0):
        raise PlanError(f"--grid {text[:60]!r}: a logarithmic axis needs ends above 0")
    if count == 1:
        if low != high:
            raise PlanError(f"--grid {text[:60]!r}: one step cannot hold two ends; 2 or more are expected")
        return (low,)
    if not log:
        inner = (low + (high - low) * k / (count - 1) for k in range(1, count - 1))
        return (low, *inner, high)
    inner = (low * (high / low) ** (k / (count - 1)) for k in range(1, count - 1))
    return (low, *inner, high)


def _whole(name: str, values: tuple[float, ...], text: str) -> tuple[float, ...]:
    if name in INTEGERS and any(value != int(value) for value in values):
        raise PlanError(f"--grid {text[:60]!r}: {name} takes whole numbers only")
    return values


def parse_grid(texts: list[str], parse: Parse) -> Grid:
    """All axes of a sweep. PlanError for an axis given twice, or more than 10⁸ cells."""
    axes = tuple(parse_axis(text, parse) for text in texts)
    names = [axis.name for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise PlanError(f"--grid names {name} twice: an axis has one list of values")
    grid = Grid(axes)
    if not axes or grid.cells < 1:
        raise PlanError("--grid is empty: an empty grid has no answer")
    if grid.cells > MOST_CELLS:
        raise PlanError(f"--grid makes {grid.cells} cells; at most {MOST_CELLS} are taken")
    return grid

"""Pictures of a sweep: a curve for one axis, a heat map for two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from console.pictures.draw import (
    Chart,
    Line,
    Mark,
    chart,
    even_ticks,
    heat_map,
    short_duration,
    width_of_terminal,
)

if TYPE_CHECKING:
    from planner.arrays.cells import Block
    from planner.sweep import Axis, Grid

_HOURS = ("hours", "lost", "checkpoint_cost", "restore", "upload", "interval", "wait", "deadline", "mean_run")
ROWS = 24


def picture(grid: Grid, blocks: Sequence[Block], *, width: int | None = None, colour: bool = False) -> str:
    """Saving over the grid; with three axes or more, over the last two at the first value of the others."""
    columns = width or width_of_terminal()
    savings = [value for done in blocks for value in done.figures["saving_fraction"].tolist()]
    if len(grid.axes) == 1:
        return _curve(grid.axes[0], savings, columns, colour)
    upright, across = grid.axes[-2:]
    size = len(across.values)
    table = [savings[row * size : (row + 1) * size] for row in range(len(upright.values))]
    picked = _ends_and_between(len(table), ROWS)
    rows = [[None if math.isnan(value) else value for value in table[index]] for index in picked]
    names = [_value(upright.name, upright.values[index]) for index in picked]
    known = [value for row in rows for value in row if value is not None]
    span = f"{max(0.0, min(known)):.1%} (empty) to {max(known):.1%} (full)" if known else "unknown everywhere"
    title = f"Saving over {upright.name} (up) and {across.name} (across): {span}; - spot is dearer; · never finishes"
    ends = (_value(across.name, across.values[0]), _value(across.name, across.values[-1]))
    return heat_map(title, rows, names, ends, width=columns)


def _ends_and_between(count: int, most: int) -> list[int]:
    """At most `most` of the indices below `count`, evenly spread, the first and the last among them."""
    shown = min(count, most)
    return [round(index * (count - 1) / max(1, shown - 1)) for index in range(shown)]


def _value(name: str, value: float) -> str:
    return short_duration(value) if name in _HOURS else f"{value:.4g}"


def _curve(axis: Axis, savings: list[float], width: int, colour: bool) -> str:
    pairs = [(x, y) for x, y in zip(axis.values, savings, strict=True) if not math.isnan(y)]
    if len(pairs) < 2:
        return f"Saving over {axis.name}: too few known values to draw"
    xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
    log = min(xs) > 0 and max(xs) / min(xs) > 50
    shown = [math.log10(x) for x in xs] if log else xs
    ticks = [(at, _value(axis.name, 10**at if log else at)) for at in even_ticks(min(shown), max(shown), 6)]
    marks = [Mark("on-demand", y=0.0)] if min(ys) <= 0 <= max(ys) else []
    what = Chart(
        f"Saving over {axis.name}" + (" (logarithmic)" if log else ""), [Line("saving", shown, ys)], marks, ticks,
        [(value, f"{value:.0%}") for value in even_ticks(min(ys), max(ys))],
    )  # fmt: skip
    return chart(what, width=width, colour=colour)

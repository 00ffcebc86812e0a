"""Line charts and heat maps as text; the only module that knows plotext."""

from __future__ import annotations

import importlib
import math
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from planner.quantities import format_duration

LEAST, MOST = 40, 200  # columns
_LEVELS = " ▁▂▃▄▅▆▇█"  # each cell a small bar: nine levels where shades have five


@dataclass(frozen=True)
class Line:
    """One curve."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    colour: str = "blue"


@dataclass(frozen=True)
class Mark:
    """A vertical line at `x`, or a horizontal one at `y`."""

    label: str
    x: float | None = None
    y: float | None = None
    colour: str = "gray"


@dataclass(frozen=True)
class Chart:
    """Curves over one pair of axes; ticks are (position, text)."""

    title: str
    lines: Sequence[Line]
    marks: Sequence[Mark] = ()
    x_ticks: Sequence[tuple[float, str]] = ()
    y_ticks: Sequence[tuple[float, str]] = ()
    footer: Sequence[str] = field(default=())


def width_of_terminal() -> int:
    """Columns to draw in: the terminal's (or COLUMNS), 80 where there is none."""
    return min(MOST, max(LEAST, shutil.get_terminal_size((80, 24)).columns))


def chart(what: Chart, *, width: int, height: int = 18, colour: bool = False) -> str:
    """The chart as lines of at most `width` columns; without colour there is no escape sequence in it."""
    plot: Any = importlib.import_module("plotext")
    plot.clear_figure()
    plot.theme("clear")
    plot.limit_size(False, False)
    plot.plotsize(width, height)
    plot.frame(True)
    for line in what.lines:
        plot.plot(list(line.xs), list(line.ys), marker="braille", color=line.colour)
    for mark in what.marks:
        if mark.x is not None:
            plot.vline(mark.x, color=mark.colour)
        if mark.y is not None:
            plot.hline(mark.y, color=mark.colour)
    if what.x_ticks:
        plot.xticks([at for at, _ in what.x_ticks], [text for _, text in what.x_ticks])
    if what.y_ticks:
        plot.yticks([at for at, _ in what.y_ticks], [text for _, text in what.y_ticks])
    drawn: str = plot.build()
    body = drawn if colour else plot.uncolorize(drawn)
    footer = [line for text in what.footer for line in textwrap.wrap(text, width - 4)]
    return "\n".join(
        [
            what.title,
            *(line.rstrip() for line in body.split("\n") if line.strip()),
            *(f"  {line}" for line in footer),
        ]
    )


def short_duration(hours: float) -> str:
    """Hours as a duration of one or two units, zeros left out: `1h`, `12m 34s`, `25.5h`."""
    if 24 <= hours < 1000:
        return f"{hours:.4g}h"
    text = format_duration(hours * 3600.0)
    return text.removesuffix(" 00s").removesuffix(" 00m").removesuffix(" 00h")


def log_ticks(low: float, high: float, steps: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Of (value, text), those between low and high, at log10 of the value."""
    return [(math.log10(value), text) for value, text in steps if low <= value <= high]


def even_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers from low to high, about `count` of them."""
    if not high > low:
        return [low]
    raw = (high - low) / max(1, count)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw)
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


def heat_map(
    title: str,
    rows: Sequence[Sequence[float | None]],
    row_names: Sequence[str],
    ends: tuple[str, str],
    *,
    width: int,
) -> str:
    """Bars from low to high, `-` below 0 where something is above, `·` unknown; the first row is drawn at the bottom.

    `ends` name the two ends of the x axis.
    """
    known = [value for row in rows for value in row if value is not None]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    low = max(low, 0.0) if high > 0 else low
    space = max((len(name) for name in row_names), default=0)
    cells = max(1, width - space - 3)
    lines = textwrap.wrap(title, width)
    head = len(lines)
    for name, row in reversed(list(zip(row_names, rows, strict=True))):
        each = max(1, cells // max(1, len(row)))
        thin = [row[round(index * (len(row) - 1) / max(1, cells - 1))] for index in range(cells)]
        shown = thin if len(row) > cells else row
        text = "".join(_shade(value, low, high) * (each if len(row) <= cells else 1) for value in shown)
        lines.append(f"{name:>{space}} │{text}")
    used = max((len(line) for line in lines[head:]), default=0) - space - 2
    gap = max(1, used - len(ends[0]) - len(ends[1]))
    lines.append(" " * (space + 2) + ends[0] + " " * gap + ends[1])
    return "\n".join(lines)


def _shade(value: float | None, low: float, high: float) -> str:
    if value is None:
        return "·"
    if value < low:
        return "-"
    if not high > low:
        return _LEVELS[-1]
    return _LEVELS[min(len(_LEVELS) - 1, int((value - low) / (high - low) * len(_LEVELS)))]

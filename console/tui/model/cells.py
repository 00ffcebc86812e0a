"""Cells and columns of a table, and which columns fit a width."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from console.tui.model.text import UNKNOWN
from console.tui.model.words import Tone

R = TypeVar("R")
Value = str | float | None


@dataclass(frozen=True, slots=True)
class Cell:
    """A piece of text with its tone."""

    text: str
    tone: Tone = "plain"


NOTHING = Cell(UNKNOWN, "muted")


@dataclass(frozen=True)
class Column(Generic[R]):
    """One column over records of type R. `now` is wall time in seconds."""

    id: str  # what a filter or the sort chooser calls it
    title: str
    cell: Callable[[R, float], Cell]
    value: Callable[[R, float], Value]  # what sorting and `id>value` compare; None sorts last
    width: int  # cells it needs at least
    grow: int = 0  # cells it may take beyond `width` when there is room
    right: bool = False  # numbers are aligned to the right
    priority: int = 0  # the highest number is dropped first
    ticks: bool = False  # its value depends on `now`
    want: int = 0  # cells that make it worth dropping columns which the detail pane shows as well (`spare`)
    spare: bool = False
    worded: bool = False  # drawn in other words than its value: a text filter finds both


GAP = 2  # blank cells between columns
MODEST = 24  # cells of a name that other columns make room for


def fit(columns: Sequence[Column[R]], width: int, longest: int = 0) -> list[tuple[Column[R], int]]:
    """The columns that fit into `width` cells, in their own order, each with its width.

    Columns are taken by priority, lowest number first, as long as they fit; the first column always stays, cut to
    `width`. What is left goes to the first column up to a modest name, then to the last that can grow, then to the
    first again up to `longest` (the longest name there is). Where the last one wants more, spare columns make room.
    """
    keep: list[str] = []
    used = -GAP
    for column in sorted(columns, key=lambda column: column.priority):
        if keep and used + GAP + column.width > width:
            break
        keep.append(column.id)
        used += GAP + column.width
    chosen = _widened([column for column in columns if column.id in keep], width)
    widths = [column.width for column in chosen]
    widths[0] = max(1, min(widths[0], width))
    left = width - sum(widths) - GAP * (len(chosen) - 1)
    full = max(0, min(chosen[0].grow, longest - widths[0], left))
    first = min(full, max(0, MODEST - widths[0]))
    widths[0] += first
    left -= first
    for index in range(len(chosen) - 1, 0, -1):
        more = max(0, min(chosen[index].grow, left))
        widths[index] += more
        left -= more
    widths[0] += max(0, min(full - first, left))
    return list(zip(chosen, widths, strict=True))


def _widened(chosen: list[Column[R]], width: int) -> list[Column[R]]:
    """Without the spare columns that keep the last one from what it wants, the least important first."""
    wanting = chosen[-1].want
    while wanting:
        used = sum(column.width for column in chosen) + GAP * (len(chosen) - 1)
        spare = [column for column in chosen if column.spare]
        if chosen[-1].width + width - used >= wanting or not spare:
            break
        chosen = [column for column in chosen if column is not max(spare, key=lambda column: column.priority)]
    return chosen


def gauge(share: float | None, width: int) -> str:
    """A bar of `width` cells for a share of 1: heavy line for the part used, light for the rest.

    More than 1 fills it and ends in `▶`; unknown is blank. The two line weights differ without colour.
    """
    if share is None or math.isnan(share) or width < 1:
        return " " * max(0, width)
    if share > 1:
        return "━" * (width - 1) + "▶"
    used = round(max(0.0, share) * width)
    return "━" * used + "─" * (width - used)

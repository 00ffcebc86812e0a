"""Run a sweep: blocks in a thread pool, in order, with few of them in memory at a time; and blocks as text."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from planner.arrays.cells import VERDICTS, Block, block, prepare
from planner.plan.inputs import PlanInputs
from planner.sweep import Grid


def run(inputs: PlanInputs, grid: Grid, *, workers: int | None = None) -> Iterator[Block]:
    """Every block of the grid, in order. Raises PlanError before the first one for anything wrong."""
    prepare(inputs, grid)
    threads = workers or os.cpu_count() or 1
    spans = grid.blocks()
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Block]] = deque(
            pool.submit(block, inputs, grid, *span) for span in itertools.islice(spans, threads + 1)
        )
        while waiting:
            done = waiting.popleft().result()
            for span in itertools.islice(spans, 1):
                waiting.append(pool.submit(block, inputs, grid, *span))
            yield done


def header(first: Block) -> list[str]:
    """Column names of a sweep's rows."""
    return [*first.columns, "verdict"]


def rows_of(done: Block, *, missing: str) -> Iterator[tuple[str, ...]]:
    """The rows of a block as text: numbers in the shortest form that reads back the same, `missing` for unknown."""
    columns = [_texts(values, missing) for values in done.columns.values()]
    return zip(*columns, [VERDICTS[index] for index in done.verdicts.tolist()], strict=True)


def _texts(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], missing: str) -> list[str]:
    distinct, where = np.unique(values, return_inverse=True) if len(values) > 64 else (values, None)
    if where is not None and len(distinct) * 4 < len(values):
        texts = np.array([_text(value, missing) for value in distinct.tolist()], dtype=object)
        found: list[str] = texts[where].tolist()
        return found
    return [_text(value, missing) for value in values.tolist()]


def _text(value: float, missing: str) -> str:
    return repr(value) if abs(value) < 1e308 else missing  # NaN and infinities are unknown


def csv_text(inputs: PlanInputs, grid: Grid, start: int, stop: int) -> str:
    """Cells start to stop as lines of CSV, without a header: what a worker of a cluster hands back."""
    return "".join(",".join(row) + "\n" for row in rows_of(block(inputs, grid, start, stop), missing=""))

"""A sweep on a Dask cluster that the user brings: the same chunks, the same text, in the same order."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from backends.clean import clean
from backends.errors import UnreachableError, UsageError
from planner.plan.inputs import PlanInputs
from planner.sweep import Grid

CHUNK = 131_072  # cells: 100 ms or more, so that handing them over costs little beside
CONNECT_S = 20.0


def csv_on_cluster(inputs: PlanInputs, grid: Grid, url: str) -> Iterator[str]:
    """The header, then each chunk as lines of CSV. The workers need this package.

    Raises:
        UsageError: the URL is no `dask://HOST:PORT`, or the extra is not installed.
        UnreachableError: no scheduler answers there.
    """
    scheme, _, address = url.partition("://")
    if scheme != "dask" or not address:
        raise UsageError(f"--on is {clean(url, limit=80)!r}; dask://HOST:PORT is expected")
    try:
        distributed = importlib.import_module("distributed")
    except ModuleNotFoundError:
        raise UsageError(
            "--on dask:// needs Dask, which is not installed: install the extra reprieve[dask]"
        ) from None
    from planner.arrays.cells import block, prepare
    from planner.arrays.run import csv_text, header

    prepare(inputs, grid)
    try:
        client = distributed.Client(f"tcp://{address}", timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise UnreachableError(
            f"--on {clean(url, limit=80)}: no scheduler answers ({clean(error, limit=80)})"
        ) from None
    with client:
        yield ",".join(header(block(inputs, grid, 0, 1))) + "\n"
        futures = [client.submit(csv_text, inputs, grid, *span, pure=False) for span in grid.blocks(CHUNK)]
        for future in futures:
            try:
                text: str = future.result()
            except (RuntimeError, ImportError) as error:
                raise UnreachableError(
                    f"--on {clean(url, limit=80)}: a chunk failed ({clean(error, limit=120)})",
                    hint="scheduler and workers need this package, in the same version of Python",
                ) from None
            yield text
            future.release()

"""`reprieve plan sweep`: a plan over a grid of inputs, as CSV, JSON, a table, or pictures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from backends.errors import UsageError
from console.cli.parser import convert
from console.cli.planning.inputs import inputs_of
from console.registry.planning import EVERYTHING
from planner.plan.inputs import PlanError, PlanInputs
from planner.sweep import Grid, parse_grid

if TYPE_CHECKING:
    from console.cli.invocation import Invocation
    from planner.arrays.cells import Block

SHOWN = 40  # rows of a table
_DURATIONS = ("mean_run", "lost", "checkpoint_cost", "restore", "upload", "interval", "wait", "deadline")


def run(invocation: Invocation) -> int:
    """Print every cell of the grid."""
    try:
        grid = parse_grid(invocation.arguments["grid"], _value)
        inputs = inputs_of(invocation, grid.names)
        _refuse_both(inputs, grid)
        _print(invocation, inputs, grid)
    except PlanError as error:
        raise UsageError(str(error)) from None
    return 0


def _value(name: str, text: str) -> float:
    """An axis value as typed for the option of that name, in the planner's unit."""
    argument = next(item for item in EVERYTHING if item.name == name.replace("_", "-"))
    value = convert(argument, text.strip(), f"--grid {argument.name}")
    if not isinstance(value, (int, float)):
        raise PlanError(f"--grid {argument.name}: {text.strip()[:40]!r} is no number")
    return value / 3600.0 if name in _DURATIONS else float(value)


def _refuse_both(inputs: PlanInputs, grid: Grid) -> None:
    for name in grid.names:
        fixed = getattr(inputs, name)
        if name not in ("hours", "nodes", "wait", "early_failure_share") and fixed is not None:
            raise PlanError(
                f"--{name.replace('_', '-')} and --grid {name} say the same thing twice: give one"
            )


def _print(invocation: Invocation, inputs: PlanInputs, grid: Grid) -> None:
    cluster, workers = invocation.arguments["on"], invocation.arguments["workers"]
    if workers is not None and workers < 1:
        raise UsageError(f"--workers is {workers}; at least 1 is expected")
    if cluster is not None:
        _on_cluster(invocation, inputs, grid, cluster)
        return
    from planner.arrays.run import run as blocks

    found = blocks(inputs, grid, workers=workers)
    if invocation.output == "csv":
        _csv(invocation, found)
    elif invocation.output == "ndjson":
        _ndjson(invocation, found)
    elif invocation.output == "json":
        _json(invocation, grid, found)
    else:
        _table(invocation, grid, found)


def _on_cluster(invocation: Invocation, inputs: PlanInputs, grid: Grid, url: str) -> None:
    from console.cli.planning.cluster import csv_on_cluster

    if invocation.output != "csv":
        raise UsageError(f"--on writes CSV only, not {invocation.output}: add -o csv")
    for text in csv_on_cluster(inputs, grid, url):
        invocation.renderer.stream.write(text)
    invocation.renderer.stream.flush()


def _csv(invocation: Invocation, found: Iterator[Block]) -> None:
    from planner.arrays.run import header, rows_of

    stream = invocation.renderer.stream
    for done in found:
        if done.start == 0:
            stream.write(",".join(header(done)) + "\n")
        stream.write("".join(",".join(row) + "\n" for row in rows_of(done, missing="")))
    stream.flush()


def _quoted(row: tuple[str, ...]) -> list[str]:
    return [*row[:-1], f'"{row[-1]}"']


def _ndjson(invocation: Invocation, found: Iterator[Block]) -> None:
    from planner.arrays.run import header, rows_of

    stream = invocation.renderer.stream
    for done in found:
        names = [f'"{name}": ' for name in header(done)]
        for row in rows_of(done, missing="null"):
            cells = ", ".join(name + text for name, text in zip(names, _quoted(row), strict=True))
            stream.write('{"schema": "reprieve/sweep-cell/v1", ' + cells + "}\n")
    stream.flush()


def _json(invocation: Invocation, grid: Grid, found: Iterator[Block]) -> None:
    """One document, `rows` under `columns`, written as it comes."""
    from planner.arrays.run import header, rows_of

    stream = invocation.renderer.stream
    for done in found:
        if done.start == 0:
            axes = [{"name": axis.name, "values": list(axis.values)} for axis in grid.axes]
            head: dict[str, Any] = {
                "schema": "reprieve/sweep/v1", "cells": grid.cells, "axes": axes, "columns": header(done),
            }  # fmt: skip
            stream.write(json.dumps(head)[:-1] + ', "rows": [')
        rows = ("[" + ", ".join(_quoted(row)) + "]" for row in rows_of(done, missing="null"))
        stream.write((",\n" if done.start else "\n") + ",\n".join(rows))
    stream.write("]}\n")
    stream.flush()


def _table(invocation: Invocation, grid: Grid, found: Iterator[Block]) -> None:
    from console.cli.cells import Column
    from planner.arrays.cells import VERDICTS

    blocks = list(found)
    items: list[dict[str, Any]] = []
    for done in blocks:
        columns = {name: values[: SHOWN - len(items)].tolist() for name, values in done.columns.items()}
        for index in range(min(SHOWN - len(items), len(done.verdicts))):
            row: dict[str, Any] = {
                name: value if (value := values[index]) == value else None for name, values in columns.items()
            }
            items.append({**row, "verdict": VERDICTS[int(done.verdicts[index])]})
    invocation.emit_listing("sweep-cell", items, [Column(name, name) for name in items[0]])
    if grid.cells > SHOWN:
        invocation.say(f"{SHOWN} of {grid.cells} cells shown; -o csv has them all")
    counts = {
        word: sum(int((done.verdicts == index).sum()) for done in blocks)
        for index, word in enumerate(VERDICTS)
    }
    invocation.say("; ".join(f"{count} {word.replace('_', ' ')}" for word, count in counts.items() if count))
    if invocation.arguments["plot"]:
        from console.pictures.sweep import picture

        invocation.renderer.text("\n" + picture(grid, blocks, colour=invocation.renderer.colour))

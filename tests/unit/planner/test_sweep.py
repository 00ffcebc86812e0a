"""Sweeps: how grids are typed, and that arrays and scalars agree to the last bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import economics, makespan
from planner.advice import evaluate
from planner.arrays import closed
from planner.arrays.cells import FIGURES, VERDICTS, block, prepare
from planner.arrays.run import csv_text, header, rows_of, run
from planner.plan.inputs import PlanError, PlanInputs
from planner.sweep import Axis, Grid, parse_axis, parse_grid

SAVED = PlanInputs(hours=24.0, discount=0.7, checkpoint_cost=0.02, restore=0.05)


def number(name: str, text: str) -> float:
    return float(text)


def test_axes_as_typed() -> None:
    assert parse_axis("rate=0..1:5", number).values == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert parse_axis("rate=0.01..1:3log", number).values == pytest.approx((0.01, 0.1, 1.0))
    assert parse_axis("rate=0.01..1:log3", number) == parse_axis("rate=0.01..1:3log", number)
    assert parse_axis("checkpoint-cost=1,3,2", number) == Axis("checkpoint_cost", (1.0, 3.0, 2.0))
    assert parse_axis("nodes=4..4:1", number).values == (4.0,)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["rate"], "NAME=LO..HI"), (["nothing=1,2"], "NAME one of"), (["rate="], "empty grid"), (["rate=,"], "empty grid"),
        (["rate=1..2"], "LO..HI:STEPS"), (["rate=1..2:0"], "steps"), (["rate=1..2:1"], "one step"),
        (["rate=0..2:3log"], "above 0"), (["rate=1..2:3", "rate=4,5"], "twice"), (["nodes=1.5,2"], "whole numbers"),
        (["rate=0..1:100000", "discount=0..0.5:100000"], "at most"), ([], "empty"), (["band=<5%"], "NAME one of"),
    ],
)  # fmt: skip
def test_grids_that_are_refused_say_why(texts: list[str], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        parse_grid(texts, number)


def test_the_last_axis_varies_fastest_and_blocks_join() -> None:
    grid = Grid((Axis("rate", (0.1, 0.2)), Axis("interval", (1.0, 2.0, 3.0))))
    whole = block(SAVED, grid, 0, 6)
    assert whole.axes["rate"].tolist() == [0.1, 0.1, 0.1, 0.2, 0.2, 0.2]
    assert whole.axes["interval"].tolist() == [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]
    parts = csv_text(SAVED, grid, 0, 2) + csv_text(SAVED, grid, 2, 6)
    assert parts == csv_text(SAVED, grid, 0, 6)
    assert header(whole)[:2] == ["rate_per_hour", "interval_hours"]
    assert len(next(rows_of(whole, missing=""))) == len(header(whole))


numbers = {
    "hours": st.floats(0.5, 300), "discount": st.floats(-0.5, 0.95), "rate": st.floats(0, 3), "reclaims": st.floats(0, 60),
    "lost": st.floats(0, 3), "checkpoint_cost": st.floats(1e-4, 0.5), "restore": st.floats(0, 0.5),
    "interval": st.floats(0.05, 30), "upload": st.floats(0, 0.5), "wait": st.floats(0, 1), "nodes": st.integers(1, 9),
    "early_failure_share": st.floats(0, 0.5),
}  # fmt: skip
MODES: dict[str, tuple[str, ...]] = {
    "loss and r": ("hours", "discount", "reclaims", "lost", "wait", "early_failure_share"),
    "loss and rate": ("hours", "discount", "rate", "lost", "nodes"),
    "saves": ("hours", "discount", "rate", "checkpoint_cost", "restore", "interval", "upload", "wait"),
    "saves, auto": ("hours", "rate", "checkpoint_cost", "restore", "discount"),
    "saves and r": ("reclaims", "checkpoint_cost", "restore", "interval"),
    "no resume": ("hours", "discount", "rate"),
}


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_cell_is_the_plan_of_its_inputs_to_the_last_bit(mode: str, data: st.DataObject) -> None:
    names = MODES[mode]
    axes = tuple(
        Axis(
            name, tuple(float(value) for value in data.draw(st.lists(numbers[name], min_size=1, max_size=2)))
        )
        for name in names
    )
    base = PlanInputs(
        hours=10.0, discount=None if "discount" in names else 0.5, no_resume=mode == "no resume"
    )
    grid = Grid(axes)
    found = block(base, grid, 0, grid.cells)
    for cell in range(grid.cells):
        values: dict[str, Any] = {name: float(column[cell]) for name, column in found.axes.items()}
        if "nodes" in values:
            values["nodes"] = int(values["nodes"])
        try:
            plan = evaluate(base._replace(**values))
        except PlanError:
            assert VERDICTS[found.verdicts[cell]] == "invalid"
            continue
        assert VERDICTS[found.verdicts[cell]] == plan["verdict"]
        wanted = {**plan, **plan["makespan"]}
        for name in FIGURES:
            ours = float(found.figures[name][cell])
            if name == "interval_hours":
                continue
            assert (None if math.isnan(ours) else ours) == wanted[name], (name, values)


@given(
    st.lists(
        st.tuples(numbers["hours"], numbers["discount"], numbers["reclaims"], numbers["lost"]), min_size=1
    )
)
def test_the_article_on_arrays_is_the_article(rows: list[tuple[float, float, float, float]]) -> None:
    found = closed.cost(*(np.array(column) for column in zip(*rows, strict=True)))
    for index, row in enumerate(rows):
        one = economics.cost(*row)
        assert found.billed_hours[index] == one.billed_hours
        assert found.cost_in_on_demand_hours[index] == one.cost_in_on_demand_hours
        assert found.saving_fraction[index] == one.saving_fraction


@given(st.floats(0.01, 1e5), st.floats(1e-9, 1e3))
def test_piece_counts_agree(hours: float, interval: float) -> None:
    assert closed.piece_count(np.array([hours]), np.array([interval]))[0] == makespan.piece_count(
        hours, interval
    )


def test_threads_give_the_same_in_the_same_order() -> None:
    grid = Grid(
        (
            Axis("rate", tuple(np.linspace(0.01, 1, 300).tolist())),
            Axis("interval", tuple(np.linspace(0.1, 3, 500).tolist())),
        )
    )
    one = [done.figures["billed_hours"] for done in run(SAVED, grid, workers=1)]
    four = [done.figures["billed_hours"] for done in run(SAVED, grid, workers=4)]
    assert np.array_equal(np.concatenate(one), np.concatenate(four))
    assert sum(map(len, one)) == grid.cells


def test_what_every_cell_shares_is_checked_before_the_first() -> None:
    for axes, words in (
        ([Axis("rate", (0.1, -0.1))], "--rate"),
        ([Axis("lost", (1.0,))], "--lost"),
        ([Axis("discount", (0.1,))], "how often"),
    ):
        with pytest.raises(PlanError, match=words):
            prepare(SAVED if axes[0].name != "discount" else SAVED._replace(discount=None), Grid(tuple(axes)))


def test_the_chance_to_finish_is_a_column_when_a_deadline_is_given() -> None:
    grid = Grid((Axis("rate", (0.05, 0.2)), Axis("discount", (0.3, 0.6))))
    inputs = SAVED._replace(deadline=27.0, discount=None)
    found = block(inputs, grid, 0, 4)
    for cell in range(4):
        values: dict[str, Any] = {name: float(column[cell]) for name, column in found.axes.items()}
        plan = evaluate(inputs._replace(**values))
        assert found.figures["p_finish"][cell] == plan["deadline"]["p_finish"]
    many = Grid((Axis("rate", tuple(k / 1e6 for k in range(30_000))),))
    with pytest.raises(PlanError, match="whole distribution"):
        prepare(SAVED._replace(deadline=27.0), many)

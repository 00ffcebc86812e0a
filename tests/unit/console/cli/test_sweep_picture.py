"""A heat map keeps the ends of both axes, however little room there is."""

from __future__ import annotations

from console.pictures.draw import heat_map
from console.pictures.sweep import picture
from planner.arrays.run import run
from planner.plan.inputs import PlanInputs
from planner.sweep import parse_grid

INPUTS = PlanInputs(hours=24.0, discount=0.7, checkpoint_cost=0.01, restore=0.05)


def test_the_last_row_and_column_are_drawn() -> None:
    """At 2 h and 1 per hour spot is dearer: the one such cell of the grid is its last."""
    grid = parse_grid(["interval=0.0167..2:31log", "rate=0.01..1:300log"], lambda _, text: float(text))
    blocks = list(run(INPUTS, grid, workers=1))
    lines = picture(grid, blocks, width=80).splitlines()
    top = next(line for line in lines if "│" in line)
    assert top.strip().startswith("2h")
    assert top.endswith("-")
    assert max(map(len, lines)) <= 80


def test_values_that_differ_by_an_eighth_differ_in_the_picture() -> None:
    row = [step / 8 for step in range(9)]
    assert heat_map("t", [row], ["a"], ("0", "1"), width=13).splitlines()[1] == "a │ ▁▂▃▄▅▆▇█"


def test_a_single_row_or_column_is_drawn_too() -> None:
    grid = parse_grid(["interval=0.5", "rate=0.1"], lambda _, text: float(text))
    assert "30m" in picture(grid, list(run(INPUTS, grid, workers=1)), width=40)
    assert heat_map("t", [[0.9, 0.2, 0.1]], ["a"], ("0", "1"), width=6).splitlines()[1] == "a │█ "

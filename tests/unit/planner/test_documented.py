"""The worked numbers of docs/planner.md are what the program answers."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from console.cli.parser import parse, split
from console.cli.planning.inputs import inputs_of
from console.registry.index import find
from planner.advice import evaluate
from tests.support.cli import invocation

PAGE = Path(__file__).resolve().parents[3] / "docs" / "planner.md"


def examples() -> list[tuple[str, list[tuple[str, str]]]]:
    """(command, [(field, value)]) of every indented block that begins with `reprieve plan --`."""
    found: list[tuple[str, list[tuple[str, str]]]] = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        text = line.removeprefix("    ")
        if text == line:
            continue
        if text.startswith("reprieve plan --"):
            found.append((text, []))
        elif " = " in text and found:
            name, _, value = text.partition(" = ")
            found[-1][1].append((name, value))
    return found


@pytest.mark.parametrize(
    ("line", "figures"), examples(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_worked_numbers(line: str, figures: list[tuple[str, str]]) -> None:
    assert figures
    typed = split(shlex.split(line)[1:])
    command = find("plan")
    assert command is not None
    plan: dict[str, Any] = evaluate(
        inputs_of(invocation(arguments=parse(command, typed.rest, {}), words="plan"))
    )
    for name, value in figures:
        found: Any = plan
        for part in name.split("."):
            found = found[part]
        if isinstance(found, (bool, str)):
            assert str(found) == value, name
        else:
            assert found == pytest.approx(float(value), rel=1e-5), name


def test_the_page_has_an_example_of_every_part() -> None:
    fields = {name.partition(".")[0] for _, figures in examples() for name, _ in figures}
    assert {
        "interval",
        "makespan",
        "range",
        "no_resume",
        "deadline",
        "notice",
        "lifetime",
        "usd",
        "billing",
    } <= fields
    assert len(examples()) >= 15

"""Every golden case of the planner, to its tolerance."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.golden.adapter import FAMILIES, evaluate

DATA = Path(__file__).resolve().parents[2].parent / "shared/data/golden/planner_golden.json"


def cases() -> list[Any]:
    if not DATA.exists():
        return [pytest.param(None, marks=pytest.mark.skip(reason="golden data are not on this machine"))]
    return [pytest.param(case, id=case["id"]) for case in json.loads(DATA.read_text())["cases"]]


def same(expected: Any, found: Any, relative: float, absolute: float) -> bool:
    if isinstance(expected, bool) or expected is None:
        return bool(found == expected)
    if expected == "inf":
        return bool(found == math.inf)
    if isinstance(expected, str):  # beyond a double: the planner says infinite and gives the logarithm
        return (
            bool(found == math.inf)
            if abs(float(expected)) == math.inf
            else math.isclose(found, float(expected))
        )
    return math.isclose(found, expected, rel_tol=relative, abs_tol=absolute)


@pytest.mark.parametrize("case", cases())
def test_golden(case: dict[str, Any]) -> None:
    found = evaluate(case["formula"], case["inputs"])
    for name, expected in case["expect"].items():
        assert same(expected, found[name], case["rel_tol"], case.get("abs_tol", 0.0)), (
            name,
            expected,
            found[name],
        )


def test_every_family_is_mapped() -> None:
    if not DATA.exists():
        pytest.skip("golden data are not on this machine")
    document = json.loads(DATA.read_text())
    assert {case["formula"] for case in document["cases"]} == set(FAMILIES)
    assert document["count"] == len(document["cases"]) == 251

"""Plain policies replayed over real availability traces give the anchors' figures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.simulate.replay import POLICIES, Policy, Race, summarise
from tests.support.data import DATA, data

ANCHORS = DATA / "golden/trace_anchors.json"


def settings() -> list[Any]:
    if not ANCHORS.exists():
        return [pytest.param({}, marks=pytest.mark.skip(reason="trace anchors are not on this machine"))]
    return [
        pytest.param(item, id=item["trace"].split("/", 2)[2])
        for item in json.loads(ANCHORS.read_text())["traces"]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("anchor", settings())
def test_policies_on_a_trace(anchor: dict[str, Any]) -> None:
    ratio = json.loads(ANCHORS.read_text())["price_ratio"]
    trace = json.loads(data("spot-traces", anchor["trace"]).read_text())
    up, gap = trace["data"], trace["metadata"]["gap_seconds"]
    assert sum(up) / len(up) == pytest.approx(anchor["available_fraction"])
    for name, expected in anchor.items():
        if not name.startswith("H48"):
            continue
        deadline, overhead = (float(part[1:]) for part in name.split("_")[1:])
        for policy in POLICIES:
            found = summarise(
                policy, Race(48.0, deadline, overhead, gap / 3600, ratio), up, 36 if gap == 600 else 110
            )
            wanted = expected[policy]
            assert (found.windows, found.met_deadline) == (wanted["windows"], wanted["met_deadline"])
            assert found.mean_cost_over_hours == pytest.approx(wanted["mean_cost_over_H"], rel=1e-9)
            assert found.mean_launches == pytest.approx(wanted["mean_launches"], rel=1e-9)


def test_a_trace_says_available_with_one() -> None:
    race = Race(1.0, 4.0, 0.0, 0.5, 0.3)
    always: Policy = "wait"
    assert summarise(always, race, [1] * 8, 8).mean_cost_over_hours == pytest.approx(0.3)
    assert summarise(always, race, [0] * 8, 8).mean_cost_over_hours == pytest.approx(1.0)

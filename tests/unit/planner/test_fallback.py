"""Spot with on-demand as a fallback: cheap with time to spare, on-demand without, and never late."""

from __future__ import annotations

from typing import Any

import pytest

from planner.advice import evaluate
from planner.plan.inputs import PlanInputs

SAVED = PlanInputs(hours=24.0, discount=0.7, rate=0.125, checkpoint_cost=0.01, restore=0.05)


def fallback(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = evaluate(SAVED._replace(**changes))["deadline"]["fallback"]
    return found


def test_with_time_to_spare_it_is_spot() -> None:
    plan = evaluate(SAVED._replace(deadline=100.0))
    found = plan["deadline"]["fallback"]
    assert found["p_switch"] == 0.0
    assert (
        abs(found["cost_in_on_demand_hours"] - plan["cost_in_on_demand_hours"]) < 4 * found["standard_error"]
    )


def test_without_time_for_one_reclaim_it_is_on_demand_from_the_start() -> None:
    found = fallback(deadline=24.2)
    assert (found["cost_in_on_demand_hours"], found["p_switch"], found["saving_fraction"]) == (24.0, 1.0, 0.0)


def test_a_later_deadline_never_costs_more_and_is_never_met_less_often_by_spot() -> None:
    found = [fallback(deadline=limit) for limit in (24.7, 25.0, 25.5, 26.0, 27.0, 30.0)]
    costs = [each["cost_in_on_demand_hours"] for each in found]
    assert costs == sorted(costs, reverse=True)
    switches = [each["p_switch"] for each in found]
    assert switches == sorted(switches, reverse=True)
    assert evaluate(SAVED._replace(deadline=26.0)) == evaluate(SAVED._replace(deadline=26.0)), (
        "one seed, one answer"
    )


def test_waits_bring_the_switch_forward() -> None:
    assert fallback(deadline=27.0, wait=1.0)["p_switch"] > fallback(deadline=27.0)["p_switch"]


@pytest.mark.parametrize(
    "changes", [{"no_resume": True}, {"deadline": 23.0}, {"rate": 0.0}, {"rate": 300.0, "interval": 0.01}]
)
def test_where_there_is_nothing_to_simulate(changes: dict[str, Any]) -> None:
    assert fallback(**{"deadline": 30.0, **changes}) is None

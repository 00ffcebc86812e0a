"""Inputs at the edges of what is allowed: an answer without NaN or infinity, or one line that names the option."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.advice import evaluate
from planner.plan.inputs import PlanError, PlanInputs

_SIZES = st.one_of(st.just(0.0), st.floats(1e-12, 1e9), st.floats(-13, 9.5).map(lambda power: 10.0**power))
_RATES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "r": st.fixed_dictionaries({"reclaims": _SIZES}),
    "rate": st.fixed_dictionaries({"rate": _SIZES}),
    "band": st.fixed_dictionaries(
        {
            "band": st.sampled_from(["<5%", "5-10%", ">20%", "0-1e-9%", "20+%"]),
            "band_basis": st.sampled_from(["month", "hour", "launch"]),
            "mean_run": _SIZES,
        },
        optional={"history_node_hours": _SIZES, "history_reclaims": st.integers(0, 10**6)},
    ),
}
_LOSSES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "L": st.fixed_dictionaries({"lost": _SIZES}),
    "C": st.fixed_dictionaries(
        {"checkpoint_cost": _SIZES, "restore": _SIZES}, optional={"upload": _SIZES, "interval": _SIZES}
    ),
    "S": st.fixed_dictionaries({"size": st.integers(0, 10**15), "bandwidth": _SIZES}),
    "N": st.just({"no_resume": True}),
}
_MORE = st.fixed_dictionaries(
    {"hours": _SIZES, "discount": st.sampled_from([0.0, 0.7, -0.6, 0.999999, -1e6, 1 - 2**-53, 1e-320])},
    optional={
        "deadline": _SIZES, "wait": _SIZES, "nodes": st.sampled_from([1, 8, 10**6]), "notice": _SIZES,
        "early_failure_share": st.floats(0, 0.99), "max_overhead": _SIZES,
        "billing": st.sampled_from(["per-hour", "aws-first-hour-free", "per-second-minimum-60s"]),
    },
)  # fmt: skip


@pytest.mark.parametrize("loss", _LOSSES)
@pytest.mark.parametrize("rate", _RATES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_every_plan_is_answered_or_refused_in_one_line(rate: str, loss: str, data: st.DataObject) -> None:
    values = {**data.draw(_MORE), **data.draw(_RATES[rate]), **data.draw(_LOSSES[loss])}
    try:
        plan = evaluate(PlanInputs(**values))
    except PlanError as error:
        assert "--" in str(error)
        assert "\n" not in str(error)
        return
    json.dumps(plan, allow_nan=False)
    assert plan["deadline"] is None or 0.0 <= plan["deadline"]["p_finish"] <= 1.0
    if plan["billed_hours"] is not None:
        assert plan["billed_hours"] >= values["hours"] * (1 - 1e-9)
        assert plan["reclaims"] == pytest.approx(
            plan["reclaim_rate_per_hour"] * plan["billed_hours"], rel=1e-6
        )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hours": 1e10}, "--hours"), ({"hours": 1e-13}, "--hours"), ({"rate": -1.0}, "--rate"), ({"rate": math.nan}, "--rate"),
        ({"rate": math.inf}, "--rate"), ({"lost": 1e10}, "--lost"), ({"nodes": 10**7}, "--nodes"), ({"discount": -1e7}, "--discount"),
        ({"hours": 1e-300}, "--hours"), ({"early_failure_share": 1.0}, "--early-failure-share"),
    ],
)  # fmt: skip
def test_absurd_values_name_option_value_and_range(changes: dict[str, Any], words: str) -> None:
    base: dict[str, Any] = {"hours": 24.0, "discount": 0.7, "rate": 0.1, "lost": 0.1}
    with pytest.raises(PlanError, match=words) as caught:
        evaluate(PlanInputs(**{**base, **changes}))
    assert "is expected" in str(caught.value)
    assert "finite number" in str(caught.value)


def test_the_deviation_where_one_less_lambda_l_is_below_a_rounding_error() -> None:
    plan = evaluate(PlanInputs(hours=1e-12, discount=0.0, reclaims=88.0, lost=63.0))
    # (L + w) √r billed/H, worked by hand: 63 · √88 · 5544/1e-12
    assert plan["makespan"]["wall_deviation_hours"] == pytest.approx(63 * 88**0.5 * 5544e12, rel=1e-12)


def test_prices_whose_discount_rounds_to_one_are_refused() -> None:
    with pytest.raises(PlanError, match="discount must be less than 1"):
        evaluate(PlanInputs(hours=24.0, spot_price=1e-300, on_demand_price=10.0, rate=0.1, lost=0.1))
    with pytest.raises(PlanError, match="--spot-price is 0"):
        evaluate(PlanInputs(hours=24.0, spot_price=0.0, on_demand_price=10.0, rate=0.1, lost=0.1))


def test_a_rate_whose_product_with_the_hours_vanishes_is_none() -> None:
    plan = evaluate(PlanInputs(hours=1e-12, discount=0.7, rate=5e-324, no_resume=True))
    assert (plan["billed_hours"], plan["verdict"]) == (1e-12, "pays")


def test_without_a_resume_a_job_longer_than_any_life_never_finishes() -> None:
    bathtub = "bathtub:.45,1,.8,24"
    plan = evaluate(PlanInputs(hours=48.0, discount=0.95, lifetime=bathtub, no_resume=True))
    assert (plan["verdict"], plan["billed_hours"], plan["saving_fraction"]) == ("never_finishes", None, None)
    plan = evaluate(PlanInputs(hours=12.0, discount=0.95, lifetime=bathtub, no_resume=True))
    assert plan["verdict"] == "pays"


def test_saves_dearer_than_the_work_are_not_called_hopeless() -> None:
    values = {
        "hours": 23.0,
        "discount": 0.95,
        "lifetime": "bathtub:.45,1,.8,24",
        "checkpoint_cost": 30.0,
        "restore": 0.1,
    }
    warnings = evaluate(PlanInputs(**values))["warnings"]  # type: ignore[arg-type]  # test data
    assert any("do not save" in text for text in warnings)
    assert not any("no schedule" in text for text in warnings)

"""The plan document: the worked example, the definitions, what is refused, and what must never happen."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner import intervals
from planner.advice import evaluate
from planner.makespan import expected_makespan
from planner.plan.inputs import PlanError, PlanInputs

EXAMPLE = PlanInputs(hours=24.0, discount=0.7, reclaims=3.0, lost=1 / 6)
SAVED = PlanInputs(hours=24.0, discount=0.7, rate=0.125, checkpoint_cost=0.02, restore=0.05)


def replace(inputs: PlanInputs, **changes: Any) -> PlanInputs:
    return inputs._replace(**changes)


def test_the_worked_example() -> None:
    plan = evaluate(EXAMPLE)
    expected = {
        "billed_hours": 24.5, "cost_in_on_demand_hours": 7.35, "saving_fraction": 0.69375, "lost_ratio": 0.5 / 24,
        "break_even_ratio": 7 / 3, "break_even_reclaims": 336.0, "break_even_lost_hours": 56 / 3,
        "break_even_discount": 1 / 49, "break_even_rate_per_hour": 4.2, "discount_points_lost": 0.00625,
        "reclaims": 3.0, "reclaim_rate_per_hour": 3 / 24.5,
    }  # fmt: skip
    for name, value in expected.items():
        assert plan[name] == pytest.approx(value, rel=1e-12), name
    assert plan["verdict"] == "pays"
    assert plan["interval"] is plan["range"] is plan["deadline"] is plan["notice"] is plan["usd"] is None


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"reclaims": 336.0}, "breaks_even"),
        ({"reclaims": 337.0}, "does_not_pay"),
        ({"discount": 0.0, "reclaims": 0.0}, "breaks_even"),
        ({"discount": -0.62}, "does_not_pay"),
        ({"reclaims": None, "rate": 6.0}, "never_finishes"),
        ({"reclaims": None, "rate": 0.0}, "pays"),
    ],
)
def test_verdicts(changes: dict[str, Any], verdict: str) -> None:
    plan = evaluate(replace(EXAMPLE, **changes))
    assert plan["verdict"] == verdict
    if verdict == "never_finishes":
        assert plan["billed_hours"] is None
        assert plan["saving_fraction"] is None
        assert any("for ever" in text for text in plan["warnings"])


def test_reclaims_are_the_rate_times_billed_hours_always() -> None:
    for inputs in (
        EXAMPLE,
        SAVED,
        replace(SAVED, nodes=4),
        replace(SAVED, rate=None, reclaims=5.0),
        replace(SAVED, upload=0.1),
    ):
        plan = evaluate(inputs)
        assert plan["reclaims"] == pytest.approx(
            plan["reclaim_rate_per_hour"] * plan["billed_hours"], rel=1e-9
        )


def test_costs_are_charged_at_the_recommended_interval() -> None:
    plan = evaluate(SAVED)
    span = expected_makespan(24.0, 0.125, 0.02, 0.05, plan["interval"]["recommended_hours"])
    assert plan["billed_hours"] == span.expected_billed_hours
    assert plan["checkpoint_overhead_hours"] == pytest.approx(span.failure_free_hours - 24.0)
    assert plan["interval"]["safe_low_hours"] < 0.5 < plan["interval"]["safe_high_hours"]
    assert plan["interval"]["recommended_hours"] == 0.5


def test_break_evens_with_saves_are_where_spot_costs_the_same() -> None:
    plan = evaluate(replace(SAVED, interval=1.0))
    at_edge = evaluate(replace(SAVED, interval=1.0, rate=plan["break_even_rate_per_hour"]))
    assert at_edge["saving_fraction"] == pytest.approx(0.0, abs=1e-9)
    assert at_edge["verdict"] == "breaks_even"
    by_discount = evaluate(replace(SAVED, interval=1.0, discount=plan["break_even_discount"]))
    assert by_discount["saving_fraction"] == pytest.approx(0.0, abs=1e-12)


def test_a_given_count_is_met_exactly() -> None:
    plan = evaluate(replace(SAVED, rate=None, reclaims=7.0))
    assert plan["reclaims"] == pytest.approx(7.0, rel=1e-9)


def test_bands_are_never_a_bare_percentage() -> None:
    month = evaluate(replace(EXAMPLE, reclaims=None, band="<5%", band_basis="month"))
    hour = evaluate(replace(EXAMPLE, reclaims=None, band="0-5%", band_basis="hour"))
    launch = evaluate(replace(EXAMPLE, reclaims=None, band="<5%", band_basis="launch", mean_run=24.0))
    rates = [plan["reclaim_rate_per_hour"] for plan in (month, hour, launch)]
    assert rates == pytest.approx([-math.log(0.95) / 720, -math.log(0.95), 0.05 / (0.95 * 24)])
    assert month["range"]["low"]["reclaim_rate_per_hour"] == 0.0
    assert "month" in month["sources"]["reclaims"]
    both = evaluate(replace(EXAMPLE, band="<5%", band_basis="month"))
    assert both["reclaims"] == 3.0
    assert "not 3" in both["warnings"][0]


def test_own_history_is_weighed_against_the_band() -> None:
    plan = evaluate(
        replace(
            EXAMPLE,
            reclaims=None,
            band="<5%",
            band_basis="month",
            history_node_hours=100.0,
            history_reclaims=5,
        )
    )
    weights = [part["weight"] for part in plan["history"]["weights"]]
    assert sum(weights) == pytest.approx(1.0)
    assert weights[1] > 0.99, "five reclaims in 100 h cannot come from the band"
    low, high = (plan["range"][end]["reclaim_rate_per_hour"] for end in ("low", "high"))
    assert low < plan["reclaim_rate_per_hour"] < high


def test_the_notice() -> None:
    plan = evaluate(replace(EXAMPLE, size=670 * 2**30, bandwidth=1e10, notice=120.0))
    assert plan["notice"]["fits"] is True
    assert plan["notice"]["save_s"] == pytest.approx(71.94, abs=0.01)
    assert (
        evaluate(replace(EXAMPLE, size=670 * 2**30, bandwidth=1e9, notice=120.0))["notice"]["fits"] is False
    )
    assert evaluate(replace(EXAMPLE, notice=120.0))["notice"]["fits"] is None


def test_deadlines() -> None:
    early = evaluate(replace(EXAMPLE, deadline=20.0))
    assert early["deadline"]["p_finish"] == 0.0
    assert early["warnings"]
    exact = evaluate(replace(SAVED, interval=1.0, deadline=24.46))
    assert exact["deadline"]["p_finish"] == pytest.approx(math.exp(-0.125 * 24.46)), (
        "the atom at the failure-free time"
    )
    sure = evaluate(replace(SAVED, deadline=60.0))
    assert sure["deadline"]["p_finish"] == pytest.approx(1.0, abs=1e-6)
    assert sure["deadline"]["latest_switch_hours"] == pytest.approx(60 - 24 - 0.05)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hours": 0.0}, "--hours"),
        ({"hours": math.nan}, "--hours"),
        ({"discount": 1.0}, "--discount"),
        ({"discount": None}, "--discount"),
        ({"spot_price": 1.0}, "twice"),
        ({"reclaims": -1.0}, "--reclaims"),
        ({"rate": 0.1}, "twice"),
        ({"reclaims": None}, "--reclaims"),
        ({"reclaims": math.inf}, "--reclaims"),
        ({"lost": None}, "--lost"),
        ({"checkpoint_cost": 0.1, "restore": 0.1}, "cannot stand together"),
        ({"lost": None, "checkpoint_cost": 0.1}, "--restore"),
        ({"lost": None, "checkpoint_cost": 0.0, "restore": 0.1}, "--checkpoint-cost"),
        ({"lost": None, "checkpoint_cost": 0.1, "restore": 0.1, "interval": 0.1, "upload": 0.2}, "--upload"),
        ({"band": "<5%"}, "--band-basis"),
        ({"band": "5 percent", "band_basis": "month"}, "--band"),
        ({"band": "<5%", "band_basis": "launch"}, "--mean-run"),
        ({"notice_reliability": 1.0}, "--notice-reliability"),
        ({"nodes": 0}, "--nodes"),
        ({"size": 5}, "--bandwidth"),
        ({"billing": "barter"}, "--billing"),
        ({"deadline": 0.0}, "--deadline"),
    ],
)
def test_what_is_refused_names_the_option(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanError) as caught:
        evaluate(replace(EXAMPLE, **changes))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


rates = st.floats(1e-6, 2.0)
saves = st.floats(1e-4, 0.5)


@given(rates, saves)
def test_the_exact_optimum_is_a_minimum_and_falls_as_the_rate_rises(rate: float, save: float) -> None:
    best = intervals.exact(rate, save)
    for other in (best * 0.98, best * 1.02):
        assert intervals.overhead(best, rate, save) <= intervals.overhead(other, rate, save) * (1 + 1e-14)
    assert intervals.exact(rate * 1.01, save) < best
    assert intervals.rate_of_exact(best, save) == pytest.approx(rate, rel=1e-6)


@given(rates, saves)
def test_the_safe_range_holds_the_optimum_and_costs_one_per_cent(rate: float, save: float) -> None:
    low, high = intervals.safe_range(rate, save)
    best = intervals.exact(rate, save)
    assert low < best < high
    for end in (low, high):
        assert intervals.overhead(end, rate, save) == pytest.approx(
            1.01 * intervals.overhead(best, rate, save), rel=1e-9
        )


@given(st.floats(0.5, 200), rates, saves, st.floats(0, 0.5), st.integers(2, 40))
def test_expected_reclaims_are_the_rate_times_exposed_hours(
    h: float, rate: float, save: float, restore: float, n: int
) -> None:
    span = expected_makespan(h, rate, save, restore, h / n)
    assume(span.expected_billed_hours < 1e200)
    assert span.expected_reclaims == pytest.approx(rate * span.expected_billed_hours, rel=1e-9)
    assert span.expected_billed_hours >= span.failure_free_hours * (1 - 1e-12)


@settings(max_examples=60)
@given(st.floats(1, 500), st.floats(-0.5, 0.95), st.floats(0, 50), st.floats(0.01, 5))
def test_more_reclaims_and_longer_losses_never_raise_the_saving(
    h: float, d: float, r: float, lost: float
) -> None:
    inputs = PlanInputs(hours=h, discount=d, reclaims=r, lost=lost)
    saving = evaluate(inputs)["saving_fraction"]
    assert evaluate(replace(inputs, reclaims=r + 1))["saving_fraction"] <= saving
    assert evaluate(replace(inputs, lost=lost * 2))["saving_fraction"] <= saving


@settings(max_examples=60)
@given(st.floats(1, 100), st.floats(0.001, 0.5), st.floats(0.001, 0.2), st.floats(0, 0.2))
def test_a_higher_rate_never_raises_the_saving_at_one_interval(
    h: float, rate: float, save: float, restore: float
) -> None:
    inputs = PlanInputs(
        hours=h, discount=0.6, rate=rate, checkpoint_cost=save, restore=restore, interval=h / 7
    )
    first, second = evaluate(inputs), evaluate(replace(inputs, rate=rate * 1.5))
    assert second["verdict"] == "never_finishes" or second["saving_fraction"] <= first["saving_fraction"]

"""One formula turned wrong in each of many families: the family's golden cases must see it."""

from __future__ import annotations

import inspect
import json
from types import ModuleType
from typing import Any

import pytest

from planner import billing, deadline, economics, hazards, intervals, makespan, notice
from planner.lives import lifetimes
from tests.golden.adapter import evaluate
from tests.golden.test_golden import DATA, same

# family, module, function, what stands there, what is planted
PLANTED = [
    ("seed_cost", economics, "cost", "hours + reclaims * lost_hours", "hours + reclaims"),
    ("breakeven_ratio", economics, "break_even_ratio", "(1.0 - discount)", "(1.0 + discount)"),
    ("breakeven_reclaims", economics, "break_even_reclaims", "/ lost_hours", "* lost_hours"),
    ("breakeven_discount", economics, "break_even_discount", "(1.0 + ratio)", "(1.0 - ratio)"),
    ("breakeven_loss", economics, "break_even_lost_hours", "/ reclaims", "* reclaims"),
    ("breakeven_no_resume", makespan, "break_even_no_resume", "math.expm1(x) / x", "math.exp(x) / x"),
    ("breakeven_rate_checkpointed", intervals, "break_even_rate", "exp(rate * restore_hours) *", "1.0 *"),
    ("optimum_interval", intervals, "daly", "half / 9.0", "half / 3.0"),
    ("optimum_interval_minutes", intervals, "exact", "x / rate_per_hour", "x / rate_per_hour - save_hours"),
    ("first_order_periods", intervals, "first_order_periods", "- wait_hours -", "+ wait_hours -"),
    ("expected_makespan", makespan, "expected_makespan", "(pieces - 1) * expm1", "pieces * expm1"),
    ("expected_makespan", makespan, "expected_makespan", "(1.0 / rate_per_hour + restore_hours)", "(1.0 / rate_per_hour)"),
    ("expected_cost", economics, "cost_of_billed", "1.0 - price / hours", "1.0 - price / billed_hours"),
    ("optimal_plan", intervals, "optimal_plan", "(pieces - 1) * save_hours", "pieces * save_hours"),
    ("mean_time_lost_given_reclaim_in_exposure", makespan, "mean_time_lost", "/ expm1(x)", "/ exp(x)"),
    ("no_resume_exponential", makespan, "no_resume", "expm1(x) / rate_per_hour", "exp(x) / rate_per_hour"),
    ("no_resume_weibull", lifetimes, "weibull_no_resume", "gamma_p(1.0 / shape, x)", "gamma_p(shape, x)"),
    ("p_finish_no_resume", deadline, "p_finish_no_resume", "math.factorial(k - 1)", "math.factorial(k)"),
    ("p_finish_checkpointed", deadline, "p_finish_saved", "slack - reclaims * d", "slack"),
    ("self_consistent_reclaims", economics, "self_consistent_reclaims", "(1.0 - product)", "(1.0 + product)"),
    ("p_finish_fixed_loss", deadline, "p_finish_fixed_loss", "rate_per_hour * lost_hours, lost", "rate_per_hour, lost"),
    ("band_to_hazard", hazards, "hazard_of_share", "-math.log1p(-share)", "share"),
    ("per_launch_fraction_to_hazard", hazards, "rate_of_launch_share", "((1.0 - share) *", "("),
    ("gang_of_nodes", makespan, "gang", "math.exp(-rate * hours)", "math.exp(-rate_per_hour * hours)"),
    ("notice_interval", notice, "notice_interval", "(1.0 - usable_share) * rate", "usable_share * rate"),
    ("prediction_waste", notice, "prediction_waste", "* period_hours / 2.0", "* period_hours"),
    ("overlapped_interval", intervals, "overlapped_period", "(1.0 - share)", "(1.0 + share)"),
    ("billing_round_up", billing, "rounded_up", "granule_hours / -math.expm1", "granule_hours / math.exp"),
    ("billing_minimum", billing, "with_minimum", "minimum_hours + ", ""),
    ("billing_free_if_reclaimed_early", billing, "free_when_early", "(free_hours + mean)", "mean"),
    ("weibull_conditional_survival", lifetimes, "weibull_conditional", "now - later", "-later"),
    ("deadline_guard", deadline, "guard", "(hours - done_hours)", "hours"),
]  # fmt: skip


def failing(family: str) -> list[str]:
    """The golden cases of a family that do not hold."""
    cases = [case for case in json.loads(DATA.read_text())["cases"] if case["formula"] == family]
    return [case["id"] for case in cases if not holds(case)]


def holds(case: dict[str, Any]) -> bool:
    try:
        found = evaluate(case["formula"], case["inputs"])
    except (ArithmeticError, ValueError):
        return False
    return all(
        same(expected, found[name], case["rel_tol"], case.get("abs_tol", 0.0))
        for name, expected in case["expect"].items()
    )


@pytest.mark.skipif(not DATA.exists(), reason="golden data are not on this machine")
@pytest.mark.parametrize(
    ("family", "module", "function", "right", "wrong"), PLANTED, ids=[f"{row[0]}: {row[4]}" for row in PLANTED]
)  # fmt: skip
def test_a_wrong_formula_makes_its_family_fail(
    family: str, module: ModuleType, function: str, right: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = inspect.getsource(getattr(module, function))
    assert right in source, f"{function} no longer reads {right!r}: plant another error"
    names = dict(vars(module))
    code = "from __future__ import annotations\n" + source.replace(right, wrong)
    exec(compile(code, f"<{function}: {wrong}>", "exec"), names)
    assert not failing(family)
    monkeypatch.setattr(module, function, names[function])
    assert failing(family)

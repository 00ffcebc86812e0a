"""The contract's definitions 1 to 13 one by one, each against arithmetic of its own."""

from __future__ import annotations

import math
from typing import Any

import pytest

from planner import intervals
from planner.advice import evaluate
from planner.plan.inputs import PlanError, PlanInputs

LOSS = PlanInputs(hours=24.0, discount=0.7, rate=0.125, lost=0.5)
SAVED = PlanInputs(hours=24.0, discount=0.7, rate=0.125, checkpoint_cost=0.02, restore=0.05)


def with_r(inputs: PlanInputs, reclaims: float, **more: Any) -> dict[str, Any]:
    return evaluate(inputs._replace(rate=None, reclaims=reclaims, **more))


def test_1_r_counts_every_reclaim_suffered() -> None:
    assert with_r(LOSS, 3.0)["reclaim_rate_per_hour"] == 3.0 / (24.0 + 3.0 * 0.5)
    assert with_r(LOSS, 3.0, lost=None, no_resume=True)["reclaim_rate_per_hour"] == 3.0 / 24.0
    saved = with_r(SAVED, 3.0, interval=1.0)
    again = evaluate(SAVED._replace(rate=saved["reclaim_rate_per_hour"], interval=1.0))
    assert again["reclaims"] == pytest.approx(3.0, rel=1e-12)


def test_2_a_rate_with_a_loss_is_self_consistent() -> None:
    plan = evaluate(LOSS)
    assert plan["reclaims"] == pytest.approx(0.125 * 24.0 / (1 - 0.0625), rel=1e-15)
    assert plan["billed_hours"] == 24.0 + plan["reclaims"] * 0.5


def test_3_saves_restores_and_an_upload_by_hand() -> None:
    lam, tau, save, restore, upload = 0.125, 5.0, 0.02, 0.05, 0.3
    plan = evaluate(SAVED._replace(interval=tau, upload=upload))
    e = math.expm1
    w, last = tau + save, 4.0
    first = math.exp(lam * restore) * e(lam * (w + upload))
    rest = math.exp(lam * (restore + upload)) * (3 * e(lam * w) + e(lam * (last - upload)))
    assert plan["reclaims"] == pytest.approx(first + rest, rel=1e-14)
    assert plan["makespan"]["failure_free_hours"] == pytest.approx(24 + 4 * save)
    assert plan["lost_hours_per_reclaim"] == pytest.approx(
        (plan["billed_hours"] - 24 - 4 * save) / plan["reclaims"]
    )


def test_3_a_last_save_that_cannot_end_in_time_is_dropped() -> None:
    plan = evaluate(
        SAVED._replace(interval=5.9, upload=0.5)
    )  # pieces of 5.9 leave 0.4 h, less than the upload
    assert plan["checkpoint_overhead_hours"] == pytest.approx(3 * 0.02)
    kept = evaluate(SAVED._replace(interval=5.9, upload=0.3))
    assert kept["checkpoint_overhead_hours"] == pytest.approx(4 * 0.02)
    with pytest.raises(PlanError, match="--upload"):
        evaluate(SAVED._replace(interval=0.2, upload=0.3))
    with pytest.raises(PlanError, match="--interval of at least"):
        evaluate(SAVED._replace(upload=3.0))
    alone = evaluate(SAVED._replace(rate=1e-5, upload=3.0))
    assert alone["interval"]["recommended_hours"] is None, "one piece is never uploaded"


def test_4_break_evens_of_both_kinds() -> None:
    plan = evaluate(SAVED._replace(interval=1.0))
    room = 24 / 0.3 - (24 + 23 * 0.02)
    assert plan["break_even_reclaims"] == pytest.approx(room / plan["lost_hours_per_reclaim"])
    assert plan["break_even_lost_hours"] == pytest.approx((1 - (24 + 23 * 0.02) * 0.3 / 24) / 0.125)
    counted = with_r(SAVED, 4.0, interval=1.0)
    assert counted["break_even_lost_hours"] == pytest.approx(room / 4.0)
    dearer = evaluate(LOSS._replace(discount=-0.1))
    for name in ("reclaims", "lost_hours", "rate_per_hour", "ratio"):
        assert dearer[f"break_even_{name}"] is None
    never = evaluate(LOSS._replace(rate=0.0))
    assert never["break_even_lost_hours"] is None, "no reclaims: any loss will do"
    assert evaluate(LOSS._replace(lost=0.0))["break_even_reclaims"] is None


def test_5_beyond_a_double_the_logarithm_is_left() -> None:
    plan = evaluate(PlanInputs(hours=1000.0, discount=0.7, rate=1.0, no_resume=True))
    assert plan["verdict"] == "never_finishes"
    assert plan["billed_hours"] is plan["reclaims"] is plan["saving_fraction"] is None
    assert plan["no_resume"]["expected_hours"] is None
    assert plan["no_resume"]["log10_expected_hours"] == pytest.approx(1000 / math.log(10))
    edge = evaluate(LOSS._replace(rate=2.0))
    assert edge["verdict"] == "never_finishes", "λL = 1 exactly"


def test_6_the_interval_of_a_count_is_chosen_at_the_best_plans_rate() -> None:
    plan = with_r(SAVED, 3.0)
    part = plan["interval"]
    best = intervals.optimal_plan(24.0, part["rate_per_hour"], 0.02, 0.05)
    assert part["rate_per_hour"] * best.expected_billed_hours == pytest.approx(3.0, rel=1e-9)
    assert plan["reclaims"] == pytest.approx(3.0, rel=1e-9)
    assert plan["reclaim_rate_per_hour"] != part["rate_per_hour"], (
        "the plan's own rate is at the rounded interval"
    )
    own = with_r(SAVED, 3.0, interval=1.0)
    assert own["interval"]["rate_per_hour"] == own["reclaim_rate_per_hour"]


def test_6_recommended_is_the_nearest_rung_inside_the_safe_range() -> None:
    for rate in (0.001, 0.02, 0.125, 0.7, 3.0):
        part = evaluate(SAVED._replace(rate=rate))["interval"]
        low, high, best = part["safe_low_hours"], part["safe_high_hours"], part["exact_hours"]
        rungs = [rung for rung in intervals.LADDER_HOURS if low <= rung <= high]
        assert part["recommended_hours"] == min(rungs, key=lambda rung: abs(math.log(rung / best)))
    assert evaluate(SAVED._replace(rate=1e-5))["interval"]["recommended_hours"] is None
    with pytest.raises(PlanError, match="--checkpoint-cost is 0"):
        evaluate(SAVED._replace(checkpoint_cost=0.0))
    assert evaluate(SAVED._replace(checkpoint_cost=0.0, interval=1.0))["interval"] is None


def test_6_an_overhead_cap_is_a_second_constraint() -> None:
    free = evaluate(SAVED)["interval"]
    assert (free["recommended_hours"], free["capped_by_max_overhead"]) == (0.5, False)
    plan = evaluate(SAVED._replace(max_overhead=0.02))
    assert (plan["interval"]["recommended_hours"], plan["interval"]["capped_by_max_overhead"]) == (1.0, True)
    assert 0.02 / plan["interval"]["recommended_hours"] <= 0.02
    assert any("--max-overhead" in text for text in plan["warnings"])
    own = evaluate(SAVED._replace(max_overhead=0.02, interval=0.5))
    assert any("more than --max-overhead" in text for text in own["warnings"])
    assert own["checkpoint_overhead_hours"] == pytest.approx(47 * 0.02), "the user's own interval stands"


def test_7_a_band_is_planned_at_its_high_end_with_the_minimax_interval() -> None:
    inputs = SAVED._replace(rate=None, band="5-10%", band_basis="hour")
    plan = evaluate(inputs)
    low, high = -math.log(0.95), -math.log(0.9)
    assert plan["reclaim_rate_per_hour"] == pytest.approx(high, rel=1e-14)
    assert plan["range"]["low"]["reclaim_rate_per_hour"] == pytest.approx(low, rel=1e-14)
    assert plan["range"]["high"]["billed_hours"] == plan["billed_hours"]
    tau = plan["interval"]["exact_hours"]
    regrets = [intervals.overhead(tau, r, 0.02) - intervals.least_overhead(r, 0.02) for r in (low, high)]
    assert regrets[0] == pytest.approx(regrets[1], rel=1e-6)
    part = plan["interval"]
    assert part["young_hours"] == intervals.young(part["rate_per_hour"], 0.02), "every field is at one rate"
    assert part["safe_low_hours"] < tau < part["safe_high_hours"]


def test_7_a_published_figure_never_stretches_the_interval_beyond_100_saves() -> None:
    plan = evaluate(SAVED._replace(rate=None, band="<5%", band_basis="month"))
    assert plan["interval"]["exact_hours"] > 2.0
    assert plan["interval"]["recommended_hours"] == 2.0 == 100 * 0.02
    short = evaluate(SAVED._replace(rate=None, band="<5%", band_basis="month", hours=1.5))
    assert short["interval"]["recommended_hours"] is None


def test_7_a_users_own_figure_beats_a_band() -> None:
    beside = evaluate(LOSS._replace(band="<5%", band_basis="month"))
    assert beside["reclaim_rate_per_hour"] == 0.125
    assert beside["range"]["high"]["reclaim_rate_per_hour"] == pytest.approx(-math.log(0.95) / 720)
    assert "at most 0.00171 reclaims in 24 h, not 3" in beside["warnings"][0]


def test_8_own_history_by_hand() -> None:
    plan = evaluate(
        LOSS._replace(rate=None, band="0-5%", band_basis="hour", history_node_hours=50.0, history_reclaims=2)
    )
    high = -math.log(0.95)
    a, b = 3.0, 6.0 / high
    logs = [
        math.log(weight)
        + math.lgamma(shape + 2)
        - math.lgamma(shape)
        + shape * math.log(rate)
        - (shape + 2) * math.log(rate + 50)
        for weight, shape, rate in ((0.95, a, b), (0.05, 0.5, 4.0))
    ]
    weights = [math.exp(value) / sum(map(math.exp, logs)) for value in logs]
    assert [part["weight"] for part in plan["history"]["weights"]] == pytest.approx(weights)
    mean = weights[0] * (a + 2) / (b + 50) + weights[1] * 2.5 / 54
    assert plan["reclaim_rate_per_hour"] == pytest.approx(mean)
    assert "own history" in plan["sources"]["reclaims"]
    ignored = evaluate(LOSS._replace(history_node_hours=50.0))
    assert any("own history is not used" in text for text in ignored["warnings"])


def test_9_several_nodes_stop_together() -> None:
    plan = evaluate(LOSS._replace(nodes=4, rate=0.05))
    assert plan["reclaim_rate_per_hour"] == 0.2
    ends = [plan["range"][end]["reclaim_rate_per_hour"] for end in ("low", "high")]
    assert ends == [0.05, 0.2]
    band = evaluate(LOSS._replace(nodes=4, rate=None, band="5-10%", band_basis="hour"))
    assert band["range"]["low"]["reclaim_rate_per_hour"] == pytest.approx(-math.log(0.95))
    assert band["reclaim_rate_per_hour"] == pytest.approx(4 * -math.log(0.9))
    gang = with_r(LOSS, 3.0, nodes=4)
    assert (gang["reclaims"], gang["range"]) == (3.0, None)


def test_10_without_a_resume_the_work_is_repeated() -> None:
    plan = evaluate(SAVED._replace(no_resume=True))
    assert plan["reclaims"] == pytest.approx(math.expm1(3.0))
    assert plan["billed_hours"] == pytest.approx(math.expm1(3.0) / 0.125)
    assert plan["checkpoint_overhead_hours"] == 0.0
    assert plan["break_even_discount"] is plan["break_even_rate_per_hour"] is None
    calm = evaluate(SAVED._replace(no_resume=True, rate=0.0))
    assert (calm["billed_hours"], calm["no_resume"]["expected_hours"]) == (24.0, 24.0)
    assert evaluate(LOSS._replace(discount=-0.5))["no_resume"]["break_even_mean_reclaims"] is None


def test_11_deadlines_know_the_restore_and_the_wait() -> None:
    plan = evaluate(SAVED._replace(deadline=30.0))
    assert plan["deadline"]["latest_switch_hours"] == pytest.approx(30 - 24 - 0.05)
    assert evaluate(LOSS._replace(deadline=30.0))["deadline"]["latest_switch_hours"] == 6.0
    quick, slow = (
        evaluate(LOSS._replace(deadline=26.0, wait=wait))["deadline"]["p_finish"] for wait in (0.0, 1.0)
    )
    assert slow < quick
    alone = [
        evaluate(LOSS._replace(lost=None, no_resume=True, deadline=60.0, wait=wait))["deadline"]["p_finish"]
        for wait in (0.0, 1e-6, 2.0)
    ]
    assert alone[1] == pytest.approx(alone[0], abs=1e-4)
    assert alone[2] < alone[0]
    never = evaluate(LOSS._replace(deadline=23.0))
    assert never["deadline"]["p_finish"] == 0.0
    assert any("cannot be met" in text for text in never["warnings"])


def test_12_a_trusted_notice_stretches_youngs_interval_and_nothing_else() -> None:
    plain = evaluate(SAVED._replace(notice=120.0))
    trusting = evaluate(SAVED._replace(notice=120.0, notice_reliability=0.9))
    assert plain["notice"]["save_s"] == pytest.approx(72.0)
    assert (plain["notice"]["usable_s"], plain["notice"]["fits"]) == (84.0, True)
    young = plain["interval"]["young_hours"]
    assert plain["notice"]["interval_if_trusted_hours"] == young
    assert trusting["notice"]["interval_if_trusted_hours"] == pytest.approx(young / math.sqrt(0.1))
    for part in ("interval", "billed_hours", "reclaims", "makespan"):
        assert trusting[part] == plain[part]
    both = evaluate(SAVED._replace(notice=120.0, upload=0.1))
    assert both["notice"]["save_s"] == pytest.approx((0.02 + 0.1) * 3600)


def test_13_money_and_billing() -> None:
    inputs = LOSS._replace(discount=None, spot_price=3.0, on_demand_price=10.0, nodes=2)
    plan = evaluate(inputs)
    usd = plan["usd"]
    assert usd["on_demand"] == 2 * 24 * 10
    assert usd["spot"] == pytest.approx(2 * plan["billed_hours"] * 3)
    assert usd["per_reclaim"] == pytest.approx(2 * 0.5 * 3)
    ruled = evaluate(inputs._replace(billing="aws-first-hour-free"))
    share = math.exp(-0.125) * (1 + 1 / 0.125) * 0.125  # of one node's life, not of the gang's
    assert ruled["billing"]["paid_hours"] == pytest.approx(ruled["billed_hours"] * share)
    assert (ruled["billing"]["rule"], ruled["billing"]["label"]) == ("aws-first-hour-free", "long-run")
    assert plan["billing"] is None


def test_13_checkpoints_cost_money_too() -> None:
    inputs = SAVED._replace(interval=1.0, size=100 * 2**30, store_price=0.02, transfer_price=0.01, keep=3)
    usd = evaluate(inputs)["usd"]
    plan = evaluate(SAVED._replace(interval=1.0))
    assert usd["checkpoint_transfer"] == pytest.approx((23 + plan["reclaims"]) * 100 * 0.01)
    assert usd["checkpoint_storage"] == pytest.approx(3 * 100 * 0.02 * plan["billed_hours"] / 730)
    assert usd["spot"] is usd["saving_after_checkpoints"] is None
    with pytest.raises(PlanError, match="--size"):
        evaluate(SAVED._replace(store_price=0.02))


def test_early_failures_cost_one_more_restore_each() -> None:
    plain = evaluate(SAVED._replace(interval=1.0, restore=0.05 / 0.8))
    early = evaluate(SAVED._replace(interval=1.0, early_failure_share=0.2))
    assert early["billed_hours"] == pytest.approx(plain["billed_hours"], rel=1e-12)
    loss = evaluate(LOSS._replace(early_failure_share=0.5))
    assert loss["lost_hours_per_reclaim"] == 1.0
    assert any("fail before" in text for text in early["assumptions"])


def test_lifetimes_say_that_a_fixed_interval_is_not_optimal() -> None:
    base = PlanInputs(
        hours=20.0, discount=0.7, lifetime="bathtub:0.45,1,0.8,24", checkpoint_cost=0.1, restore=0.1
    )
    plan = evaluate(base)
    part = plan["lifetime"]
    assert plan["reclaim_rate_per_hour"] == pytest.approx(1 / part["mean_hours"])
    assert part["expected_billed_hours"] < part["fixed_expected_billed_hours"]
    assert part["schedule"][0]["work_hours"] < part["schedule"][2]["work_hours"]
    assert any("not optimal" in text for text in plan["warnings"])
    alone = evaluate(base._replace(checkpoint_cost=None, restore=None, no_resume=True))
    assert alone["lifetime"]["schedule"] is None
    assert alone["lifetime"]["p_one_gap_long_enough"] == pytest.approx(
        1 - 0.45 * (1 - math.exp(-20) + math.exp(-5))
    )
    never = evaluate(base._replace(hours=30.0, checkpoint_cost=None, restore=None, no_resume=True))
    assert never["lifetime"]["no_resume_expected_hours"] is None, "no life is that long"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lifetime": "weibull:1,2"}, "--lifetime and --rate"), ({"max_overhead": 0.1}, "--max-overhead"),
        ({"size": 5, "bandwidth": None}, "--bandwidth"), ({"bandwidth": 5.0}, "--size"), ({"on_demand_price": 1.0}, "twice"),
        ({"discount": None, "spot_price": 1.0}, "--on-demand-price"), ({"billing": "x" * 200}, "per-second"),
    ],
)  # fmt: skip
def test_more_that_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanError, match=words) as caught:
        evaluate(LOSS._replace(**changes))
    assert len(str(caught.value)) < 300

"""Maps each golden formula family onto the planner's public functions; no arithmetic of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planner import billing, deadline, economics, hazards, intervals, makespan, notice
from planner.lives import lifetimes

Inputs = dict[str, float]
Answer = dict[str, Any]


def _seed(i: Inputs) -> Answer:
    cost = economics.cost(i["H"], i["d"], i["r"], i["L"])
    return {
        "billed_h": cost.billed_hours,
        "cost_ondemand_h": cost.cost_in_on_demand_hours,
        "saving_fraction": cost.saving_fraction,
        "points_lost_to_reclaims": cost.percent_points_lost,
    }


def _break_even_rate(i: Inputs) -> Answer:
    found = intervals.break_even_rate(i["d"], i["C"], i["R"])
    return {"lambda": found.rate_per_hour, "tau": found.interval_hours, "mtti_h": found.mean_gap_hours}


def _optimum(i: Inputs) -> Answer:
    return {
        "young": intervals.young(i["lambda"], i["C"]),
        "daly": intervals.daly(i["lambda"], i["C"]),
        "exact": intervals.exact(i["lambda"], i["C"]),
    }


def _optimum_minutes(i: Inputs) -> Answer:
    rate = intervals.rate_of_mean(i["MTTI_min"])
    return {
        "young_min": intervals.young(rate, i["dump_min"]),
        "daly_min": intervals.daly(rate, i["dump_min"]),
        "exact_min": intervals.exact(rate, i["dump_min"]),
    }


def _first_order(i: Inputs) -> Answer:
    found = intervals.first_order_periods(i["mu"], i["C"], i["R"], i["D"])
    return {
        "period_waste_model": found.period_waste_model,
        "daly2003_work": found.daly_2003_work,
        "young_work": found.young_work,
        "young_period": found.young_period,
    }


def _span(i: Inputs) -> makespan.Makespan:
    return makespan.expected_makespan(
        i["H"], i["lambda"], i["C"], i["R"], i["tau"], wait_hours=i["D"],
        final_save=bool(i["final_checkpoint"]), restore_can_be_hit=bool(i["restore_can_be_hit"]),
    )  # fmt: skip


def _makespan(i: Inputs) -> Answer:
    span = _span(i)
    return {
        "n_segments": span.pieces,
        "last_segment_h": span.last_piece_hours,
        "failure_free_h": span.failure_free_hours,
        "expected_billed_h": span.expected_billed_hours,
        "expected_reclaims": span.expected_reclaims,
        "expected_wall_h": span.expected_wall_hours,
        "mean_lost_billed_h_per_reclaim": span.lost_hours_per_reclaim,
    }


def _cost(i: Inputs) -> Answer:
    cost = economics.cost_of_billed(i["H"], i["d"], _span(i).expected_billed_hours)
    return {"cost_ondemand_h": cost.cost_in_on_demand_hours, "saving_fraction": cost.saving_fraction}


def _optimal_plan(i: Inputs) -> Answer:
    plan = intervals.optimal_plan(i["H"], i["lambda"], i["C"], i["R"])
    return {
        "n_opt": plan.pieces,
        "exposure_h": plan.exposure_hours,
        "work_between_checkpoints_h": plan.interval_hours,
        "expected_billed_h": plan.expected_billed_hours,
        "expected_billed_no_checkpoint_h": plan.expected_billed_unsaved_hours,
    }


def _no_resume(i: Inputs) -> Answer:
    return makespan.no_resume(i["H"], i["lambda"])._asdict()


def _weibull(i: Inputs) -> Answer:
    found = lifetimes.weibull_no_resume(i["H"], i["k"], i["eta"])
    return {
        "expected_hours": found.expected_hours,
        "p_one_gap_long_enough": found.p_one_gap_long_enough,
        "mttf_h": found.mean_lifetime_hours,
    }


def _bathtub(i: Inputs) -> Answer:
    law = lifetimes.Bathtub(i["A"], i["tau1"], i["tau2"], i["b"], i["cap"])
    found = law.no_resume(i["H"])
    return {
        "p_one_gap_long_enough": found.p_one_gap_long_enough,
        "expected_hours_no_resume": found.expected_hours,
        "integral_survival_0_H_h": law.survival_integral(i["H"]),
        "mean_lifetime_h": found.mean_lifetime_hours,
        "effective_cap_h": law.effective_cap_hours,
    }


def _finish_saved(i: Inputs) -> Answer:
    p = deadline.p_finish_saved(
        int(i["n"]), i["exposure_h"], i["lambda"], i["R"], i["D"], i["deadline"],
        restore_can_be_hit=bool(i["restore_can_be_hit"]),
    )  # fmt: skip
    return {"p": p}


def _self_consistent(i: Inputs) -> Answer:
    found = economics.self_consistent_reclaims(i["H"], i["lambda"], i["L"])
    return {
        "expected_reclaims": found.expected_reclaims,
        "expected_billed_h": found.expected_billed_hours,
        "lambda_L": found.rate_times_loss,
    }


def _band(i: Inputs) -> Answer:
    found = hazards.hazard_of_share(i["p"], i["exposure_h"])
    return {
        "lambda": found.rate_per_hour,
        "p_reclaim_24h": found.p_reclaim_24h,
        "expected_reclaims_24h": found.expected_reclaims_24h,
        "mtti_h": found.mean_gap_hours,
    }


def _gang(i: Inputs) -> Answer:
    found = makespan.gang(int(i["n"]), i["lambda"], i["H"])
    return {
        "rate": found.rate_per_hour,
        "p_none_reclaimed_in_H": found.p_none_reclaimed,
        "young": intervals.young(found.rate_per_hour, i["C"]),
        "exact": intervals.exact(found.rate_per_hour, i["C"]),
        "expected_billed_node_h_no_checkpoint": found.expected_node_hours_unsaved,
    }


def _notice(i: Inputs) -> Answer:
    found = notice.notice_interval(i["lambda"], i["C"], i["usable_notice_fraction"])
    return {"young": found.young_hours, "stretch": found.stretch}


def _prediction(i: Inputs) -> Answer:
    found = notice.prediction_waste(
        i["T"], i["mu"], i["C"], i["Cp"], i["D"], i["R"],
        recall=i["recall"], precision=i["precision"], trust=bool(i["trust"]),
    )  # fmt: skip
    return {
        "waste": found.waste,
        "optimum_period": found.optimum_period,
        "ignore_prediction_before_h": found.ignore_before_hours,
    }


def _billed(found: billing.Billed) -> Answer:
    return {
        "expected_billed_h": found.expected_billed_hours,
        "mean_life_h": found.mean_life_hours,
        "share_free": found.share_free,
    }


def _conditional(i: Inputs) -> Answer:
    found = lifetimes.weibull_conditional(i["age"], i["H"], i["k"], i["eta"])
    return {"p": found.p, "hazard_at_age": found.hazard_per_hour}


def _guard(i: Inputs) -> Answer:
    found = deadline.guard(i["H"], i["deadline"], i["now"], i["done"], i["switch_h"])
    return {
        "latest_switch_h": found.latest_switch_hours,
        "must_switch_now": found.must_switch_now,
        "uniform_progress_target_h": found.uniform_progress_target_hours,
        "behind_target": found.behind_target,
    }


def _uniform(i: Inputs) -> Answer:
    found = lifetimes.uniform_gap_no_resume(i["lo"], i["hi"], i["H"])
    return {"p_one_gap_long_enough": found.p_one_gap_long_enough, "expected_hours": found.expected_hours}


def _fixed_gap(i: Inputs) -> Answer:
    return lifetimes.fixed_gap_no_resume(i["gap"], i["H"])._asdict()


FAMILIES: dict[str, Callable[[Inputs], Answer]] = {
    "seed_cost": _seed,
    "breakeven_ratio": lambda i: {"ratio": economics.break_even_ratio(i["d"])},
    "breakeven_reclaims": lambda i: {"r": economics.break_even_reclaims(i["H"], i["d"], i["L"])},
    "breakeven_discount": lambda i: {"d": economics.break_even_discount(i["H"], i["r"], i["L"])},
    "breakeven_loss": lambda i: {"L": economics.break_even_lost_hours(i["H"], i["d"], i["r"])},
    "breakeven_no_resume": lambda i: {"lambda_H": makespan.break_even_no_resume(i["d"])},
    "breakeven_rate_checkpointed": _break_even_rate,
    "optimum_interval": _optimum,
    "optimum_interval_minutes": _optimum_minutes,
    "first_order_periods": _first_order,
    "expected_makespan": _makespan,
    "expected_cost": _cost,
    "optimal_plan": _optimal_plan,
    "mean_time_lost_given_reclaim_in_exposure": lambda i: {"h": makespan.mean_time_lost(i["w"], i["lambda"])},
    "no_resume_exponential": _no_resume,
    "no_resume_weibull": _weibull,
    "no_resume_fixed_gap": _fixed_gap,
    "no_resume_uniform_gap": _uniform,
    "bathtub_no_resume": _bathtub,
    "p_finish_no_resume": lambda i: {"p": deadline.p_finish_no_resume(i["H"], i["lambda"], i["deadline"])},
    "p_finish_checkpointed": _finish_saved,
    "self_consistent_reclaims": _self_consistent,
    "p_finish_fixed_loss": lambda i: deadline.p_finish_fixed_loss(
        i["H"], i["lambda"], i["L"], i["deadline"]
    )._asdict(),
    "band_to_hazard": _band,
    "per_launch_fraction_to_hazard": lambda i: {
        "lambda": hazards.rate_of_launch_share(i["p"], i["mean_run_h"])
    },
    "gang_of_nodes": _gang,
    "notice_interval": _notice,
    "prediction_waste": _prediction,
    "overlapped_interval": lambda i: {"period": intervals.overlapped_period(i["lambda"], i["C"], i["omega"])},
    "billing_round_up": lambda i: _billed(billing.rounded_up(i["lambda"], i["granule_h"])),
    "billing_minimum": lambda i: _billed(billing.with_minimum(i["lambda"], i["minimum_h"])),
    "billing_free_if_reclaimed_early": lambda i: _billed(billing.free_when_early(i["lambda"], i["free_h"])),
    "billed_seconds": lambda i: {
        "billed_s": billing.billed_seconds(i["run_s"], i["minimum_s"], i["granule_s"])
    },
    "weibull_conditional_survival": _conditional,
    "deadline_guard": _guard,
}


def evaluate(formula: str, inputs: dict[str, Any]) -> Answer:
    """The planner's answer for one golden case; inputs may be exact decimal strings."""
    return FAMILIES[formula]({name: float(value) for name, value in inputs.items()})

"""The parts of a plan's document that every plan has (contract definitions 2 to 7 and 10)."""

from __future__ import annotations

from typing import Any

from planner import economics
from planner.makespan import break_even_no_resume
from planner.makespan import no_resume as unsaved
from planner.plan.choice import Choice
from planner.plan.costs import BEYOND, Bill, bill_at, break_even_rate, wall_deviation
from planner.plan.inputs import PlanInputs
from planner.plan.rates import Rates

Document = dict[str, Any]
EVEN = 1e-9  # |saving| up to which a plan breaks even


def verdict(bill: Bill, hours: float, discount: float) -> str:
    """`pays`, `breaks_even`, `does_not_pay` or `never_finishes`."""
    if bill.never_finishes:
        return "never_finishes"
    saving = bill.saving(hours, discount)
    return "breaks_even" if abs(saving) <= EVEN else "pays" if saving > 0 else "does_not_pay"


def finite(value: float | None) -> float | None:
    """The value, or None where it is unknown, not a number, or beyond 1e300."""
    return None if value is None or not abs(value) <= BEYOND else value


def top(inputs: PlanInputs, bill: Bill) -> Document:
    """The figures of definitions 2 to 4."""
    hours, dead, d = inputs.hours, bill.never_finishes, inputs.d
    billed = None if dead else bill.billed_hours
    ratio = None if billed is None else billed / hours - 1.0
    return {
        "lost_ratio": ratio,
        "break_even_ratio": economics.break_even_ratio(d) if d >= 0 else None,  # spot dearer: there is none
        "billed_hours": billed,
        "cost_in_on_demand_hours": None if billed is None else billed * (1.0 - d),
        "saving_fraction": None if billed is None else bill.saving(hours, d),
        "discount_points_lost": None if ratio is None else (1.0 - d) * ratio,
        **_break_evens(inputs, bill, d),
        "reclaims": None if dead else finite(bill.reclaims),
        "reclaim_rate_per_hour": bill.rate_per_hour,
        "lost_hours_per_reclaim": None
        if dead and inputs.lost is None
        else finite(bill.lost_hours_per_reclaim),
        "checkpoint_overhead_hours": bill.failure_free_hours - hours,
    }


def _break_evens(inputs: PlanInputs, bill: Bill, d: float) -> Document:
    """G = H/(1 - d) - F; r* = G/L; L* = G/r, or (1 - F(1 - d)/H)/λ for a rate; d* = 1 - H/billed; λ*."""
    names = ("reclaims", "lost_hours", "discount", "rate_per_hour")
    if inputs.no_resume:
        return {f"break_even_{name}": None for name in names}
    hours, free, lost = inputs.hours, bill.failure_free_hours, bill.lost_hours_per_reclaim
    room = hours / (1.0 - d) - free
    reclaims = room / lost if lost and room >= 0 else None
    if inputs.reclaims is not None:
        loss = room / inputs.reclaims if inputs.reclaims > 0 and room >= 0 else None
    else:
        rate = bill.rate_per_hour
        loss = (1.0 - free * (1.0 - d) / hours) / rate if rate > 0 and room >= 0 else None
    discount = None if bill.never_finishes else 1.0 - hours / bill.billed_hours
    at_rate = break_even_rate(inputs, d, bill.interval_hours) if room >= 0 else None
    values = (reclaims, loss, discount, at_rate)
    return {f"break_even_{name}": finite(value) for name, value in zip(names, values, strict=True)}


def ends(inputs: PlanInputs, rates: Rates, tau: float | None) -> Document | None:
    """`range`: both ends of what is known of the rate, at the τ of the plan."""
    if rates.low is None or rates.high is None:
        return None
    return {"low": _end(inputs, rates.low, tau), "high": _end(inputs, rates.high, tau)}


def _end(inputs: PlanInputs, rate: float, tau: float | None) -> Document:
    bill, d = bill_at(inputs, rate, tau), inputs.d
    dead = bill.never_finishes
    return {
        "reclaim_rate_per_hour": rate,
        "reclaims": None if dead else finite(bill.reclaims),
        "billed_hours": None if dead else bill.billed_hours,
        "cost_in_on_demand_hours": None if dead else bill.billed_hours * (1.0 - d),
        "saving_fraction": None if dead else bill.saving(inputs.hours, d),
        "verdict": verdict(bill, inputs.hours, d),
    }


def interval(inputs: PlanInputs, choice: Choice) -> Document:
    """Definition 6, all fields at `rate_per_hour`; for a range that is the rate whose optimum is the minimax τ."""
    from planner import intervals

    save, restore, rate = (
        inputs.save_hours or 0.0,
        inputs.effective_restore_hours or 0.0,
        choice.rate_per_hour,
    )
    names = ("exact", "young", "daly", "safe_low", "safe_high")
    values: tuple[float | None, ...] = (None,) * 5
    if rate > 0:
        first = (intervals.exact(rate, save), intervals.young(rate, save), intervals.daly(rate, save))
        values = (*first, *intervals.safe_range(rate, save))
    plan = intervals.optimal_plan(inputs.hours, rate, save, restore)
    return {
        **{f"{name}_hours": value for name, value in zip(names, values, strict=True)},
        "plan_hours": plan.interval_hours,
        "plan_pieces": plan.pieces,
        "recommended_hours": choice.recommended_hours,
        "rate_per_hour": rate,
        "capped_by_max_overhead": choice.capped,
    }


def makespan(inputs: PlanInputs, bill: Bill) -> Document:
    """Definition 3's expectations; the wait D is not billed."""
    wall = bill.billed_hours + (inputs.effective_wait_hours * bill.reclaims if inputs.wait else 0.0)
    return {
        "expected_billed_hours": finite(bill.billed_hours),
        "expected_wall_hours": finite(wall),
        "wall_deviation_hours": finite(wall_deviation(inputs, bill)),
        "failure_free_hours": bill.failure_free_hours,
        "expected_reclaims": finite(bill.reclaims),
    }


def no_resume(inputs: PlanInputs, rate: float) -> Document:
    """The same job started over after every reclaim (definition 10)."""
    alone, d = unsaved(inputs.hours, rate), inputs.d
    bill = Bill(rate, alone.expected_hours, 0.0, inputs.hours, None)
    return {
        "verdict": verdict(bill, inputs.hours, d),
        "expected_hours": finite(alone.expected_hours),
        "log10_expected_hours": alone.log10_expected_hours,
        "p_one_gap_long_enough": alone.p_one_gap_long_enough,
        "break_even_mean_reclaims": break_even_no_resume(d),
    }

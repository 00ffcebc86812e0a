"""The numbers behind the pictures of a plan: pure lists of points, hours and fractions."""

from __future__ import annotations

import math
from typing import NamedTuple

from planner import deadline as finish
from planner.advice import bill_and_choice
from planner.plan.costs import Bill, bill_at, break_even_rate, wall_deviation
from planner.plan.deadline import law_of
from planner.plan.inputs import PlanError, PlanInputs

Points = tuple[list[float], list[float]]


class IntervalCurve(NamedTuple):
    """Cost against the interval."""

    points: Points  # τ in hours, cost in on-demand hours
    safe_hours: tuple[float, float]
    recommended_hours: float | None
    on_demand_hours: float  # what on-demand costs: H


class ReclaimCurve(NamedTuple):
    """Saving against the number of reclaims."""

    points: Points  # r, saving as a fraction
    here: tuple[float, float] | None  # (r, saving) of the plan itself
    break_even_reclaims: float | None


class MakespanCurve(NamedTuple):
    """The chance to be done by each wall time."""

    points: Points  # hours, probability
    deadline_hours: float | None
    p_finish: float | None


def _spread(low: float, high: float, count: int, *, log: bool = False) -> list[float]:
    if log:
        return [low * (high / low) ** (k / (count - 1)) for k in range(count)]
    return [low + (high - low) * k / (count - 1) for k in range(count)]


def against_interval(inputs: PlanInputs, *, count: int = 160) -> IntervalCurve | None:
    """Cost over τ from far below the safe range to far above; None without saves or without reclaims."""
    from planner import intervals

    bill, choice, _ = bill_and_choice(inputs)
    save = inputs.save_hours
    if choice is None or not save or choice.rate_per_hour <= 0 or inputs.no_resume:
        return None
    low, high = intervals.safe_range(choice.rate_per_hour, save)
    first = min(max(low / 12.0, inputs.upload_hours, save / 4.0), inputs.hours / 2.0)
    last = min(high * 12.0, inputs.hours)
    taus = [tau for tau in _spread(first, last, count, log=True) if tau >= inputs.upload_hours]
    costs = [bill_at(inputs, bill.rate_per_hour, tau).billed_hours * (1.0 - inputs.d) for tau in taus]
    limit = 3.0 * min(costs)
    kept = [(tau, cost) for tau, cost in zip(taus, costs, strict=True) if cost <= limit]
    points = ([tau for tau, _ in kept], [cost for _, cost in kept])
    return IntervalCurve(points, (low, high), choice.recommended_hours, inputs.hours)


def against_reclaims(inputs: PlanInputs, *, count: int = 120) -> ReclaimCurve | None:
    """Saving over r, by the rate that brings each r; None for a plan that never finishes."""
    bill, _, _ = bill_and_choice(inputs)
    if bill.never_finishes:
        return None
    d, hours, tau = inputs.d, inputs.hours, bill.interval_hours
    even = break_even_rate(inputs, d, tau) if hours / (1.0 - d) >= bill.failure_free_hours else None
    top = max(1.25 * (even or 0.0), 1.25 * bill.rate_per_hour, 0.1 / hours)
    lost = inputs.effective_lost_hours
    if lost and not inputs.no_resume:
        top = min(top, 0.98 / lost)
    rates = _spread(0.0, top, count)
    bills = [found for found in (bill_at(inputs, rate, tau) for rate in rates) if not found.never_finishes]
    kept = [found for found in bills if found.saving(hours, d) > -1.0]
    points = ([found.reclaims for found in kept], [found.saving(hours, d) for found in kept])
    at_even = None if even is None else bill_at(inputs, even, tau).reclaims
    return ReclaimCurve(points, (bill.reclaims, bill.saving(hours, d)), at_even)


def of_makespan(inputs: PlanInputs, *, count: int = 160) -> MakespanCurve | None:
    """The law of the wall time, from the failure-free time to four deviations past the mean; None without reclaims."""
    bill, _, _ = bill_and_choice(inputs)
    spread = wall_deviation(inputs, bill)
    if bill.never_finishes or bill.rate_per_hour == 0 or not 0 < spread < math.inf:
        return None
    free = bill.failure_free_hours
    mean = bill.billed_hours + inputs.effective_wait_hours * bill.reclaims
    end = max(mean + 4.0 * spread, 1.05 * (inputs.deadline or 0.0), free * 1.01)
    times = _spread(free, end, count)
    chances = _chances(inputs, bill, times)
    chance = None
    if inputs.deadline is not None:
        chance = _chances(inputs, bill, [inputs.deadline])[0] if inputs.deadline >= free else 0.0
    return MakespanCurve((times, chances), inputs.deadline, chance)


def _chances(inputs: PlanInputs, bill: Bill, times: list[float]) -> list[float]:
    rate, lost = bill.rate_per_hour, inputs.effective_lost_hours
    if inputs.no_resume:
        if inputs.wait:
            raise PlanError("the law of a job without a resume is drawn for --wait 0s only")
        return [finish.p_finish_no_resume(inputs.hours, rate, time) for time in times]
    if lost is not None:
        wait = inputs.effective_wait_hours
        return [
            finish.p_finish_fixed_loss(inputs.hours, rate, lost, time, wait_hours=wait).p_finish
            for time in times
        ]
    law = law_of(inputs, bill, max(max(times) - bill.failure_free_hours, 1e-9))
    return [law.p_by(time) for time in times]

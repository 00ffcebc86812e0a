"""One plan's bill at one rate: with a given loss, with saves and restores, or without a resume."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from planner.economics import self_consistent_reclaims
from planner.makespan import Exposure, deviation, expected_makespan, exposures, no_resume, piece_count
from planner.plan.inputs import PlanError, PlanInputs
from planner.plan.rates import NEVER
from planner.special import bisect

BEYOND = 1e300  # billed hours from which a plan never finishes


class Bill(NamedTuple):
    """Expectations at one rate (of the whole gang), hours."""

    rate_per_hour: float
    billed_hours: float  # infinite: never finishes
    reclaims: float
    failure_free_hours: float
    lost_hours_per_reclaim: float | None
    interval_hours: float | None = None  # τ charged; None where there are no saves

    @property
    def never_finishes(self) -> bool:
        """λL ≥ 1, or a bill beyond 1e300 hours."""
        return not self.billed_hours <= BEYOND

    def saving(self, hours: float, discount: float) -> float:
        """1 - (1 - d) billed/H."""
        return 1.0 - (1.0 - discount) * self.billed_hours / hours


def bill_at(inputs: PlanInputs, rate: float, interval: float | None) -> Bill:
    """The bill at `rate`, saves every `interval` hours of work (None: one piece, no saves)."""
    hours = inputs.hours
    if inputs.no_resume:
        alone = no_resume(hours, rate)
        reclaims = rate * alone.expected_hours
        lost = (alone.expected_hours - hours) / reclaims if 0 < reclaims < math.inf else None
        return Bill(rate, alone.expected_hours, reclaims, hours, lost)
    lost = inputs.effective_lost_hours
    if lost is not None:
        found = self_consistent_reclaims(hours, rate, lost)
        return Bill(rate, found.expected_billed_hours, found.expected_reclaims, hours, lost)
    save, restore = inputs.save_hours, inputs.effective_restore_hours
    if save is None or restore is None:
        raise PlanError("--checkpoint-cost and --restore are needed")
    upload = 0.0 if interval is None else inputs.upload_hours  # one piece has no save to upload
    try:
        span = expected_makespan(hours, rate, save, restore, interval or hours, upload_hours=upload)
    except ValueError as error:
        raise PlanError(
            f"--upload: {error}; an upload must end before the next save begins: give --interval of at least "
            f"{upload * 3600:g}s"
        ) from None
    each = span.lost_hours_per_reclaim if 0 < span.expected_reclaims < math.inf else None
    billed, reclaims, free = span.expected_billed_hours, span.expected_reclaims, span.failure_free_hours
    return Bill(rate, billed, reclaims, free, each, interval)


def kinds_of(inputs: PlanInputs, bill: Bill) -> tuple[Exposure, ...]:
    """The exposures of a bill with saves, or the whole job as one."""
    restore = inputs.effective_restore_hours or 0.0
    if inputs.no_resume or bill.interval_hours is None:
        return (Exposure(1, inputs.hours, 0.0 if inputs.no_resume else restore),)
    save, upload, tau = inputs.save_hours or 0.0, inputs.upload_hours, bill.interval_hours
    pieces = piece_count(inputs.hours, tau)
    end = inputs.hours - (pieces - 1) * tau
    if upload > 0 and pieces >= 2 and end <= upload:
        pieces, end = pieces - 1, end + tau
    return exposures(pieces, tau + save, end, restore, upload)


def wall_deviation(inputs: PlanInputs, bill: Bill) -> float:
    """Standard deviation of the wall time, hours; infinite for a plan that never finishes.

    With L the count is generalised Poisson, of variance λH/(1 - λL)³ = r (billed/H)²: 1 - λL = H/billed cannot cancel.
    """
    lost = inputs.effective_lost_hours
    if bill.never_finishes:
        return math.inf
    if lost is not None and not inputs.no_resume:
        spread = math.sqrt(bill.reclaims) * bill.billed_hours / inputs.hours
        return (lost + inputs.effective_wait_hours) * spread
    return deviation(kinds_of(inputs, bill), bill.rate_per_hour, inputs.effective_wait_hours)


def bill_of_reclaims(inputs: PlanInputs, reclaims: float, interval: float | None) -> Bill:
    """The bill when r reclaims are suffered: the λ whose expected count is r (contract definitions 1 and 3)."""
    if reclaims < NEVER:
        return bill_at(inputs, 0.0, interval)
    hours = inputs.hours
    lost = inputs.effective_lost_hours
    if inputs.no_resume:
        billed = hours if inputs.lost is None else hours + reclaims * inputs.lost
        return bill_at(inputs, reclaims / billed, interval)
    if lost is not None:
        billed = hours + reclaims * lost
        return Bill(reclaims / billed, billed, reclaims, hours, lost)
    rate = _solve(lambda rate: bill_at(inputs, rate, interval).reclaims - reclaims, reclaims / hours)
    return bill_at(inputs, rate, interval)


def rate_for_optimal_plan(inputs: PlanInputs, reclaims: float) -> float:
    """λ₁ with λ·B(λ) = r, B the bill of the best whole plan at λ (contract definition 6, auto with r)."""
    from planner import intervals

    save, restore = inputs.save_hours or 0.0, inputs.effective_restore_hours or 0.0

    def excess(rate: float) -> float:
        plan = intervals.optimal_plan(inputs.hours, rate, save, restore)
        return rate * plan.expected_billed_hours - reclaims

    return _solve(excess, reclaims / inputs.hours)


def break_even_rate(inputs: PlanInputs, discount: float, interval: float | None) -> float | None:
    """The rate at which spot costs the same at this τ; d/L where L is given. None when no rate ≥ 0 does."""
    if inputs.no_resume:
        return None
    lost = inputs.effective_lost_hours
    if lost is not None:
        return discount / lost if lost > 0 and discount >= 0 else None
    allowed = inputs.hours / (1.0 - discount)
    if bill_at(inputs, 0.0, interval).billed_hours > allowed:
        return None
    return _solve(lambda rate: bill_at(inputs, rate, interval).billed_hours - allowed, 1.0 / inputs.hours)


def _solve(increasing: Callable[[float], float], start: float) -> float:
    low = high = start
    while increasing(low) > 0 and low > 1e-300:
        low /= 4.0
    while increasing(high) < 0:
        high *= 4.0
    return bisect(increasing, low, high)

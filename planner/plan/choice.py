"""Which interval a plan uses: the recommended one, the minimax one for a range, and what an overhead cap makes of it."""

from __future__ import annotations

import math
from typing import NamedTuple

from planner.plan.inputs import PlanInputs
from planner.plan.rates import NEVER, Rates


class Choice(NamedTuple):
    """The rate the interval was chosen at, and the choice; `recommended_hours` None is "do not save"."""

    rate_per_hour: float
    recommended_hours: float | None
    capped: bool = False  # lengthened because of --max-overhead


def choose(inputs: PlanInputs, rates: Rates) -> Choice | None:
    """The interval of contract definitions 6 and 7; None without C or without a rate to choose it at.

    With r and an interval of the user's own, the rate is that of the plan itself; with r and auto it is λ₁, at
    which the best whole plan suffers r reclaims.
    """
    save, restore = inputs.save_hours, inputs.effective_restore_hours
    if not save or restore is None:
        return None
    best = _best(inputs, rates, save, restore)
    return None if best is None else _capped(inputs, best, save)


def charged(inputs: PlanInputs, choice: Choice | None) -> float | None:
    """τ that the costs are charged at: the user's, else the recommended one; None is one piece."""
    own = inputs.fixed_interval_hours
    return own if own is not None else choice.recommended_hours if choice is not None else None


def _best(inputs: PlanInputs, rates: Rates, save: float, restore: float) -> Choice | None:
    from planner import intervals
    from planner.plan.costs import bill_of_reclaims, rate_for_optimal_plan

    if inputs.reclaims is not None and rates.top is None:
        own = inputs.fixed_interval_hours
        if inputs.reclaims < NEVER:
            rate = 0.0
        elif own is None:
            rate = rate_for_optimal_plan(inputs, inputs.reclaims)
        else:
            rate = bill_of_reclaims(inputs, inputs.reclaims, own).rate_per_hour
        return Choice(rate, intervals.recommended(inputs.hours, rate, save, restore))
    if rates.published and rates.low is not None and rates.high is not None and rates.high > 0:
        best = intervals.minimax_regret(rates.low, rates.high, save)
        rate = intervals.rate_of_exact(best, save)
        choice = intervals.rounded(best, *intervals.safe_range(rate, save))
        choice = min(choice, intervals.ladder_at_most(100.0 * save))  # a published figure may be far too low
        return Choice(rate, choice if choice < inputs.hours else None)
    if rates.top is None:
        return None
    return Choice(rates.top, intervals.recommended(inputs.hours, rates.top, save, restore))


def _capped(inputs: PlanInputs, choice: Choice, save: float) -> Choice:
    """The same choice, or the first rung of the ladder at which saves cost at most --max-overhead of the work."""
    from planner import intervals

    if inputs.max_overhead is None or choice.recommended_hours is None:
        return choice
    least = intervals.capped_interval(save, inputs.max_overhead)
    if choice.recommended_hours >= least * (1.0 - 1e-12):
        return choice
    rung = min((rung for rung in intervals.LADDER_HOURS if rung >= least), default=math.inf)
    longer = rung if rung < math.inf else least
    return choice._replace(recommended_hours=longer if longer < inputs.hours else None, capped=True)

"""The deadline of a plan: the chance to finish, by the law that belongs to its loss model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner import deadline
from planner.plan.costs import Bill, kinds_of
from planner.plan.inputs import PlanInputs

if TYPE_CHECKING:
    from planner.arrays.law import Law


def deadline_part(inputs: PlanInputs, bill: Bill) -> tuple[dict[str, Any], list[str]]:
    """`deadline` of the document and warnings; numpy is loaded only for the law with saves."""
    limit, rate = inputs.deadline or 0.0, bill.rate_per_hour
    warnings = []
    if limit < inputs.hours:
        warnings.append(
            f"the deadline of {limit:g} h is shorter than the work of {inputs.hours:g} h: it cannot be met"
        )
        chance = 0.0
    elif inputs.no_resume:
        chance = _unsaved(inputs, rate, limit)
    elif inputs.lost is not None:
        lost, wait = inputs.effective_lost_hours or 0.0, inputs.effective_wait_hours
        chance = deadline.p_finish_fixed_loss(inputs.hours, rate, lost, limit, wait_hours=wait).p_finish
    else:
        chance = _with_saves(inputs, bill, limit)
    latest = limit - inputs.hours - (inputs.restore_hours or 0.0)
    document = {"hours": limit, "p_finish": chance, "latest_switch_hours": latest}
    return document, warnings


def fallback_part(inputs: PlanInputs, bill: Bill) -> dict[str, Any] | None:
    """`deadline.fallback`: spot with on-demand as a fallback, by Monte Carlo; None where it is not simulated."""
    from planner.simulate.fallback import with_fallback

    found = None if bill.never_finishes else with_fallback(inputs, bill)
    return None if found is None else {**vars(found), "method": "Monte Carlo, 20000 runs, seed 1"}


def _unsaved(inputs: PlanInputs, rate: float, limit: float) -> float:
    """Without a resume; waits are added by the lattice, which needs numpy."""
    wait = inputs.effective_wait_hours
    if wait == 0 or rate == 0 or limit <= inputs.hours:
        return deadline.p_finish_no_resume(inputs.hours, rate, limit)
    from planner.arrays.law import makespan_law
    from planner.makespan import Exposure

    law = makespan_law((Exposure(1, inputs.hours, 0.0),), rate, wait, limit - inputs.hours)
    return float(law.cdf[-1])


def law_of(inputs: PlanInputs, bill: Bill, slack_hours: float) -> Law:
    """The law of wall time of a plan with saves, up to `slack_hours` beyond the failure-free time."""
    from planner.arrays.law import makespan_law

    return makespan_law(kinds_of(inputs, bill), bill.rate_per_hour, inputs.effective_wait_hours, slack_hours)


def _with_saves(inputs: PlanInputs, bill: Bill, limit: float) -> float:
    if limit < bill.failure_free_hours:
        return 0.0
    if bill.rate_per_hour == 0:
        return 1.0
    slack = limit - bill.failure_free_hours
    law = law_of(inputs, bill, max(slack, 1e-9))
    return law.atom if slack <= 0 else float(law.cdf[-1])

"""The deadline of a plan: the chance to finish, by the law that belongs to its loss model."""

from __future__ import annotations

from typing import Any

from planner import deadline
from planner.makespan import piece_count
from planner.plan_costs import Bill
from planner.plan_inputs import PlanInputs


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
        chance = deadline.p_finish_no_resume(inputs.hours, rate, limit)
    elif inputs.lost is not None:
        chance = deadline.p_finish_fixed_loss(
            inputs.hours, rate, inputs.lost, limit, wait_hours=inputs.wait
        ).p_finish
    else:
        chance = _with_saves(inputs, bill, limit)
    latest = limit - inputs.hours - (inputs.restore_hours or 0.0)
    return {"hours": limit, "p_finish": chance, "latest_switch_hours": latest}, warnings


def _with_saves(inputs: PlanInputs, bill: Bill, limit: float) -> float:
    if limit < bill.failure_free_hours:
        return 0.0
    if bill.rate_per_hour == 0:
        return 1.0
    from planner.law import exposures, makespan_law

    save, upload = inputs.save_hours or 0.0, inputs.upload_hours
    tau = bill.interval_hours or inputs.hours
    pieces = piece_count(inputs.hours, tau)
    end = inputs.hours - (pieces - 1) * tau
    if upload > 0 and pieces >= 2 and end <= upload:
        pieces, end = pieces - 1, end + tau
    kinds = exposures(pieces, tau + save, end, inputs.restore_hours or 0.0, upload)
    slack = limit - bill.failure_free_hours
    law = makespan_law(kinds, bill.rate_per_hour, inputs.wait, max(slack, 1e-9))
    return law.atom if slack <= 0 else float(law.cdf[-1])

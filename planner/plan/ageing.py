"""The part of a plan about lifetimes that are not memoryless: no resume exactly, and the age-aware schedule."""

from __future__ import annotations

from typing import Any

from planner.lives.laws import Law, parse_law
from planner.plan.costs import Bill
from planner.plan.inputs import PlanInputs
from planner.plan.parts import finite

SHOWN = 24  # steps of the schedule


def lifetime_part(inputs: PlanInputs, bill: Bill) -> tuple[dict[str, Any], list[str]]:
    """`lifetime` of the document and what to warn of; numpy is loaded only where there are saves to schedule."""
    law = parse_law(inputs.lifetime or "")
    alone = law.no_resume(inputs.hours)
    part: dict[str, Any] = {
        "law": inputs.lifetime,
        "mean_hours": law.mean_hours,
        "cap_hours": finite(law.cap_hours),
        "no_resume_expected_hours": finite(alone.expected_hours),
        "p_one_gap_long_enough": alone.p_one_gap_long_enough,
        "expected_billed_hours": None,
        "fixed_interval_hours": None,
        "fixed_expected_billed_hours": None,
        "memoryless_expected_billed_hours": finite(bill.billed_hours),
        "schedule": None,
    }
    said = []
    if inputs.nodes > 1:
        said.append(
            "--lifetime: the schedule is for one node; several that stop together are not memoryless either"
        )
    save, restore = inputs.save_hours, inputs.effective_restore_hours
    if save and restore is not None and not inputs.no_resume:
        found, words = _schedule(inputs, law, save, restore)
        part |= found
        said.append(words)
    return part, said


def _schedule(inputs: PlanInputs, law: Law, save: float, restore: float) -> tuple[dict[str, Any], str]:
    """The schedule's fields, empty where there is none, and what to say of it."""
    from planner.lives.schedule import age_aware

    try:
        found = age_aware(law, inputs.hours, save, restore + inputs.upload_hours)
    except ValueError:
        return {}, "a save or a restore costs more than the work itself: do not save"
    if finite(found.expected_billed_hours) is None:
        return {}, "on such lifetimes no schedule of saves brings the job to its end"
    steps = [{"age_hours": age, "work_hours": work} for age, work in found.steps[:SHOWN]]
    return {
        "expected_billed_hours": found.expected_billed_hours,
        "fixed_interval_hours": found.fixed_interval_hours,
        "fixed_expected_billed_hours": finite(found.fixed_expected_billed_hours),
        "schedule": steps,
    }, (
        "with lifetimes that depend on age a fixed interval is not optimal: save by the schedule under `lifetime`; "
        "the other figures take reclaims as memoryless"
    )

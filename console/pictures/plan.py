"""Pictures of one plan: cost against interval, saving against r, and the law of the makespan."""

from __future__ import annotations

import math

from console.pictures.draw import (
    Chart,
    Line,
    Mark,
    chart,
    even_ticks,
    log_ticks,
    short_duration,
    width_of_terminal,
)
from planner.intervals import LADDER_HOURS
from planner.plan.curves import (
    IntervalCurve,
    MakespanCurve,
    ReclaimCurve,
    against_interval,
    against_reclaims,
    of_makespan,
)
from planner.plan.inputs import PlanError, PlanInputs

_TICKS = (1 / 3600, 5 / 3600, 15 / 3600, 1 / 60, 5 / 60, 15 / 60, 1.0, 4.0, 12.0, 48.0, 168.0, 720.0, 8760.0)


def pictures(inputs: PlanInputs, *, width: int | None = None, colour: bool = False) -> list[str]:
    """Every picture that the plan has, as blocks of text."""
    columns = width or width_of_terminal()
    found = [of_interval(inputs), of_reclaims(inputs), of_law(inputs)]
    return [chart(what, width=columns, colour=colour) for what in found if what is not None]


def of_interval(inputs: PlanInputs) -> Chart | None:
    """Cost over the interval, with the safe range."""
    curve = against_interval(inputs)
    return None if curve is None or len(curve.points[0]) < 2 else _interval_chart(curve)


def _interval_chart(curve: IntervalCurve) -> Chart:
    taus, costs = curve.points
    low, high = curve.safe_hours
    marks = [Mark("safe", x=math.log10(end)) for end in (low, high) if taus[0] <= end <= taus[-1]]
    advice = curve.recommended_hours
    words = "do not save" if advice is None else f"save every {short_duration(advice)}"
    if advice is not None and taus[0] <= advice <= taus[-1]:
        marks.append(Mark("recommended", x=math.log10(advice), colour="green"))
    if min(costs) <= curve.on_demand_hours <= max(costs):
        marks.append(Mark("on-demand", y=curve.on_demand_hours))
    ticks = log_ticks(
        taus[0],
        taus[-1],
        [(value, short_duration(value)) for value in (_TICKS if taus[-1] / taus[0] > 8 else LADDER_HOURS)],
    )
    return Chart(
        "Cost in on-demand hours against the work between two saves",
        [Line("cost", [math.log10(tau) for tau in taus], costs)],
        marks,
        ticks,
        [(value, f"{value:g}") for value in even_ticks(min(costs), max(costs))],
        (
            f"upright lines: safe range {short_duration(low)} to {short_duration(high)} (within 1 % of the best); {words}",
        ),
    )


def of_reclaims(inputs: PlanInputs) -> Chart | None:
    """Saving over r, with the break-even."""
    curve = against_reclaims(inputs)
    return None if curve is None or len(curve.points[0]) < 2 else _reclaim_chart(curve)


def _reclaim_chart(curve: ReclaimCurve) -> Chart:
    counts, savings = curve.points
    marks = []
    words = ["level line: on-demand"] if min(savings) <= 0 <= max(savings) else []
    if words:
        marks.append(Mark("on-demand", y=0.0))
    if curve.break_even_reclaims is not None and curve.break_even_reclaims <= counts[-1]:
        marks.append(Mark("even", x=curve.break_even_reclaims))
        words.append(f"upright line: breaks even at {curve.break_even_reclaims:.4g} reclaims")
    if curve.here is not None:
        words.append(f"this plan: {curve.here[0]:.4g} reclaims, {curve.here[1]:.1%} saved")
    return Chart(
        "Saving against the reclaims suffered",
        [Line("saving", counts, savings)],
        marks,
        [(value, f"{value:g}") for value in even_ticks(counts[0], counts[-1], 6)],
        [(value, f"{value:.0%}") for value in even_ticks(min(savings), max(savings))],
        ("; ".join(words),) if words else (),
    )


def of_law(inputs: PlanInputs) -> Chart | None:
    """The chance to be done by each time, with the deadline."""
    try:
        curve = of_makespan(inputs)
    except PlanError:
        return None
    return None if curve is None else _law_chart(curve)


def _law_chart(curve: MakespanCurve) -> Chart:
    times, chances = curve.points
    marks, footer = [], list[str]()
    if curve.deadline_hours is not None and times[0] <= curve.deadline_hours <= times[-1]:
        marks.append(Mark("deadline", x=curve.deadline_hours))
    if curve.deadline_hours is not None and curve.p_finish is not None:
        footer.append(
            f"upright line: deadline {short_duration(curve.deadline_hours)}, met with {curve.p_finish:.2%}"
        )
    return Chart(
        "Chance to be done against wall time",
        [Line("done", times, chances)],
        marks,
        [(value, short_duration(value)) for value in even_ticks(times[0], times[-1], 6)],
        [(value, f"{value:.0%}") for value in (0.0, 0.25, 0.5, 0.75, 1.0)],
        footer,
    )

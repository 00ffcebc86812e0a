"""Figures of a plan as people read them, the same on the command line and in the terminal app."""

from __future__ import annotations

from typing import Any

from planner.plan.parts import EVEN
from planner.quantities import format_duration, format_fraction

Document = dict[str, Any]
_AGES = 1e6  # hours: 114 years
VERDICTS = {
    "pays": "Spot pays",
    "breaks_even": "Spot breaks even",
    "does_not_pay": "Spot does not pay",
    "never_finishes": "The job never finishes",
}


def number(value: float | None, unit: str = "") -> str:
    """A figure with four significant digits and its unit; unknown is –."""
    if value is None:
        return "–"
    text = f"{value:.4g}" if abs(value) < 100_000 else f"{value:.3e}"
    return f"{text} {unit}".strip()


def hours(value: float | None) -> str:
    """Hours as a duration; from a million hours on in powers of ten."""
    if value is not None and abs(value) >= _AGES:
        return f"{value:.3e} h"
    return "–" if value is None else format_duration(value * 3600.0, digits=3)


def saved(value: float | None) -> str:
    """A saving as people say it: `69.4 % saved`, `12.0 % dearer`, beyond ten times `257.3 times as dear`; unknown is –."""
    if value is None or abs(value) <= EVEN:
        return "–" if value is None else "as much as on demand"
    if value >= 0:
        return f"{format_fraction(value)} saved"
    return f"{format_fraction(-value)} dearer" if value > -10.0 else f"{number(1.0 - value)} times as dear"


def headline(plan: Document) -> str:
    """The verdict in one sentence."""
    word = VERDICTS[plan["verdict"]]
    if plan["saving_fraction"] is None:
        return f"{word}: the repeated work grows faster than it is done."
    cost, given = plan["cost_in_on_demand_hours"], plan["inputs"]["hours"]
    ending = saved(plan["saving_fraction"])
    return f"{word}: {number(given)} h of work cost {number(cost)} on-demand hours, {ending}."

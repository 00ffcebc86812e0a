"""Numbers: pure functions on floats (and numpy arrays where a distribution needs them); no I/O, no clock.

Public names are re-exported lazily, so that a node or `--help` never loads more than it uses.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "planner.quantities": (
        "QuantityError", "parse_duration", "parse_hours", "parse_seconds", "parse_size", "parse_rate", "parse_fraction",
        "format_duration", "format_size", "format_fraction",
    ),
    "planner.economics": (
        "Cost", "cost", "cost_of_billed", "break_even_ratio", "break_even_reclaims", "break_even_lost_hours",
        "break_even_discount", "self_consistent_reclaims",
    ),
    "planner.intervals": (
        "young", "daly", "exact", "optimal_plan", "recommended", "safe_range", "minimax_regret", "break_even_rate",
        "first_order_periods", "overlapped_period",
    ),
    "planner.makespan": (
        "Makespan", "Exposure", "expected_makespan", "exposures", "deviation", "no_resume", "break_even_no_resume",
        "mean_time_lost", "gang",
    ),
    "planner.hazards": ("band_edges", "hazard_of_share", "rate_of_share", "rate_of_launch_share", "posterior"),
    "planner.lives.lifetimes": ("Bathtub", "weibull_no_resume", "weibull_conditional", "fixed_gap_no_resume"),
    "planner.deadline": ("p_finish_no_resume", "p_finish_saved", "p_finish_fixed_loss", "guard"),
    "planner.arrays.law": ("Law", "makespan_law"),
    "planner.billing": ("RULES", "Rule", "billed_seconds", "paid_share"),
    "planner.plan.inputs": ("PlanInputs", "PlanError"),
    "planner.advice": ("evaluate", "bill_and_choice"),
    "planner.pools": ("Offer", "Ranked", "rank"),
    "planner.sweep": ("Axis", "Grid", "parse_grid"),
    "planner.lives.laws": ("parse_law",),
    "planner.lives.schedule": ("Schedule", "age_aware"),
    "planner.simulate.replay": ("Policy", "Race", "replay", "summarise"),
    "planner.simulate.runs": ("Job", "World", "Runs", "simulate"),
}  # fmt: skip
_WHERE = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_WHERE)  # noqa: PLE0605 the list is made from the table above


def __getattr__(name: str) -> Any:
    """Load the module that holds a public name when it is first used."""
    if name not in _WHERE:
        raise AttributeError(f"module 'planner' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return list(__all__)

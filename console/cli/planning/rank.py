"""The rank of pools for a job, as columns of `reprieve pools list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backends.errors import UsageError
from console.cli.planning.inputs import typed_values
from planner.plan.inputs import PlanError, PlanInputs
from planner.pools import Offer, rank

if TYPE_CHECKING:
    from console.cli.invocation import Invocation

Columns = tuple[tuple[Any, ...], ...]


def ranked(invocation: Invocation, items: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], Columns]:
    """The items with rank, cost, chance and limits, best first, and the columns to show."""
    job = _job(invocation)
    offers = [
        Offer(item["name"], item["band"] if item["band_high_fraction"] is not None else None, item["discount"],
              item["on_demand_usd_per_hour"], item["band_basis"] or "month")
        for item in items
    ]  # fmt: skip
    by_deadline = invocation.arguments["by"] == "deadline"
    if by_deadline and job.deadline is None:
        raise UsageError("--by deadline needs --deadline, or a job whose record has one")
    try:
        rows = rank(job, offers, by_deadline=by_deadline)
    except PlanError as error:
        raise UsageError(str(error)) from None
    by_name = {item["name"]: item for item in items}
    merged = [{**by_name[row.name], **row._asdict()} for row in rows]
    if not any(item["on_demand_usd_per_hour"] is not None for item in items):
        invocation.say(
            "ranked in on-demand hours of each type: without --prices, types of different price are not compared"
        )
    return merged, _columns(merged)


def _job(invocation: Invocation) -> PlanInputs:
    """The job without rate and price: each pool brings its own."""
    values, sources = typed_values(invocation.arguments), dict[str, str]()
    name = invocation.arguments["job"]
    if name is not None:
        from console.operations.looks.known import of_job

        known = of_job(invocation.context, invocation.clock, name, values)
        values, sources = {**known.values, **values}, known.sources
        for own in ("history_node_hours", "history_reclaims"):  # of another pool than those ranked
            values.pop(own, None)
    if "hours" not in values:
        raise UsageError(f"job {name}: its record has no hours; give --hours")
    return PlanInputs(**values, sources=tuple(sources.items()))


def _columns(rows: list[dict[str, Any]]) -> Columns:
    priced = any(row["expected_cost_usd"] is not None for row in rows)
    monthly = all(row["band_basis"] == "month" for row in rows)
    dated = any(row["p_finish"] is not None for row in rows)
    return (
        ("rank", "RANK"),
        ("name", "POOL"),
        *((("band", "BAND/MONTH"),) if monthly else (("band", "BAND"), ("band_basis", "SHARE PER"))),
        ("discount_fraction", "DISCOUNT"),
        *((("expected_cost_usd", "COST USD"), ("on_demand_cost_usd", "ON DEMAND USD")) if priced else ()),
        ("cost_in_on_demand_hours", "COST, ON-DEMAND H", priced),
        ("saving_fraction", "SAVED"),
        *((("p_finish", "P FINISH"),) if dated else ()),
        ("break_even_rate_per_hour", "RATE MAX/H"),
        ("verdict", "VERDICT"),
        ("interval_hours", "INTERVAL", True),
        ("gpu", "GPU", True),
        ("gpu_count", "GPUS", True),
        ("rate_high_per_hour", "RATE HIGH/H", True),
        ("snapshot", "SNAPSHOT", True),
        ("reason", "WHY NO RANK", True),
    )

"""What a job's record tells the planner: hours, interval, overhead cap, deadline, and the pool of its node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backends.clock import parse_utc
from backends.errors import UsageError
from backends.inventory.load import load

if TYPE_CHECKING:
    from console.cli.invocation import Invocation


def of_job(
    invocation: Invocation, name: str, typed: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, str], str | None]:
    """(inputs, their sources, pool) of the record; a rate or loss that was typed keeps its rivals out.

    Raises UsageError for an unknown job, and for a deadline that has passed.
    """
    fleet = load(invocation.context.fleet)
    job = fleet.job(name)
    where = f"record of job {name}"
    values: dict[str, Any] = {}
    if job.hours is not None:
        values["hours"] = job.hours
    if "lost" not in typed and not typed.get("no_resume"):
        if job.interval_s is not None:
            values["interval"] = job.interval_s / 3600.0
        if job.max_overhead is not None:
            values["max_overhead"] = job.max_overhead
    if job.deadline_at is not None and "deadline" not in typed:
        left_s = parse_utc(job.deadline_at) - invocation.clock.wall()
        if left_s <= 0:
            raise UsageError(
                f"job {name}: its deadline {job.deadline_at} has passed; give --deadline to plan for another"
            )
        values["deadline"] = left_s / 3600.0
    node = fleet.nodes.get(job.node)
    pool = None if node is None else node.pool
    rate_known = any(key in typed for key in ("rate", "reclaims", "band", "lifetime", "history_node_hours"))
    price_known = any(key in typed for key in ("discount", "spot_price", "on_demand_price"))
    wanted = pool if pool and not (rate_known and price_known) else None
    return values, dict.fromkeys(values, where), wanted

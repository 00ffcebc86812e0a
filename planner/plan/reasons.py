"""What a plan used, where each figure came from, what it assumes, and what it warns of."""

from __future__ import annotations

from typing import Any

from planner.plan.choice import Choice
from planner.plan.costs import Bill
from planner.plan.inputs import PlanInputs
from planner.plan.rates import Rates

UNITS = {
    "hours": "hours", "lost": "lost_hours", "checkpoint_cost": "checkpoint_cost_hours", "restore": "restore_hours",
    "upload": "upload_hours", "wait": "wait_hours", "deadline": "deadline_hours", "mean_run": "mean_run_hours",
    "rate": "rate_per_hour", "size": "size_bytes", "bandwidth": "bandwidth_bytes_per_s", "notice": "notice_s",
    "spot_price": "spot_price_usd_per_hour", "on_demand_price": "on_demand_price_usd_per_hour",
    "interval": "interval_hours", "store_price": "store_price_usd_per_gib_month", "transfer_price": "transfer_price_usd_per_gib",
}  # fmt: skip


def as_used(inputs: PlanInputs) -> dict[str, Any]:
    """`inputs`: option names in snake_case with their unit, as used."""
    document: dict[str, Any] = {}
    for name, value in inputs._asdict().items():
        if value is None or name in ("sources", "interval") or name.startswith("history"):
            continue
        document[UNITS.get(name, name)] = value
    document["discount"] = inputs.d
    if inputs.save_hours is not None and not inputs.no_resume:
        tau = inputs.fixed_interval_hours
        document["interval"] = "auto" if tau is None else None
        document["interval_hours"] = tau
        document["checkpoint_cost_hours"] = inputs.save_hours
        document["restore_hours"] = inputs.restore_hours
        document["upload_hours"] = inputs.upload_hours
    return document


def sources(inputs: PlanInputs, rates: Rates) -> dict[str, str]:
    """Where each decisive figure came from."""
    given = "command line"
    found = {"hours": given, "discount": given if inputs.discount is not None else "from both prices"}
    if rates.history is not None:
        found["reclaims"] = "own history" + (
            f" and band {inputs.band} ({inputs.band_basis})" if inputs.band else ""
        )
    elif inputs.reclaims is not None:
        found["reclaims"] = "--reclaims: counted over the whole job"
    elif inputs.rate is not None:
        found["reclaims"] = "--rate: per node-hour"
    elif inputs.lifetime is not None:
        found["reclaims"] = f"--lifetime {inputs.lifetime}: one reclaim in a mean lifetime"
    else:
        found["reclaims"] = f"band {inputs.band}, basis {inputs.band_basis}"
    found["loss"] = "--lost" if inputs.lost is not None else "save and restore costs"
    if inputs.no_resume:
        found["loss"] = "no resume: the whole work is repeated"
    return {**found, **dict(inputs.sources)}


def assumptions(inputs: PlanInputs, choice: Choice | None) -> list[str]:
    """What the figures rest on, one line each."""
    found = ["reclaims are memoryless at a constant rate", f"billing {inputs.billing}"]
    if inputs.no_resume:
        found.append("no resume: every reclaim starts the job over; the cost of saves is ignored")
    elif inputs.lost is not None:
        found.append("every reclaim loses the same billed time")
    else:
        found.append("no save after the last piece; a restore can itself be hit")
        if choice is not None and inputs.fixed_interval_hours is None:
            chosen = choice.recommended_hours
            found.append(
                "do not save: one piece is best"
                if chosen is None
                else f"interval {chosen:.4g} h, recommended"
            )
    if inputs.wait:
        found.append("waiting for capacity is not billed")
    if inputs.early_failure_share:
        found.append(
            f"{inputs.early_failure_share:.1%} of replacements fail before the job makes progress: each costs one more "
            + ("loss" if inputs.lost is not None else "restore")
            + " and one more wait"
        )
    if inputs.store_price is not None:
        found.append(f"{inputs.keep} checkpoints kept while the job runs; a month of storage is 730 h")
    return found


def warnings(inputs: PlanInputs, bill: Bill, choice: Choice | None) -> list[str]:
    """What is wrong with the plan as asked, one line each."""
    found = []
    if inputs.d <= 0:
        found.append(f"the discount is {inputs.d:g}: spot is not cheaper than on-demand")
    if bill.never_finishes and inputs.lost is not None and not inputs.no_resume:
        product = bill.rate_per_hour * (bill.lost_hours_per_reclaim or inputs.lost)
        found.append(
            f"each hour brings {product:.3g} hours of lost work (1 or more): the job falls behind for ever"
        )
    elif bill.never_finishes:
        found.append("the expected time is beyond any use: the job never finishes")
    if choice is not None and choice.capped and inputs.fixed_interval_hours is None:
        found.append(
            f"the interval is longer than the best one: --max-overhead {inputs.max_overhead:g} allows no more saves"
        )
    tau, save = inputs.fixed_interval_hours, inputs.save_hours
    if tau is not None and save and inputs.max_overhead is not None and save > inputs.max_overhead * tau:
        found.append(
            f"saves take {save / tau:.2%} of the work at this --interval, more than --max-overhead {inputs.max_overhead:.2%}"
        )
    return found

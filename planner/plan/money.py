"""Money of a plan: prices, what checkpoints cost to move and keep, and the provider's billing rule (definition 13)."""

from __future__ import annotations

from typing import Any

from planner import billing
from planner.makespan import piece_count
from planner.plan.costs import Bill
from planner.plan.inputs import PlanInputs
from planner.plan.parts import finite

GIB = 1024.0**3
MONTH_HOURS = 730.0  # the month of storage prices


def usd_part(inputs: PlanInputs, bill: Bill) -> dict[str, Any] | None:
    """`usd`: spot, on-demand, saving, each reclaim, and the checkpoints when their prices were given."""
    if not inputs.has_money:
        return None
    spot, full, n = inputs.spot_price, inputs.on_demand_price, inputs.nodes
    on_demand = paid = per_reclaim = None
    if spot is not None and full is not None:
        on_demand = n * inputs.hours * full
        paid = None if bill.never_finishes else finite(n * bill.billed_hours * spot)
        lost = bill.lost_hours_per_reclaim
        per_reclaim = None if lost is None else finite(n * lost * spot)
    saving = None if paid is None or on_demand is None else on_demand - paid
    moved, kept = _transfer(inputs, bill), _storage(inputs, bill)
    known = [value for value in (moved, kept) if value is not None]
    return {
        "spot": paid,
        "on_demand": on_demand,
        "saving": saving,
        "per_reclaim": per_reclaim,
        "checkpoint_transfer": moved,
        "checkpoint_storage": kept,
        "saving_after_checkpoints": None if saving is None or not known else saving - sum(known),
    }


def _transfer(inputs: PlanInputs, bill: Bill) -> float | None:
    """Every save is uploaded once, every reclaim downloads one checkpoint."""
    if inputs.transfer_price is None or inputs.size is None or bill.never_finishes:
        return None
    saves = 0
    if bill.interval_hours is not None:
        saves = piece_count(inputs.hours, bill.interval_hours) - 1
    return finite((saves + bill.reclaims) * inputs.size / GIB * inputs.transfer_price)


def _storage(inputs: PlanInputs, bill: Bill) -> float | None:
    """The checkpoints kept, for as long as the job is expected to take."""
    if inputs.store_price is None or inputs.size is None or bill.never_finishes:
        return None
    wall = bill.billed_hours + inputs.effective_wait_hours * bill.reclaims
    return finite(inputs.keep * inputs.size / GIB * inputs.store_price * wall / MONTH_HOURS)


def billing_part(inputs: PlanInputs, bill: Bill) -> dict[str, Any] | None:
    """`billing`: what a rule other than per-second makes of the bill in the long run.

    A rule is about one node's life, so it sees the rate of one node; lives are ended by reclaims only.
    """
    rule = billing.RULES[inputs.billing]
    if rule.name == "per-second":
        return None
    rate = bill.rate_per_hour / inputs.nodes
    share = billing.paid_share(rule, rate) if rate > 0 else 1.0
    paid = None if bill.never_finishes else finite(bill.billed_hours * share)
    return {"rule": rule.name, "paid_hours": paid, "label": "long-run", "source": rule.source}

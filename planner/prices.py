"""From prices to a discount: a missing price is a reason, never a discount of 0 or 100 %."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Prices = Mapping[str, Mapping[str, float]]  # region → instance type → USD per hour


class Discount(NamedTuple):
    """d = 1 - spot/on-demand of one type in one region, or why it is unknown."""

    discount: float | None
    status: str  # `ok`, or the reason


def discount_of(on_demand: Prices, spot: Prices, region: str, instance_type: str) -> Discount:
    """The discount of a type; both prices must be known and positive."""
    if region not in on_demand and region not in spot:
        return Discount(None, "unknown region")
    full = on_demand.get(region, {}).get(instance_type)
    price = spot.get(region, {}).get(instance_type)
    if full is None or not full > 0:
        return Discount(None, "no on-demand price")
    if price is None or not price > 0:
        return Discount(None, "no spot price")
    return Discount(1.0 - price / full, "ok")

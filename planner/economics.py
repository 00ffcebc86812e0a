"""Cost, saving and every break-even of a job on spot capacity.

Symbols, in hours unless said otherwise: H useful work; d discount against on-demand (fraction, may be negative);
r reclaims suffered; L billed time lost per reclaim; λ reclaims per exposed hour. Billed time is H + rL, its cost
in on-demand hours (1 - d)(H + rL); on-demand costs H. Spot pays while rL/H < d/(1 - d).
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Cost(NamedTuple):
    """What a job costs on spot."""

    billed_hours: float  # H + rL
    cost_in_on_demand_hours: float  # billed · (1 - d)
    saving_fraction: float  # 1 - cost / H
    discount_points_lost: float  # fraction of the on-demand price lost to reclaims: (1 - d) rL / H

    @property
    def percent_points_lost(self) -> float:
        """`discount_points_lost` in per cent points."""
        return 100.0 * self.discount_points_lost


def cost(hours: float, discount: float, reclaims: float, lost_hours: float) -> Cost:
    """Cost of H hours with r reclaims that lose L billed hours each."""
    return cost_of_billed(hours, discount, hours + reclaims * lost_hours)


def cost_of_billed(hours: float, discount: float, billed_hours: float) -> Cost:
    """Cost of H hours of work that take `billed_hours` of billed time."""
    price = (1.0 - discount) * billed_hours
    lost = (1.0 - discount) * (billed_hours / hours - 1.0)
    return Cost(billed_hours, price, 1.0 - price / hours, lost)


def break_even_ratio(discount: float) -> float:
    """The ratio d / (1 - d): the rL/H at which spot costs the same as on-demand; infinite at d = 1."""
    return math.inf if discount >= 1.0 else discount / (1.0 - discount)


def break_even_reclaims(hours: float, discount: float, lost_hours: float) -> float:
    """The r at which spot costs the same: H d / ((1 - d) L)."""
    return math.inf if lost_hours == 0 else hours * break_even_ratio(discount) / lost_hours


def break_even_lost_hours(hours: float, discount: float, reclaims: float) -> float:
    """The L at which spot costs the same: H d / ((1 - d) r)."""
    return math.inf if reclaims == 0 else hours * break_even_ratio(discount) / reclaims


def break_even_discount(hours: float, reclaims: float, lost_hours: float) -> float:
    """The d at which spot costs the same: x / (1 + x) with x = rL/H."""
    ratio = reclaims * lost_hours / hours
    return ratio / (1.0 + ratio)


class SelfConsistent(NamedTuple):
    """Reclaims that strike repeated work too."""

    expected_reclaims: float  # r = λH / (1 - λL); infinite from λL ≥ 1
    expected_billed_hours: float  # H + rL
    rate_times_loss: float  # λL


def self_consistent_reclaims(hours: float, rate_per_hour: float, lost_hours: float) -> SelfConsistent:
    """The r that follows from a rate: λ(H + rL) = r, so r = λH / (1 - λL); diverges at λL ≥ 1."""
    product = rate_per_hour * lost_hours
    if product >= 1.0:
        return SelfConsistent(math.inf, math.inf, product)
    reclaims = rate_per_hour * hours / (1.0 - product)
    return SelfConsistent(reclaims, hours + reclaims * lost_hours, product)

"""Rank pools for a job: expected cost to finish, chance to meet the deadline, and the rate up to which each pays.

A pool is what is published of it: a band (share reclaimed in a month, or an hour) and a discount, maybe a price. Figures are for the
high end of the band. What is unknown stays unknown: such a pool is listed last, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

from planner.advice import bill_and_choice
from planner.plan.costs import Bill, break_even_rate
from planner.plan.inputs import PlanInputs
from planner.plan.parts import finite, verdict

_Band = tuple[str, Literal["month", "hour"]]  # label and basis
_DIGITS = 5  # of a chance that rank pools: the law of the makespan has an error of about 2e-6


class Offer(NamedTuple):
    """What is known of one pool."""

    name: str
    band: str | None  # label
    discount: float | None
    on_demand_usd_per_hour: float | None = None
    basis: Literal["month", "hour"] = "month"  # what the band's share is a share per


class Ranked(NamedTuple):
    """One pool for one job; None is unknown, or infinite where the verdict says so."""

    name: str
    rank: int | None
    verdict: str | None
    reclaims: float | None
    billed_hours: float | None
    cost_in_on_demand_hours: float | None  # of this pool's own type
    saving_fraction: float | None
    expected_cost_usd: float | None
    on_demand_cost_usd: float | None
    p_finish: float | None
    interval_hours: float | None
    break_even_rate_per_hour: float | None  # the pool pays up to this rate
    reason: str | None  # why it has no rank


def rank(job: PlanInputs, offers: Iterable[Offer], *, by_deadline: bool = False) -> list[Ranked]:
    """Every offer as a row, best first: by USD where prices are known, then by on-demand hours of its own type.

    `job` holds everything but rate and price. With `by_deadline` the chance to finish goes before the cost. Raises
    PlanError for a job that is not complete.
    """
    bills = _Bills(job)
    rows = [_row(job, offer, bills) for offer in offers]
    rows.sort(key=lambda row: _order(row, by_deadline))
    return [row if row.reason else row._replace(rank=number) for number, row in enumerate(rows, start=1)]


def _order(row: Ranked, by_deadline: bool) -> tuple[bool, float, bool, float, str]:
    """Unranked last; then the deadline when asked, priced before unpriced, cheap before dear."""
    chance = -round(row.p_finish or 0.0, _DIGITS) if by_deadline else 0.0
    usd = row.expected_cost_usd
    value = usd if usd is not None else row.cost_in_on_demand_hours
    return (row.reason is not None, chance, usd is None, math.inf if value is None else value, row.name)


class _Bills:
    """Bills by band and break-evens by (band, discount): thousands of pools share a few of each."""

    def __init__(self, job: PlanInputs) -> None:
        self._job = job
        self._bills: dict[_Band, tuple[Bill, float | None]] = {}
        self._limits: dict[tuple[_Band, float], float | None] = {}

    def at(self, band: _Band) -> tuple[Bill, float | None]:
        """(bill, chance to finish by the job's deadline) at the high end of a band."""
        if band not in self._bills:
            inputs = self._job._replace(band=band[0], band_basis=band[1], discount=0.0)
            bill, _, _ = bill_and_choice(inputs)
            chance = None
            if inputs.deadline is not None:
                from planner.plan.deadline import deadline_part

                chance = deadline_part(inputs, bill)[0]["p_finish"]
            self._bills[band] = (bill, chance)
        return self._bills[band]

    def limit(self, band: _Band, discount: float) -> float | None:
        """The rate up to which spot pays at the interval chosen for the band; None where it never does."""
        if (band, discount) not in self._limits:
            bill = self.at(band)[0]
            room = self._job.hours / (1.0 - discount) - bill.failure_free_hours
            found = break_even_rate(self._job, discount, bill.interval_hours) if room >= 0 else None
            self._limits[band, discount] = finite(found)
        return self._limits[band, discount]


def _row(job: PlanInputs, offer: Offer, bills: _Bills) -> Ranked:
    nothing = Ranked(offer.name, None, None, None, None, None, None, None, None, None, None, None, None)
    full = (
        None if offer.on_demand_usd_per_hour is None else job.nodes * job.hours * offer.on_demand_usd_per_hour
    )
    if offer.band is None:
        return nothing._replace(on_demand_cost_usd=full, reason="its interruption figure is unknown")
    band = (offer.band, offer.basis)
    bill, chance = bills.at(band)
    d, dead = offer.discount, bill.never_finishes
    row = nothing._replace(
        reclaims=None if dead else finite(bill.reclaims),
        billed_hours=None if dead else bill.billed_hours,
        on_demand_cost_usd=full,
        p_finish=chance,
        interval_hours=bill.interval_hours,
    )
    if d is None:
        return row._replace(reason="its discount is unknown")
    hours = None if dead else bill.billed_hours * (1.0 - d)
    return row._replace(
        verdict=verdict(bill, job.hours, d),
        cost_in_on_demand_hours=hours,
        saving_fraction=None if dead else bill.saving(job.hours, d),
        expected_cost_usd=None
        if hours is None or offer.on_demand_usd_per_hour is None
        else job.nodes * hours * offer.on_demand_usd_per_hour,
        break_even_rate_per_hour=bills.limit(band, d),
    )

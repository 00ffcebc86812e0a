"""The closed forms on arrays, operation by operation as in the scalar modules, so that both agree to the last bit.

Every argument is an array or a number; results have the broadcast shape. Units and symbols are those of
`planner.economics` and `planner.makespan`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from planner.arrays.exactly import exp, expm1

Floats = npt.NDArray[np.float64]
Number = Floats | float


class Costs(NamedTuple):
    """`economics.cost` of every scenario."""

    billed_hours: Floats
    cost_in_on_demand_hours: Floats
    saving_fraction: Floats


def cost(
    hours: Number, discount: Number, reclaims: Number, lost_hours: Number, *, out: Costs | None = None
) -> Costs:
    """H + rL, its price and saving; `out` reuses three arrays of the right shape."""
    if out is None:
        shape = np.broadcast_shapes(*(np.shape(value) for value in (hours, discount, reclaims, lost_hours)))
        out = Costs(np.empty(shape), np.empty(shape), np.empty(shape))
    billed, price, saving = out
    np.multiply(reclaims, lost_hours, out=billed)
    np.add(billed, hours, out=billed)
    np.subtract(1.0, discount, out=price)
    np.multiply(price, billed, out=price)
    np.divide(price, hours, out=saving)
    np.subtract(1.0, saving, out=saving)
    return out


class Bills(NamedTuple):
    """Expectations of every scenario; infinite where the plan never finishes."""

    billed_hours: Floats
    reclaims: Floats
    failure_free_hours: Floats


def self_consistent(hours: Number, rate: Number, lost_hours: Number) -> Bills:
    """`economics.self_consistent_reclaims`: r = λH/(1 - λL), infinite from λL ≥ 1."""
    product = np.asarray(rate, float) * lost_hours
    diverges = product >= 1.0
    room = np.where(diverges, 1.0, 1.0 - product)
    reclaims = np.where(diverges, np.inf, np.asarray(rate, float) * hours / room)
    with np.errstate(invalid="ignore"):
        billed = np.where(diverges, np.inf, np.asarray(hours, float) + reclaims * lost_hours)
    return Bills(billed, reclaims, np.broadcast_to(np.asarray(hours, float), billed.shape))


def no_resume(hours: Number, rate: Number) -> Bills:
    """`makespan.no_resume`: (e^{λH} - 1)/λ, H at λ = 0."""
    rates, work = np.broadcast_arrays(np.asarray(rate, float), np.asarray(hours, float))
    idle = rates == 0
    billed = np.where(idle, work, expm1(rates * work) / np.where(idle, 1.0, rates))
    return Bills(billed, rates * billed, work)


def piece_count(hours: Floats, interval: Floats) -> Floats:
    """`makespan.piece_count`: ceil(H/τ), tolerant of the last bit of a whole quotient."""
    quotient = hours / interval
    nearest = np.rint(quotient)  # half to even, as Python's round
    whole = (nearest >= 1) & (np.abs(quotient - nearest) <= 1e-12 * nearest)
    pieces: Floats = np.where(whole, nearest, np.maximum(1.0, np.ceil(quotient)))
    return pieces


def expected_makespan(
    hours: Number, rate: Number, save: Number, restore: Number, interval: Number, upload: Number = 0.0
) -> Bills:
    """`makespan.expected_makespan` with restores that can be hit and no final save; U ≤ τ is the caller's promise."""
    h, lam, c, r, tau, u = np.broadcast_arrays(
        *(np.asarray(value, float) for value in (hours, rate, save, restore, interval, upload))
    )
    pieces = piece_count(h, tau)
    last = h - (pieces - 1.0) * tau
    drop = (u > 0) & (pieces >= 2) & (last <= u)
    pieces, last = np.where(drop, pieces - 1.0, pieces), np.where(drop, last + tau, last)
    middle = tau + c
    free = (pieces - 1.0) * middle + last
    overlaps = (u > 0) & (pieces >= 2)
    grow, end = exp(lam * r), expm1(lam * last)
    each = expm1(lam * middle)
    with np.errstate(invalid="ignore", over="ignore"):
        plain = grow * (np.where(pieces > 1, (pieces - 1.0) * each, 0.0) + end)
        reclaims = plain
        if overlaps.any():
            first = grow * expm1(lam * (middle + u))
            rest = np.where(pieces > 2, (pieces - 2.0) * each, 0.0) + expm1(lam * (last - u))
            reclaims = np.where(overlaps, first + exp(lam * (r + u)) * rest, plain)
        billed = np.where(lam == 0, free, reclaims / np.where(lam == 0, 1.0, lam))
    return Bills(billed, reclaims, free)

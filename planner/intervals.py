"""How often to save: Young, Daly, the exact optimum, the whole-plan optimum, ranges and roundings.

Symbols, in hours: τ useful work between the end of one save and the start of the next (Young's and Daly's τ; a
*period* is τ + C); C blocking cost of a save; R restore; λ reclaims per exposed hour, μ = 1/λ; H useful work.
R does not move the optimum: the expected bill is e^{λR} times a term in τ. `math` only: the guard uses this module.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from planner.special import bisect, exp, expm1

_SIXTIES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 45, 50)
_HOURS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 36, 48, 72, 96, 120, 168)
LADDER_HOURS = tuple(
    sorted({*(n / 3600 for n in _SIXTIES), *(n / 60 for n in _SIXTIES), *map(float, _HOURS)})
)


def young(rate_per_hour: float, save_hours: float) -> float:
    """Young's τ = √(2Cμ) (CACM 17(9), 1974)."""
    return math.sqrt(2.0 * save_hours / rate_per_hour)


def daly(rate_per_hour: float, save_hours: float) -> float:
    """Daly's higher-order τ (FGCS 22(3), 2006): √(2Cμ)(1 + √(C/2μ)/3 + (C/2μ)/9) - C for C < 2μ, else μ."""
    mean = 1.0 / rate_per_hour
    if save_hours >= 2.0 * mean:
        return mean
    half = save_hours / (2.0 * mean)
    return math.sqrt(2.0 * save_hours * mean) * (1.0 + math.sqrt(half) / 3.0 + half / 9.0) - save_hours


def exact(rate_per_hour: float, save_hours: float) -> float:
    """The τ that minimises (e^{λ(τ+C)} - 1)/τ: the root of λτ - 1 = -e^{-λ(τ+C)}, that is (1 + W₀(-e^{-λC-1}))/λ.

    Found by Newton's method on x + expm1(-(x + λC)), which stays accurate where the Lambert form cancels.
    """
    c = rate_per_hour * save_hours
    if c < 1e-32:  # the next term, a share √(2c)/3 of the first, is below the last bit
        return young(rate_per_hour, save_hours)
    x = min(math.sqrt(2.0 * c), 1.0)
    for _ in range(60):
        value = x + math.expm1(-(x + c))
        step = value / -math.expm1(-(x + c))
        x -= step
        if abs(step) <= 1e-16 * x:
            break
    return x / rate_per_hour


def rate_of_exact(interval_hours: float, save_hours: float) -> float:
    """The λ whose exact optimum is `interval_hours`; the inverse of `exact` in its first argument."""
    return bisect(
        lambda rate: interval_hours - exact(rate, save_hours), 1e-12 / interval_hours, 1.0 / interval_hours
    )


def overhead(interval_hours: float, rate_per_hour: float, save_hours: float) -> float:
    """g(τ) = (e^{λ(τ+C)} - 1)/(λτ): expected billed hours per hour of work, restores left out; 1 + C/τ at λ = 0."""
    if rate_per_hour == 0:
        return 1.0 + save_hours / interval_hours
    return expm1(rate_per_hour * (interval_hours + save_hours)) / (rate_per_hour * interval_hours)


def least_overhead(rate_per_hour: float, save_hours: float) -> float:
    """The least g; 1 at λ = 0 (never save)."""
    if rate_per_hour == 0:
        return 1.0
    return overhead(exact(rate_per_hour, save_hours), rate_per_hour, save_hours)


def safe_range(rate_per_hour: float, save_hours: float, *, tolerance: float = 0.01) -> tuple[float, float]:
    """The τ below and above the optimum where g is (1 + tolerance) times its minimum, in hours."""
    best = exact(rate_per_hour, save_hours)
    limit = (1.0 + tolerance) * overhead(best, rate_per_hour, save_hours)
    low = bisect(lambda tau: limit - overhead(tau, rate_per_hour, save_hours), best * 1e-9, best)
    high = best
    while overhead(high, rate_per_hour, save_hours) < limit:
        high *= 2.0
    return low, bisect(lambda tau: overhead(tau, rate_per_hour, save_hours) - limit, best, high)


def rounded(best_hours: float, low_hours: float, high_hours: float) -> float:
    """The rung of the ladder inside [low, high] nearest to `best` in log scale, ties to the shorter; else `best`."""
    rungs = [rung for rung in LADDER_HOURS if low_hours <= rung <= high_hours]
    if not rungs:
        return best_hours
    return min(rungs, key=lambda rung: (round(abs(math.log(rung / best_hours)), 12), rung))


def minimax_regret(low_rate: float, high_rate: float, save_hours: float) -> float:
    """The τ whose regret g - g* is the same at both ends of a range of rates: the least possible worst regret."""
    if low_rate == high_rate:
        return exact(high_rate, save_hours)
    best_low, best_high = least_overhead(low_rate, save_hours), least_overhead(high_rate, save_hours)

    def difference(tau: float) -> float:
        at_high = overhead(tau, high_rate, save_hours) - best_high
        return at_high - (overhead(tau, low_rate, save_hours) - best_low)

    low = exact(high_rate, save_hours)
    high = exact(low_rate, save_hours) if low_rate > 0 else low
    while difference(high) < 0:
        high *= 2.0
    return bisect(difference, low, high)


class Plan(NamedTuple):
    """The best whole plan: equal exposures, no save after the last piece."""

    pieces: int
    exposure_hours: float  # (H + (n - 1)C)/n
    interval_hours: float  # work between saves: exposure - C, or H when there is one piece
    expected_billed_hours: float
    expected_billed_unsaved_hours: float  # with one piece: no save at all


def optimal_plan(hours: float, rate_per_hour: float, save_hours: float, restore_hours: float) -> Plan:
    """The n that minimises n e^{λR}(e^{λw} - 1)/λ with w = (H + (n - 1)C)/n; restores can be hit."""

    def billed(pieces: int) -> float:
        width = (hours + (pieces - 1) * save_hours) / pieces
        if rate_per_hour == 0:
            return pieces * width
        front = exp(rate_per_hour * restore_hours)
        return pieces * front * expm1(rate_per_hour * width) / rate_per_hour

    low, high = 1, 2
    if hours > save_hours and rate_per_hour > 0 and save_hours > 0:
        high = 2 + int(2.0 * hours / exact(rate_per_hour, save_hours))
    else:
        high = 1
    while high > low:  # the bill is convex in n
        middle = (low + high) // 2
        if billed(middle) <= billed(middle + 1):
            high = middle
        else:
            low = middle + 1
    width = (hours + (low - 1) * save_hours) / low
    return Plan(low, width, hours if low == 1 else width - save_hours, billed(low), billed(1))


def recommended(hours: float, rate_per_hour: float, save_hours: float, restore_hours: float) -> float | None:
    """The rounded interval inside the safe range, None for "do not save" (one piece is best, or it is ≥ H)."""
    if rate_per_hour == 0 or optimal_plan(hours, rate_per_hour, save_hours, restore_hours).pieces == 1:
        return None
    choice = rounded(exact(rate_per_hour, save_hours), *safe_range(rate_per_hour, save_hours))
    return None if choice >= hours else choice


class FirstOrder(NamedTuple):
    """First-order periods of the literature, for comparison only."""

    period_waste_model: float  # T = √(2(μ - D - R)C), save included (Robert et al.)
    daly_2003_work: float  # τ = √(2C(μ + R))
    young_work: float  # τ = √(2Cμ)
    young_period: float  # τ + C


def first_order_periods(
    mean_hours: float, save_hours: float, restore_hours: float, wait_hours: float
) -> FirstOrder:
    """The three first-order answers; their signs of R differ, use none when λR is not small."""
    waste = math.sqrt(2.0 * (mean_hours - wait_hours - restore_hours) * save_hours)
    work = math.sqrt(2.0 * save_hours * mean_hours)
    return FirstOrder(
        waste, math.sqrt(2.0 * save_hours * (mean_hours + restore_hours)), work, work + save_hours
    )


def overlapped_period(rate_per_hour: float, save_hours: float, share: float) -> float:
    """T = √(2(1 - ω)Cμ): first-order period when work goes on at share ω of full speed during a save."""
    return math.sqrt(2.0 * (1.0 - share) * save_hours / rate_per_hour)


class BreakEvenRate(NamedTuple):
    """Where spot with saves stops paying."""

    rate_per_hour: float
    interval_hours: float  # best τ at that rate
    mean_gap_hours: float  # 1/λ


def break_even_rate(discount: float, save_hours: float, restore_hours: float) -> BreakEvenRate:
    """The λ at which a long job at its best τ costs the same on spot: (1 - d) e^{λR} g*(λ) = 1, 0 < d < 1."""

    def excess(rate: float) -> float:
        return (1.0 - discount) * exp(rate * restore_hours) * least_overhead(rate, save_hours) - 1.0

    high = 1.0 / save_hours
    while excess(high) < 0:
        high *= 2.0
    rate = bisect(excess, high * 1e-12, high)
    return BreakEvenRate(rate, exact(rate, save_hours), 1.0 / rate)


def capped_interval(save_hours: float, max_overhead: float) -> float:
    """The shortest τ whose saves slow the job down by at most `max_overhead`: C/τ ≤ share."""
    return save_hours / max_overhead


def rate_of_mean(mean_time_to_interrupt: float) -> float:
    """λ = 1/μ, in whatever unit of time μ is."""
    return 1.0 / mean_time_to_interrupt


def ladder_at_most(limit_hours: float) -> float:
    """The longest rung of the ladder that is at most `limit_hours`; the limit itself below the first rung."""
    return max((rung for rung in LADDER_HOURS if rung <= limit_hours), default=limit_hours)

"""The chance to finish by a deadline, and when to switch to on-demand for good.

Exact finite expansions of the transforms, summed in decimal arithmetic because their terms alternate and cancel.
Every law has an atom at the failure-free time: "finish by then" is never simply 0. For whole distributions see
`planner.arrays.law`. Symbols in hours: H work; w exposure; n exposures; λ reclaims per exposed hour; R restore; D wait.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import NamedTuple

from planner.special import bisect, expm1

_DIGITS = 60
_FAR = 60  # multiples of H from which one exponential is the whole law
_TERMS = 1_000_000
_LARGE = 3000.0  # λt from which the exact sum takes too long


def _exact(value: float) -> Decimal:
    """The decimal a person would have typed: 1.02 is 1.02, not its binary neighbour."""
    return Decimal(repr(value))


def p_finish_no_resume(hours: float, rate_per_hour: float, deadline_hours: float) -> float:
    """P(T ≤ t) when every reclaim starts the job over, memoryless reclaims, no waits.

    1 - P(T ≤ t) = Σ_k (-1)^k e^{-λkH} [x^k/k! + x^{k-1}/(k-1)!], x = λ(t - kH), over kH ≤ t (second term only k ≥ 1).
    """
    if deadline_hours < hours:
        return 0.0
    if rate_per_hour == 0:
        return 1.0
    if deadline_hours > _FAR * hours or rate_per_hour * deadline_hours > _LARGE:
        return _far_no_resume(hours, rate_per_hour, deadline_hours)
    h, rate, t = map(_exact, (hours, rate_per_hour, deadline_hours))
    with localcontext() as context:
        context.prec = _DIGITS + int(rate_per_hour * deadline_hours)
        survive, total = (-rate * h).exp(), Decimal(0)
        for k in range(int(t / h) + 1):
            x = rate * (t - k * h)
            term = x**k / math.factorial(k) if k or x else Decimal(1)
            if k:
                term += (x ** (k - 1) if k > 1 else Decimal(1)) / math.factorial(k - 1)
            total += (-1) ** k * survive**k * term
        return float(1 - total)


def _far_no_resume(hours: float, rate: float, deadline_hours: float) -> float:
    """The same far out, where one exponential is left of the law: P(T > t) → c e^{-st}.

    s is the smallest root of f(s) = λ(1 - e^{-(λ-s)H})/(λ - s) = 1, c = e^{-(λ-s)H}/(s f'(s)); what is left out is smaller
    than a double's last digit from t = 60 H on.
    """

    def transform(s: float) -> float:
        gap = rate - s
        return rate * hours if gap == 0 else -rate * expm1(-gap * hours) / gap

    if rate * hours > 700:  # the root is below the smallest double
        return 0.0
    high = rate
    while transform(high) < 1:
        high *= 2.0
    s = bisect(lambda value: transform(value) - 1.0, high * 1e-305 if high > 1 else 1e-305, high)
    gap = rate - s
    slope = rate * hours * hours / 2.0 if gap == 0 else (1.0 - rate * hours * math.exp(-gap * hours)) / gap
    return min(1.0, max(0.0, 1.0 - math.exp(-gap * hours) / (s * slope) * math.exp(-s * deadline_hours)))


def _gamma_cdf(shape: int, x: Decimal) -> Decimal:
    """CDF of Gamma(shape, 1) for a whole shape: e^{-x} Σ_{i ≥ shape} x^i/i!; an atom at 0 for shape 0."""
    if shape == 0:
        return Decimal(1 if x >= 0 else 0)
    if x <= 0:
        return Decimal(0)
    term = x**shape / math.factorial(shape)
    total, index = Decimal(0), shape
    while term > total * Decimal(10) ** -_DIGITS:
        total += term
        index += 1
        term *= x / index
    return total * (-x).exp()


def p_finish_saved(
    pieces: int,
    exposure_hours: float,
    rate_per_hour: float,
    restore_hours: float,
    wait_hours: float,
    deadline_hours: float,
    *,
    restore_can_be_hit: bool,
) -> float:
    """P(wall time ≤ t) of n equal exposures with saves between them; D passes after each reclaim, unbilled and safe."""
    w, rate, r, d, t = map(_exact, (exposure_hours, rate_per_hour, restore_hours, wait_hours, deadline_hours))
    slack = t - pieces * w
    if slack < 0:
        return 0.0
    if rate == 0:
        return 1.0
    with localcontext() as context:
        context.prec = _DIGITS + 40 + 2 * int(rate * slack)
        expand = _hit_able if restore_can_be_hit else _safe
        total, small, reclaims = Decimal(0), 0, 0
        while small < 8 and (d == 0 or reclaims * d <= slack):
            term = expand(pieces, reclaims, w, rate, r, slack - reclaims * d)
            total += term
            small = small + 1 if abs(term) < Decimal(10) ** -20 else 0
            reclaims += 1
        return float(min(max(total * (-rate * w * pieces).exp(), Decimal(0)), Decimal(1)))


def _safe(pieces: int, count: int, w: Decimal, rate: Decimal, restore: Decimal, slack: Decimal) -> Decimal:
    """The part of exactly `count` reclaims when restores cannot be hit: sums of truncated exponentials."""
    total = Decimal(0)
    for j in range(count + 1):
        room = slack - count * restore - j * w
        if room < 0:
            break
        sign = -1 if j % 2 else 1
        total += sign * math.comb(count, j) * (-rate * w * j).exp() * _gamma_cdf(count, rate * room)
    return math.comb(pieces + count - 1, count) * total


def _hit_able(
    pieces: int, count: int, w: Decimal, rate: Decimal, restore: Decimal, slack: Decimal
) -> Decimal:
    """The part of exactly `count` reclaims when restores can be hit.

    With y per reclaim, ρ = e^{-(λ+s)R}, A = e^{-(λ+s)w}: φⁿ = Aⁿ (1 - y(1 - ρ))ⁿ / (1 - y(1 - Aρ))ⁿ; the coefficient of
    y^count is expanded in ρ^a (Aρ)^b, each a delay of aR + b(R + w) with its survival.
    """
    weights: dict[tuple[int, int], int] = {}
    most_b = int(slack / (restore + w))
    for i in range(min(pieces, count) + 1):
        m = count - i
        outer = (-1) ** i * math.comb(pieces, i) * math.comb(pieces + m - 1, m)
        for a in range(i + 1):
            for b in range(min(m, most_b) + 1):
                sign = -1 if (a + b) % 2 else 1
                weights[a, b] = weights.get((a, b), 0) + outer * sign * math.comb(i, a) * math.comb(m, b)
    total = Decimal(0)
    for (a, b), weight in weights.items():
        delay = a * restore + b * (restore + w)
        if weight and delay <= slack:
            total += weight * (-rate * delay).exp() * _gamma_cdf(count, rate * (slack - delay))
    return total


class FixedLoss(NamedTuple):
    """Chance to finish when each reclaim loses the same L."""

    max_reclaims_that_fit: int
    p_finish: float


def p_finish_fixed_loss(
    hours: float, rate_per_hour: float, lost_hours: float, deadline_hours: float, *, wait_hours: float = 0.0
) -> FixedLoss:
    """The count is generalised Poisson (Consul-Jain), θ = λH, η = λL; k ≤ (T - H)/(L + D) reclaims fit.

    pmf(k) = θ(θ + kη)^{k-1} e^{-θ-kη}/k!
    """
    if deadline_hours < hours:
        return FixedLoss(0, 0.0)
    theta, eta, each = rate_per_hour * hours, rate_per_hour * lost_hours, lost_hours + wait_hours
    if each == 0 or theta == 0:
        return FixedLoss(0, 1.0)
    most = math.floor((deadline_hours - hours) / each * (1 + 1e-12) + 1e-12)
    return FixedLoss(most, _sum_of_counts(theta, eta, most))


def _sum_of_counts(theta: float, eta: float, most: int) -> float:
    """P(count ≤ most) of the generalised Poisson law, terms beyond 40 deviations from the mean left out."""
    first, last = 0, most
    if eta < 1:
        mean, deviation = theta / (1.0 - eta), math.sqrt(theta / (1.0 - eta) ** 3)
        first = max(0, math.floor(mean - 40 * deviation - 40))
        if most > mean + 40 * deviation + 400:
            return 1.0
        if most < first:
            return 0.0
        if last - first > _TERMS:  # so many reclaims that the normal law is exact to what a plan can know
            return 0.5 * math.erfc((mean - most - 0.5) / (deviation * math.sqrt(2.0)))
    last = min(last, first + _TERMS)
    log_theta = math.log(theta)
    return min(1.0, math.fsum(
        math.exp(log_theta + (k - 1) * math.log(theta + k * eta) - theta - k * eta - math.lgamma(k + 1))
        for k in range(first, last + 1)
    ))  # fmt: skip


class Guard(NamedTuple):
    """When spot stops being an option."""

    latest_switch_hours: float  # T - (H - done) - switch, from the start
    must_switch_now: bool
    uniform_progress_target_hours: float  # H now/T (Wu et al., NSDI'24)
    behind_target: bool


def guard(
    hours: float, deadline_hours: float, now_hours: float, done_hours: float, switch_hours: float
) -> Guard:
    """On-demand is taken as always to be had and never reclaimed; `switch_hours` is the loss of changing over."""
    latest = deadline_hours - (hours - done_hours) - switch_hours
    target = hours * now_hours / deadline_hours
    return Guard(latest, now_hours >= latest, target, done_hours < target)

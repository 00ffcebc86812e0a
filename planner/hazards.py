"""From published figures and lifetimes to rates: λ, reclaims per exposed hour, always with its basis.

A share of 5 % means λ = 7.1e-5 per hour when it is the share of instances reclaimed in a month (AWS), 0.051 when it
is a share per hour (Azure), and p/((1 - p)m) when it is the share of launches that ended in a reclaim.
"""

from __future__ import annotations

import math
import re
from typing import Literal, NamedTuple

from planner.special import gamma_p, gamma_quantile

Basis = Literal["month", "hour", "launch"]
MONTH_HOURS = 720.0
OPEN_TOP = 0.95  # where an open top band (`>20%`) is closed


class Hazard(NamedTuple):
    """A constant rate and what it means for a day."""

    rate_per_hour: float
    p_reclaim_24h: float
    expected_reclaims_24h: float
    mean_gap_hours: float  # infinite at λ = 0


def hazard_of_share(share: float, exposure_hours: float) -> Hazard:
    """λ = -ln(1 - p)/t when p is the chance that an instance kept for t hours is reclaimed at least once; infinite at p = 1."""
    if share >= 1.0:
        return Hazard(math.inf, 1.0, math.inf, 0.0)
    rate = -math.log1p(-share) / exposure_hours
    return Hazard(rate, -math.expm1(-24.0 * rate), 24.0 * rate, math.inf if rate == 0 else 1.0 / rate)


def rate_of_launch_share(share: float, mean_run_hours: float) -> float:
    """λ = p/((1 - p)m): p the share of launches that ended in a reclaim, m the mean run that users end themselves."""
    return share / ((1.0 - share) * mean_run_hours)


def rate_of_share(share: float, basis: Basis, mean_run_hours: float | None = None) -> float:
    """λ of a share by its basis; `launch` needs the mean run. Raises ValueError without it."""
    if basis == "launch":
        if mean_run_hours is None:
            raise ValueError("a share per launch needs the mean run of an instance")
        return rate_of_launch_share(share, mean_run_hours)
    return hazard_of_share(share, MONTH_HOURS if basis == "month" else 1.0).rate_per_hour


_BAND = re.compile(
    r"(?:(?P<below><)\s*(?P<b>[0-9]+(?:\.[0-9]+)?)|(?P<above>>)\s*(?P<a>[0-9]+(?:\.[0-9]+)?)"
    r"|(?P<plus>[0-9]+(?:\.[0-9]+)?)\s*%?\s*\+|(?P<lo>[0-9]+(?:\.[0-9]+)?)\s*%?\s*-\s*(?P<hi>[0-9]+(?:\.[0-9]+)?))\s*%?\Z"
)


def band_edges(label: str) -> tuple[float, float]:
    """(low, high) as fractions of a band's *label*: `<5%`, `5-10%`, `>20%`, `20+%`; the open top closes at 95 %.

    Raises ValueError for any other form: an unknown label is unknown, not guessed.
    """
    match = _BAND.match(label.strip())
    if match is not None:
        if match["below"]:
            low, high = 0.0, float(match["b"]) / 100.0
        elif match["lo"]:
            low, high = float(match["lo"]) / 100.0, float(match["hi"]) / 100.0
        else:
            low, high = float(match["a"] or match["plus"]) / 100.0, OPEN_TOP
        if 0.0 <= low < high < 1.0:
            return low, high
    raise ValueError(f"{label[:40]!r} is not a band, such as <5%, 5-10%, >20% or 20+%")


class Component(NamedTuple):
    """One Gamma component of the posterior."""

    weight: float
    shape: float
    rate_hours: float


class Posterior(NamedTuple):
    """What own history makes of a published figure (contract definition 8)."""

    components: tuple[Component, ...]
    mean_per_hour: float
    low_per_hour: float  # 5 % quantile
    high_per_hour: float  # 95 % quantile


def posterior(
    low_rate: float, high_rate: float, node_hours: float, reclaims: int, *, published: bool = True
) -> Posterior:
    """Mixture prior 0.95 Gamma(a, b) + 0.05 Gamma(0.5, 4 h), updated by k reclaims in T node-hours.

    a = 3(hi + lo)²/(hi - lo)², b = 6(hi + lo)/(hi - lo)²: mean and variance of a uniform on (lo, hi). Each component
    updates to (shape + k, rate + T) and is weighted by its marginal likelihood. Without a published figure
    (`published` false) the second component stands alone.
    """
    prior = [(0.05, 0.5, 4.0)]
    if published:
        spread = max((high_rate - low_rate) ** 2, (1e-6 * high_rate) ** 2)  # a point is a very narrow range
        shape = 3.0 * (high_rate + low_rate) ** 2 / spread
        prior.insert(0, (0.95, shape, 6.0 * (high_rate + low_rate) / spread))
    logs = [
        math.log(weight) + _log_marginal(shape, rate, node_hours, reclaims) for weight, shape, rate in prior
    ]
    top = max(logs)
    total = sum(math.exp(value - top) for value in logs)
    parts = tuple(
        Component(math.exp(value - top) / total, shape + reclaims, rate + node_hours)
        for value, (_, shape, rate) in zip(logs, prior, strict=True)
    )
    mean = sum(part.weight * part.shape / part.rate_hours for part in parts)
    return Posterior(parts, mean, _quantile(parts, 0.05), _quantile(parts, 0.95))


def _log_marginal(shape: float, rate: float, hours: float, count: int) -> float:
    """Log of the Poisson-Gamma marginal, without the factor common to all components."""
    gammas = math.lgamma(shape + count) - math.lgamma(shape)
    return gammas + shape * math.log(rate) - (shape + count) * math.log(rate + hours)


def _quantile(parts: tuple[Component, ...], probability: float) -> float:
    ends = [gamma_quantile(part.shape, probability) / part.rate_hours for part in parts]
    low, high = min(ends), max(ends)
    for _ in range(200):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if sum(part.weight * gamma_p(part.shape, part.rate_hours * middle) for part in parts) < probability:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)

"""Lifetimes that are not memoryless: Weibull, bathtub with a cap, fixed and uniform gaps.

Without a resume each attempt starts on a fresh node: E[time] = ∫₀ᴴ S(t) dt / S(H), infinite when S(H) = 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from planner.special import bisect, gamma_p


class FreshStarts(NamedTuple):
    """A job of H hours that starts again on a fresh node after each reclaim."""

    expected_hours: float
    p_one_gap_long_enough: float  # S(H)
    mean_lifetime_hours: float


def weibull_no_resume(hours: float, shape: float, scale_hours: float) -> FreshStarts:
    """S(t) = exp(-(t/η)^k); ∫₀ᴴ S = (η/k) Γ(1/k) P(1/k, (H/η)^k)."""
    x = (hours / scale_hours) ** shape
    gamma = math.gamma(1.0 + 1.0 / shape)
    survival = math.exp(-x)
    integral = scale_hours * gamma * gamma_p(1.0 / shape, x)
    expected = math.inf if survival == 0 else integral / survival
    return FreshStarts(expected, survival, scale_hours * gamma)


class Conditional(NamedTuple):
    """What a node of a given age still promises."""

    p: float  # chance to live H hours more
    hazard_per_hour: float  # at that age


def weibull_conditional(age_hours: float, hours: float, shape: float, scale_hours: float) -> Conditional:
    """S(age + H)/S(age) and the hazard (k/η)(age/η)^{k-1}."""
    now, later = (age_hours / scale_hours) ** shape, ((age_hours + hours) / scale_hours) ** shape
    hazard = shape / scale_hours * (age_hours / scale_hours) ** (shape - 1.0)
    return Conditional(math.exp(now - later), hazard)


class Bathtub(NamedTuple):
    """F(t) = A(1 - e^{-t/τ₁} + e^{(t-b)/τ₂}), clipped to [0, 1]; survivors are reclaimed at `cap_hours`.

    Kadupitiya, Jadhao, Sharma (HPDC'20); not memoryless: after its first hours a node is safe until the cap.
    """

    share: float  # A
    early_hours: float  # τ₁
    late_hours: float  # τ₂
    late_at_hours: float  # b
    cap_hours: float = 24.0

    @property
    def effective_cap_hours(self) -> float:
        """Where F reaches 1, or the cap when that comes first."""
        if self._raw(self.cap_hours) <= 1.0:
            return self.cap_hours
        return bisect(lambda t: self._raw(t) - 1.0, self.cap_hours * 1e-9, self.cap_hours)

    def _raw(self, t: float) -> float:
        early = -math.expm1(-t / self.early_hours)
        return self.share * (early + math.exp((t - self.late_at_hours) / self.late_hours))

    def survival(self, t: float) -> float:
        """S(t) for a node that has not been reclaimed by its cap."""
        return 0.0 if t >= self.effective_cap_hours else max(0.0, 1.0 - self._raw(t))

    def survival_integral(self, t: float) -> float:
        """∫₀ᵗ S for t up to the effective cap."""
        end = min(t, self.effective_cap_hours)
        early = end + self.early_hours * math.expm1(-end / self.early_hours)
        late = self.late_hours * (
            math.exp((end - self.late_at_hours) / self.late_hours)
            - math.exp(-self.late_at_hours / self.late_hours)
        )
        return end - self.share * (early + late)

    def no_resume(self, hours: float) -> FreshStarts:
        """A job of `hours` without a resume; infinite from the effective cap on."""
        survival = self.survival(hours)
        expected = math.inf if survival == 0 else self.survival_integral(hours) / survival
        return FreshStarts(expected, survival, self.survival_integral(self.effective_cap_hours))


class FixedGap(NamedTuple):
    """Reclaims at a fixed age."""

    finishes: bool
    expected_hours: float


def fixed_gap_no_resume(gap_hours: float, hours: float) -> FixedGap:
    """Every node lives exactly `gap_hours`; a reclaim exactly at H counts as finished."""
    return FixedGap(gap_hours >= hours, hours if gap_hours >= hours else math.inf)


def uniform_gap_no_resume(low_hours: float, high_hours: float, hours: float) -> FreshStarts:
    """Lifetimes uniform on (low, high)."""
    mean = 0.5 * (low_hours + high_hours)
    if hours <= low_hours:
        return FreshStarts(hours, 1.0, mean)
    if hours >= high_hours:
        return FreshStarts(math.inf, 0.0, mean)
    width = high_hours - low_hours
    survival = (high_hours - hours) / width
    integral = low_hours + (width * width - (high_hours - hours) ** 2) / (2.0 * width)
    return FreshStarts(integral / survival, survival, mean)

"""How providers bill: granules, minimums, hours that cost nothing when the provider takes the node back.

Expectations are for exponential lives with rate λ per hour; rules are data, so that a change of terms is an edit.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Rule(NamedTuple):
    """A billing rule."""

    name: str
    granule_hours: float = 0.0  # billed in whole granules, rounded up; 0: by the second
    minimum_hours: float = 0.0
    free_if_reclaimed_before_hours: float = 0.0
    source: str = ""


RULES = {
    rule.name: rule
    for rule in (
        Rule("per-second", source="default"),
        Rule("per-minute", granule_hours=1 / 60, source="assumed"),
        Rule("per-hour", granule_hours=1.0, source="assumed"),
        Rule("per-second-minimum-60s", minimum_hours=1 / 60, source="common minimum for Linux instances"),
        Rule(
            "aws-first-hour-free",
            free_if_reclaimed_before_hours=1.0,
            source="AWS EC2 user guide, billing for interrupted Spot Instances (Linux, Windows)",
        ),
    )
}


class Billed(NamedTuple):
    """Expected billed hours of one life."""

    expected_billed_hours: float
    mean_life_hours: float
    share_free: float = 0.0


def rounded_up(rate_per_hour: float, granule_hours: float) -> Billed:
    """Whole granules g: E = g/(1 - e^{-λg})."""
    return Billed(granule_hours / -math.expm1(-rate_per_hour * granule_hours), 1.0 / rate_per_hour)


def with_minimum(rate_per_hour: float, minimum_hours: float) -> Billed:
    """At least m: E = m + e^{-λm}/λ."""
    expected = minimum_hours + math.exp(-rate_per_hour * minimum_hours) / rate_per_hour
    return Billed(expected, 1.0 / rate_per_hour)


def free_when_early(rate_per_hour: float, free_hours: float) -> Billed:
    """Nothing for a life ended by the provider before f, all of a longer one: E = e^{-λf}(f + 1/λ)."""
    mean = 1.0 / rate_per_hour
    expected = math.exp(-rate_per_hour * free_hours) * (free_hours + mean)
    return Billed(expected, mean, 1.0 - expected / mean)


def billed_seconds(run_s: float, minimum_s: float, granule_s: float) -> float:
    """Seconds billed for one run: nothing for no run, else at least the minimum, in whole granules."""
    if run_s == 0:
        return 0.0
    longer = max(run_s, minimum_s)
    return longer if granule_s == 0 else math.ceil(longer / granule_s - 1e-12) * granule_s


def paid_share(rule: Rule, rate_per_hour: float) -> float:
    """Billed hours per hour of life in the long run under `rule`, for lives ended by reclaims at rate λ > 0."""
    if rule.granule_hours:
        life = rounded_up(rate_per_hour, rule.granule_hours)
    elif rule.minimum_hours:
        life = with_minimum(rate_per_hour, rule.minimum_hours)
    elif rule.free_if_reclaimed_before_hours:
        life = free_when_early(rate_per_hour, rule.free_if_reclaimed_before_hours)
    else:
        return 1.0
    return life.expected_billed_hours / life.mean_life_hours

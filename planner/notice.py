"""What a reclaim notice is worth: whether a final save fits its window, and what trusting it would change.

q is the share of reclaims whose notice comes and whose window fits a save; plan with q = 0: with the interval.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from planner.intervals import young

USABLE_SHARE = 0.7  # of the window; the rest is for what goes wrong


class Fit(NamedTuple):
    """Whether a final save fits."""

    window_s: float
    save_s: float | None
    usable_s: float
    fits: bool | None  # None: the save's time is unknown


def fit(window_s: float, save_s: float | None) -> Fit:
    """A save fits when it takes at most 0.7 of the window."""
    usable = USABLE_SHARE * window_s
    return Fit(window_s, save_s, usable, None if save_s is None else save_s <= usable)


class NoticeInterval(NamedTuple):
    """Young's interval when a share of reclaims loses nothing."""

    young_hours: float  # √(2C/((1 - q)λ))
    stretch: float  # against q = 0: 1/√(1 - q)


def notice_interval(rate_per_hour: float, save_hours: float, usable_share: float) -> NoticeInterval:
    """Only (1 - q)λ loses work; a wrong belief in q is costly (q = 0.9 stretches 3.16 times)."""
    return NoticeInterval(
        young((1.0 - usable_share) * rate_per_hour, save_hours), 1.0 / math.sqrt(1.0 - usable_share)
    )


class PredictionWaste(NamedTuple):
    """First-order waste with predictions (Aupy, Robert, Vivien, Zaidouni, arXiv 1302.3752)."""

    waste: float  # share of time not spent on work
    optimum_period: float  # hours, save included
    ignore_before_hours: float  # a prediction sooner than this after a save is not acted on


def prediction_waste(
    period_hours: float,
    mean_hours: float,
    save_hours: float,
    proactive_save_hours: float,
    wait_hours: float,
    restore_hours: float,
    *,
    recall: float,
    precision: float,
    trust: bool,
) -> PredictionWaste:
    """C/T + (1/μ)[(1 - r)T/2 + D + R + (r/p)Cp], T = √(2μC/(1 - r)); recall counts only when predictions are trusted."""
    heard = recall if trust else 0.0
    proactive = heard / precision * proactive_save_hours
    loss = (1.0 - heard) * period_hours / 2.0 + wait_hours + restore_hours + proactive
    optimum = math.sqrt(2.0 * mean_hours * save_hours / (1.0 - heard))
    return PredictionWaste(
        save_hours / period_hours + loss / mean_hours, optimum, proactive_save_hours / precision
    )

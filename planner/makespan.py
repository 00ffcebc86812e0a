"""Expected time and bill of a job with saves, and of one without a resume.

Symbols, in hours: H useful work; τ work from the end of one save to the start of the next; C save; R restore
(billed, can itself be hit); U upload that overlaps the work; D wait for capacity (not billed, nothing can be
reclaimed in it); λ reclaims per exposed hour; w exposure (τ + C, the last piece without C unless it is saved too).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from planner.special import exp, expm1, log10_expm1


class Makespan(NamedTuple):
    """Expectations of one plan."""

    pieces: int
    last_piece_hours: float  # useful work of the last piece
    failure_free_hours: float  # F = Σw
    expected_billed_hours: float
    expected_reclaims: float
    expected_wall_hours: float  # billed + D · reclaims
    lost_hours_per_reclaim: float  # (billed - F)/reclaims; 0 without reclaims, infinite when they are


def piece_count(hours: float, interval_hours: float) -> int:
    """ceil(H/τ), tolerant of the last bit of a quotient that is whole in decimals."""
    quotient = hours / interval_hours
    nearest = round(quotient)
    if nearest >= 1 and abs(quotient - nearest) <= 1e-12 * nearest:
        return nearest
    return max(1, math.ceil(quotient))


def expected_makespan(
    hours: float,
    rate_per_hour: float,
    save_hours: float,
    restore_hours: float,
    interval_hours: float,
    *,
    wait_hours: float = 0.0,
    upload_hours: float = 0.0,
    final_save: bool = False,
    restore_can_be_hit: bool = True,
) -> Makespan:
    """Expected bill, reclaims and wall time of n = ceil(H/τ) pieces.

    One exposure w costs e^{λR}(e^{λw} - 1)/λ billed hours when restores can be hit, (e^{λw} - 1)(1/λ + R) when not.
    An upload U > 0 acts like extra restore and is defined for hit-able restores without a final save:
    reclaims = e^{λR}(e^{λ(w₁+U)} - 1) + e^{λ(R+U)}[Σ_mid(e^{λw} - 1) + e^{λ(w_n-U)} - 1]; if w_n ≤ U the last save
    is dropped. Raises ValueError for U > τ.
    """
    if upload_hours > interval_hours:
        raise ValueError(
            f"the upload of {upload_hours:g} h is longer than the interval of {interval_hours:g} h"
        )
    pieces = piece_count(hours, interval_hours)
    last = hours - (pieces - 1) * interval_hours
    if upload_hours > 0 and pieces >= 2 and last + (save_hours if final_save else 0.0) <= upload_hours:
        pieces -= 1
        last += interval_hours
    middle = interval_hours + save_hours
    end = last + (save_hours if final_save else 0.0)
    free = (pieces - 1) * middle + end
    if rate_per_hour == 0:
        return Makespan(pieces, last, free, free, 0.0, free, 0.0)
    if upload_hours > 0 and pieces >= 2:
        reclaims = _with_upload(pieces, middle, end, rate_per_hour, restore_hours, upload_hours)
        billed = reclaims / rate_per_hour
    else:
        before = (pieces - 1) * expm1(rate_per_hour * middle) if pieces > 1 else 0.0
        hits = before + expm1(rate_per_hour * end)
        reclaims = exp(rate_per_hour * restore_hours) * hits if restore_can_be_hit else hits
        billed = (
            reclaims / rate_per_hour if restore_can_be_hit else hits * (1.0 / rate_per_hour + restore_hours)
        )
    lost = (billed - free) / reclaims if reclaims < math.inf else math.inf
    return Makespan(pieces, last, free, billed, reclaims, billed + wait_hours * reclaims, lost)


def _with_upload(pieces: int, middle: float, end: float, rate: float, restore: float, upload: float) -> float:
    first = exp(rate * restore) * expm1(rate * (middle + upload))
    rest = ((pieces - 2) * expm1(rate * middle) if pieces > 2 else 0.0) + expm1(rate * (end - upload))
    return first + exp(rate * (restore + upload)) * rest


class Exposure(NamedTuple):
    """`times` exposures of one kind: a first try and, after a reclaim, tries of `restore + hours`."""

    times: int
    hours: float
    restore_hours: float


def exposures(
    pieces: int, middle_hours: float, end_hours: float, restore_hours: float, upload_hours: float
) -> tuple[Exposure, ...]:
    """The exposures of contract definition 3, an overlapped upload as extra restore."""
    if pieces == 1:
        return (Exposure(1, end_hours, restore_hours),)
    if upload_hours == 0:
        return (Exposure(pieces - 1, middle_hours, restore_hours), Exposure(1, end_hours, restore_hours))
    later = restore_hours + upload_hours
    return (
        Exposure(1, middle_hours + upload_hours, restore_hours),
        Exposure(pieces - 2, middle_hours, later),
        Exposure(1, end_hours - upload_hours, later),
    )


def deviation(kinds: tuple[Exposure, ...], rate_per_hour: float, wait_hours: float) -> float:
    """Standard deviation of the wall time: exposures are independent, so their variances add.

    A reclaim costs Y = X + D, X the time into the exposure at which it strikes. Tries of z = R + w are a geometric number N
    of failures, Var = E[N] Var(Y) + Var(N) E[Y]²; the first try is of w alone. Infinite beyond a double; 0 at λ = 0.
    """
    if rate_per_hour == 0:
        return 0.0
    total = 0.0
    for times, width, restore in kinds:
        if times == 0:
            continue
        retry = width + restore
        odds = expm1(rate_per_hour * retry)  # E[N], its variance odds (1 + odds)
        if odds > 1e150:
            return math.inf
        mean_y, var_y = _struck(retry, rate_per_hour)
        mean_z = odds * (mean_y + wait_hours) + retry
        var_z = odds * var_y + odds * (1.0 + odds) * (mean_y + wait_hours) ** 2
        fail = -math.expm1(-rate_per_hour * width)
        mean_y, var_y = _struck(width, rate_per_hour)
        rest = mean_y + wait_hours + mean_z - width  # beyond w, when the first try fails
        total += times * (fail * (var_y + var_z) + fail * (1.0 - fail) * rest * rest)
    return math.sqrt(total)


def _struck(width: float, rate: float) -> tuple[float, float]:
    """Mean and variance of the time into an exposure at which it is struck."""
    x = rate * width
    if x < 1e-3:  # the closed forms cancel; nearly uniform
        return mean_time_lost(width, rate), width * width * (1.0 / 12.0 - x * x / 240.0)
    odds = expm1(x)
    mean = mean_time_lost(width, rate)
    second = 2.0 / (rate * rate) - (width * width + 2.0 * width / rate) / odds
    return mean, max(0.0, second - mean * mean)


def mean_time_lost(exposure_hours: float, rate_per_hour: float) -> float:
    """Mean time into an exposure at which it is struck, given that it is: 1/λ - w/(e^{λw} - 1)."""
    x = rate_per_hour * exposure_hours
    if x < 1e-4:  # the closed form cancels; its series does not
        return exposure_hours * (0.5 - x / 12.0 + x**3 / 720.0)
    return 1.0 / rate_per_hour - exposure_hours / expm1(x)


class NoResume(NamedTuple):
    """A job that starts again from the beginning after every reclaim."""

    expected_hours: float  # (e^{λH} - 1)/λ; infinite when beyond a double
    log10_expected_hours: float
    p_one_gap_long_enough: float  # e^{-λH}
    expected_attempts: float  # e^{λH}


def no_resume(hours: float, rate_per_hour: float) -> NoResume:
    """Expected time without a resume under memoryless reclaims; H at λ = 0."""
    x = rate_per_hour * hours
    if x == 0:  # no reclaims, or λH below the smallest double
        return NoResume(hours, math.log10(hours), 1.0, 1.0)
    return NoResume(
        expm1(x) / rate_per_hour, log10_expm1(x) - math.log10(rate_per_hour), math.exp(-x), exp(x)
    )


def break_even_no_resume(discount: float) -> float | None:
    """Largest mean number of reclaims x = λH with (1 - d)(e^x - 1)/x ≤ 1; None for d < 0, infinite at d = 1."""
    if discount < 0:
        return None
    if discount >= 1:
        return math.inf
    if discount < 1e-9:
        return 2.0 * discount  # (e^x - 1)/x ≈ 1 + x/2
    x = max(2.0 * discount, 2.0 * math.log(1.0 / (1.0 - discount)))
    for _ in range(100):  # convex and increasing: Newton from the right converges monotonically
        value = (1.0 - discount) * math.expm1(x) / x - 1.0
        slope = (1.0 - discount) * (math.exp(x) * x - math.expm1(x)) / (x * x)
        step = value / slope
        x -= step
        if abs(step) <= 1e-15 * x:
            break
    return x


class Gang(NamedTuple):
    """n nodes that all stop when one goes, reclaimed independently."""

    rate_per_hour: float  # nλ
    p_none_reclaimed: float  # e^{-nλH}
    expected_node_hours_unsaved: float  # n (e^{nλH} - 1)/(nλ): node-hours without saves


def gang(nodes: int, rate_per_hour: float, hours: float) -> Gang:
    """The pessimistic end for n nodes (independent reclaims); the optimistic end is the rate of one."""
    rate = nodes * rate_per_hour
    return Gang(rate, math.exp(-rate * hours), nodes * expm1(rate * hours) / rate)

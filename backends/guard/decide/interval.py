"""How often a job is saved: the operator's interval, or `auto` from measured costs and the job's limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from backends.guard.decide.lease import ends_at
from backends.guard.decide.model import Costs, Mind, Policy, Rate
from backends.guard.decide.window import latest_start
from planner import intervals

FALLBACK_S = 600.0  # until costs and a reclaim rate are known
LEAST_S = 1.0
LONGEST_S = 86400.0  # whatever the limits ask for
LEAST_PER_HOUR = 1e-6  # once in a century: what is less is taken as that
LEAST_COST_S = 0.001  # below this a freeze cannot be told from nothing
NEAR = 0.8  # share of max_freeze above which a freeze is told
RETRY_FIRST_S = 5.0
DAY_S = 86400.0
GIB = 1024.0**3


@dataclass(frozen=True)
class Interval:
    """The interval in force, in seconds between freeze instants, and why it is that."""

    seconds: float
    reason: str


@lru_cache(maxsize=256)  # asked several times a second, and its answer rarely changes
def interval(policy: Policy, costs: Costs) -> Interval:
    """The interval in force for `policy` and measured `costs`.

    `auto` asks the planner (contract section 3, definitions 3, 6 and 7) once freeze, upload and a reclaim rate are
    known; until then it is ten minutes. It is never shorter than a save takes, than `max_overhead` (freeze / interval)
    or `max_store_usd_per_day` allow; `max_freeze` bounds the freeze itself, so a freeze near it is told.
    """
    if policy.interval_s is not None:
        return Interval(policy.interval_s, "set by the operator")
    if costs.freeze_s is None or costs.upload_s is None:
        return Interval(FALLBACK_S, "auto: 10 minutes until a save has been measured")
    if policy.rate is None or policy.rate.per_hour <= 0:
        seconds, reason = FALLBACK_S, "auto: 10 minutes until a reclaim rate is known"
    else:
        seconds, reason = _planned(policy.rate, costs.freeze_s, costs.upload_s, costs.restore_s)
    least, why = max(_limits(policy, costs.freeze_s, costs.upload_s, costs.size_bytes))
    if least > seconds:
        seconds, reason = least, f"{reason}; lengthened to {_words(least)}: {why}"
    notes = [*_freeze_note(policy, costs.freeze_s), *_store_note(policy, costs.size_bytes)]
    return Interval(seconds, "; ".join((reason, *notes)))


def _planned(rate: Rate, freeze_s: float, upload_s: float, restore_s: float | None) -> tuple[float, str]:
    """Seconds from freeze to freeze: the planner's work between saves, rounded, plus the freeze.

    A range of rates asks for the least possible worst regret. Restore and upload do not move the optimum (they
    multiply the bill by e^{λ(R + U)}), but they are part of the loss that is told.
    """
    cost = max(freeze_s, LEAST_COST_S) / 3600.0
    mean = max(rate.per_hour, LEAST_PER_HOUR)
    top = mean
    if rate.low is not None and rate.high is not None:
        low, high = (end if end >= LEAST_PER_HOUR else 0.0 for end in (rate.low, rate.high))
        if high > 0:
            top = intervals.rate_of_exact(intervals.minimax_regret(low, high, cost), cost)
    work = intervals.rounded(intervals.exact(top, cost), *intervals.safe_range(top, cost))
    exposed = mean * (upload_s + (restore_s or 0.0)) / 3600.0
    loss = intervals.overhead(work, mean, cost) * math.exp(min(exposed, 700.0)) - 1.0
    restore = "not measured" if restore_s is None else _words(restore_s)
    said = (
        f"auto: pause {_words(freeze_s)}, upload {_words(upload_s)}, restore {restore}, "
        f"{rate.per_hour:.3g} reclaims an hour"
    )
    if rate.source:
        said += f" ({rate.source})"
    return min(
        work * 3600.0 + freeze_s, LONGEST_S
    ), f"{said}: about {loss:.1%} of the time is lost to saves and reclaims"


def _limits(
    policy: Policy, freeze_s: float, upload_s: float, size_bytes: int | None
) -> list[tuple[float, str]]:
    """The shortest intervals that the job's limits allow, each with its reason."""
    limits = [(max(LEAST_S, freeze_s + upload_s), f"a save takes {_words(freeze_s + upload_s)}")]
    if policy.max_overhead:
        limits.append((freeze_s / policy.max_overhead, f"max_overhead is {policy.max_overhead:.2%}"))
    store_s = _store_limit_s(policy, size_bytes)
    if store_s is not None:
        limits.append((store_s, f"max_store_usd_per_day is {policy.max_store_usd_per_day:g}"))
    return [(min(seconds, LONGEST_S), why) for seconds, why in limits]


def kept_usd_per_day(policy: Policy, size_bytes: int, interval_s: float) -> float | None:
    """What keeping full saves of this size at this interval costs a day at list prices; None without a price.

    Kept are the last `keep_last` and all younger than `min_age`, or than a day: retention waits for a daily check.
    """
    price = policy.price
    if price is None:
        return None
    copies = policy.keep_last + max(policy.min_age_s, DAY_S) / interval_s
    return copies * size_bytes / GIB * price.usd_per_gib_day + DAY_S / interval_s * price.usd_per_save


def _store_limit_s(policy: Policy, size_bytes: int | None) -> float | None:
    """The interval at which `kept_usd_per_day` is the job's limit; infinite when the fixed part alone is above it."""
    if policy.max_store_usd_per_day is None or policy.price is None or size_bytes is None:
        return None
    fixed = policy.keep_last * size_bytes / GIB * policy.price.usd_per_gib_day
    flowing = (kept_usd_per_day(policy, size_bytes, 1.0) or 0.0) - fixed
    room = policy.max_store_usd_per_day - fixed
    return flowing / room if room > 0 else math.inf


def _freeze_note(policy: Policy, freeze_s: float) -> list[str]:
    if policy.max_freeze_s is None or freeze_s < NEAR * policy.max_freeze_s:
        return []
    return [f"the pause is near max_freeze ({_words(policy.max_freeze_s)}): a longer one is given up"]


def _store_note(policy: Policy, size_bytes: int | None) -> list[str]:
    if policy.max_store_usd_per_day is None:
        return []
    if policy.price is None:
        return ["max_store_usd_per_day is not applied: this store has no list price"]
    limit_s = _store_limit_s(policy, size_bytes)
    if limit_s is not None and limit_s > LONGEST_S:
        return [f"max_store_usd_per_day ({policy.max_store_usd_per_day:g}) cannot be kept by any interval"]
    return []


def _words(seconds: float) -> str:
    """A length for people, two digits."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def in_force_s(mind: Mind) -> float:
    """The interval in force in seconds; halved under a hint, which only brings the next save forward."""
    seconds = interval(mind.policy, mind.costs).seconds
    return seconds / 2 if mind.notice.state == "hint" else seconds


def due_at(mind: Mind) -> float:
    """When the next save should freeze: at once for the first, else an interval after the last freeze instant."""
    if mind.durable is None:
        return mind.began_at + mind.first_delay_s
    return mind.durable.frozen_at + in_force_s(mind)


def in_a_pause(mind: Mind, now: float) -> bool:
    """Whether a save that begins now would run across a pause of the whole machine (a live migration)."""
    if mind.notice.quiet is None:
        return False
    begins, ends = mind.notice.quiet
    return begins - (mind.costs.save_s or 0.0) < now < ends


def wake_at(mind: Mind, now: float) -> float:
    """The next instant after `now` at which time alone can change something; infinity when there is none.

    A save that is due, the last save of a window, a lease that ends.
    """
    instants = [due_at(mind) if mind.retry_at is None else max(due_at(mind), mind.retry_at)]
    ends = ends_at(mind)
    if ends is not None and mind.frozen is None:
        instants.append(ends)
    latest = latest_start(mind) if mind.final_owed else None
    if latest is not None:
        instants.append(latest)
    return min((at for at in instants if at > now), default=float("inf"))


def overdue(mind: Mind, now: float) -> bool:
    """Whether a save is late: past due by a quarter of the interval, twice a save's measured time, and 10 s."""
    if mind.durable is None and mind.restored_from is None:
        return False
    grace = max(10.0, in_force_s(mind) / 4, 2 * (mind.costs.save_s or 0.0))
    return now > due_at(mind) + grace


def retry_delay_s(mind: Mind) -> float:
    """Seconds to wait after a failed save: 5 s, doubled each time, never beyond the interval."""
    return float(min(RETRY_FIRST_S * 2.0 ** min(mind.failures, 20), max(RETRY_FIRST_S, in_force_s(mind))))

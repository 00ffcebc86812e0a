"""How often a job is saved: the operator's interval, or `auto` from measured costs."""

from __future__ import annotations

from dataclasses import dataclass

from backends.guard.decide.model import Costs, Mind, Policy
from backends.guard.decide.window import latest_start
from planner.intervals import exact, rounded, safe_range

FALLBACK_S = 600.0  # until costs and a reclaim rate are known
LEAST_S = 1.0
LEAST_COST_S = 0.001  # below this a freeze cannot be told from nothing
RETRY_FIRST_S = 5.0


@dataclass(frozen=True)
class Interval:
    """The interval in force, in seconds between freeze instants, and why it is that."""

    seconds: float
    reason: str


def interval(policy: Policy, costs: Costs) -> Interval:
    """The interval in force for `policy` and measured `costs`.

    `auto` asks the planner (contract section 3, definition 6) once freeze, upload and a reclaim rate are known;
    until then it is ten minutes. `max_overhead` bounds `auto` from below: freeze / interval never exceeds it.
    """
    if policy.interval_s is not None:
        return Interval(policy.interval_s, "set by the operator")
    if costs.freeze_s is None or costs.upload_s is None:
        return Interval(FALLBACK_S, "auto: 10 minutes until a save has been measured")
    least = max(LEAST_S, costs.freeze_s + costs.upload_s)
    if policy.max_overhead:
        least = max(least, costs.freeze_s / policy.max_overhead)
    if not policy.rate_per_hour:
        return Interval(max(FALLBACK_S, least), "auto: 10 minutes until a reclaim rate is known")
    return Interval(
        max(least, _planned_s(costs.freeze_s, policy.rate_per_hour)), "auto: from measured costs and the rate"
    )


def _planned_s(freeze_s: float, rate_per_hour: float) -> float:
    """Seconds from freeze to freeze: the planner's work between saves (the exact optimum, rounded) plus the freeze."""
    cost_hours = max(freeze_s, LEAST_COST_S) / 3600.0
    work_hours = rounded(exact(rate_per_hour, cost_hours), *safe_range(rate_per_hour, cost_hours))
    return work_hours * 3600.0 + freeze_s


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
    if mind.policy.on_isolated == "freeze" and mind.frozen is None:
        instants.append(mind.contact_at + mind.policy.lease_s)
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

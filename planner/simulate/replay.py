"""Replay of availability traces, and seeded Monte Carlo for what has no closed form.

Polarity of traces: 1 means available. A tick lasts `tick_hours`; one decision is taken at its start and held for it. Every launch
(the first one too, and each change between spot and on-demand) costs `overhead_hours` of billed time without progress;
a new launch replaces what is left of an older overhead. Work is saved at every tick's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Where = Literal["spot", "on_demand", "pause"]
Policy = Literal["on_demand", "wait", "eager", "progress"]
_GUARDED = ("wait", "progress")
POLICIES: tuple[Policy, ...] = ("on_demand", "wait", "eager", "progress")


@dataclass(frozen=True)
class Race:
    """A job against a deadline on one trace."""

    hours: float  # H
    deadline_hours: float  # T
    overhead_hours: float  # changeover loss
    tick_hours: float
    spot_price: float  # of on-demand


@dataclass(frozen=True)
class Outcome:
    """One window of one trace."""

    met_deadline: bool
    cost_over_hours: float  # on-demand hours paid, over H
    launches: int


@dataclass(frozen=True)
class Summary:
    """All windows of one trace; cost and launches are means over the windows that met the deadline."""

    windows: int
    met_deadline: int
    mean_cost_over_hours: float | None
    mean_launches: float | None


def choose(policy: Policy, race: Race, elapsed: float, done: float, available: bool, current: Where) -> Where:
    """What a policy does in the coming tick.

    `wait` and `progress` guard the end: when less than a tick would be left beyond work and one overhead, they go on-demand and
    stay; `eager` takes spot whenever there is some.
    `progress` (Wu et al., NSDI'24): without spot, on-demand while behind H t/T, and once there until H (t + 2 overhead)/T.
    """
    if policy == "on_demand":
        return "on_demand"
    target = race.hours * elapsed / race.deadline_hours
    if policy == "progress" and current == "on_demand":
        ahead = done >= race.hours * (elapsed + 2 * race.overhead_hours) / race.deadline_hours
        if not ahead:
            return "on_demand"
    if available:
        return "spot"
    if policy == "eager":
        return "on_demand"
    if policy == "progress" and done < target:
        return "on_demand"
    return "pause"


def replay(policy: Policy, race: Race, available: Sequence[int], start: int) -> Outcome:
    """One job from tick `start` on; stops at its end or at the deadline."""
    elapsed = done = cost = pending = 0.0
    launches, committed = 0, False
    current: Where = "pause"
    for tick in range(start, len(available)):
        left = race.deadline_hours - elapsed
        if left <= 1e-9:
            break
        guard = left - (race.hours - done + race.overhead_hours) < race.tick_hours
        committed = committed or (guard and policy in _GUARDED)
        up = bool(available[tick])
        where: Where = "on_demand" if committed else choose(policy, race, elapsed, done, up, current)
        if where not in ("pause", current):
            launches, pending = launches + 1, race.overhead_hours
        current = where
        if where == "pause":
            elapsed += race.tick_hours
            continue
        span = min(race.tick_hours, left)
        price = race.spot_price if where == "spot" else 1.0
        lost = min(pending, span)
        pending -= lost
        work = min(span - lost, race.hours - done)
        cost += price * (lost + work)
        done, elapsed = done + work, elapsed + span
        if done >= race.hours - 1e-9:
            return Outcome(True, cost / race.hours, launches)
    return Outcome(False, cost / race.hours, launches)


def summarise(policy: Policy, race: Race, available: Sequence[int], every_ticks: int) -> Summary:
    """Every window that a full deadline fits into, one each `every_ticks`."""
    need = round(race.deadline_hours / race.tick_hours)
    outcomes = [
        replay(policy, race, available, start) for start in range(0, len(available) - need + 1, every_ticks)
    ]
    met = [outcome for outcome in outcomes if outcome.met_deadline]
    return Summary(
        len(outcomes),
        len(met),
        sum(outcome.cost_over_hours for outcome in met) / len(met) if met else None,
        sum(outcome.launches for outcome in met) / len(met) if met else None,
    )

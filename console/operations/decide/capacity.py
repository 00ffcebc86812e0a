"""Which pool and market to ask for a machine when no node of the fleet fits: the job's policy, the fleet's limits, back-off."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from backends.clouds.port import Market
from backends.inventory.model import Renting

PoolEventKind = Literal["short", "reclaim", "age_limit", "ready", "unfit"]

SHORT_FIRST_S, SHORT_MOST_S = 60.0, 3600.0  # after 1, 2, 3 … requests in a row that came to nothing
RECLAIMS, RECLAIMS_WITHIN_S = 3, 3600.0  # so many reclaims so close together: the pool is being emptied
RECLAIM_FIRST_S, RECLAIM_MOST_S = 600.0, 7200.0
UNFIT_S = 7200.0  # a new machine of the pool could not take the job: it would be paid for in vain again
# What providers call the end of a machine's allotted time: it says nothing of the pool's capacity.
_AGE = re.compile(r"max.?run.?duration|age.?limit|max(imum)?.?life.?time|24.?h(our)?s?.?limit", re.IGNORECASE)
_PREEMPTIBLE_S = 86_400.0  # a preemptible machine of gcp ends after 24 h at the latest


@dataclass(frozen=True)
class PoolEvent:
    """Something that happened to a pool."""

    pool: str
    kind: PoolEventKind
    age_s: float  # how long ago


@dataclass(frozen=True)
class Request:
    """A machine to ask for."""

    pool: str
    market: Market
    give_up_s: float  # after so long without one, this request is cancelled


def age_limited(provider: str, reason: str, lived_s: float | None) -> bool:
    """Whether a machine ended because its time was up, not because its pool was needed elsewhere."""
    if _AGE.search(reason):
        return True
    return provider == "gcp" and lived_s is not None and abs(lived_s - _PREEMPTIBLE_S) < 600


def back_off_s(events: Iterable[PoolEvent]) -> dict[str, float]:
    """Seconds left in which a pool is not asked; pools without any are absent. It always ends: no pool is blacklisted.

    Requests in a row that came to nothing double it from a minute to an hour; three reclaims within an hour, those at a
    machine's age limit not counted, from ten minutes to two hours. A pool whose new machine could not take the job rests two hours.
    """
    by_pool: dict[str, list[PoolEvent]] = {}
    for event in sorted(events, key=lambda each: each.age_s):
        by_pool.setdefault(event.pool, []).append(event)
    left: dict[str, float] = {}
    for pool, newest_first in by_pool.items():
        short = 0
        for event in newest_first:
            if event.kind == "ready":
                break
            short += event.kind == "short"
        waits = []
        if short:
            age = next(event.age_s for event in newest_first if event.kind == "short")
            waits.append(min(SHORT_MOST_S, SHORT_FIRST_S * 2.0 ** min(short - 1, 16)) - age)
        waits += [UNFIT_S - event.age_s for event in newest_first if event.kind == "unfit"]
        taken = [e.age_s for e in newest_first if e.kind == "reclaim" and e.age_s < RECLAIMS_WITHIN_S]
        if len(taken) >= RECLAIMS:
            step = min(len(taken) - RECLAIMS, 16)
            waits.append(min(RECLAIM_MOST_S, RECLAIM_FIRST_S * 2.0**step) - min(taken))
        if waits and max(waits) > 0:
            left[pool] = max(waits)
    return left


def after_s(policy: str) -> float | None:
    """The T in seconds of `on-demand-after=T`; None for another policy."""
    from planner.quantities import parse_duration

    name, _, text = policy.partition("=")
    return float(parse_duration(text)) if name == "on-demand-after" else None


def choose(
    policy: str,
    *,
    home: str,
    others: tuple[str, ...],
    waited_s: float,
    backing_off: dict[str, float],
    limits: Renting,
    rented: int,
    barred: dict[str, str] | None = None,
) -> Request | str:
    """What to ask for now, or the sentence that says why nothing.

    Args:
        policy: the job's `restore`.
        home: pool of the node that was lost.
        others: further pools that could take the job, best first; asked only under `any-pool` and `on-demand-after`.
        waited_s: since the loss was proven.
        backing_off: pools that are not asked now, and for how long.
        limits: what the fleet may rent.
        rented: machines that it rents already.
        barred: pools of which no machine can be launched, with the reason.
    """
    if policy == "owned":
        return "the job's restore policy is owned: nothing is rented"
    if not (limits.rent or limits.on_demand):
        return "renting is off: set rent = true with max_usd and max_nodes under [fleet]"
    if limits.max_nodes is not None and rented >= limits.max_nodes:
        return f"{rented} machines are rented already, and max_nodes is {limits.max_nodes}"
    wait_s = after_s(policy)
    pools = (home,) if policy == "same-pool" else (home, *(pool for pool in others if pool != home))
    barred = barred or {}
    if all(pool in barred for pool in pools):
        return f"not_launchable: {barred[home]}"
    pools = tuple(pool for pool in pools if pool not in barred)
    if wait_s is not None and waited_s >= wait_s:
        if limits.on_demand:
            return Request(pools[0], "on_demand", 3600.0)
        if not limits.rent:
            return "on_demand is off under [fleet]"
    if not limits.rent:
        left = None if wait_s is None else wait_s - waited_s
        return "rent is off under [fleet]" if left is None else f"rent is off; on demand in {left:.0f} s"
    free = [pool for pool in pools if pool not in backing_off]
    if not free:
        soonest = min(pools, key=lambda pool: backing_off[pool])
        return f"pool {soonest} is left alone for {backing_off[soonest]:.0f} s more"
    give_up_s = 3600.0 if len(pools) == 1 else 600.0
    if wait_s is not None and limits.on_demand:
        give_up_s = min(give_up_s, max(1.0, wait_s - waited_s))
    return Request(free[0], "spot", give_up_s)

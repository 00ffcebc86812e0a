"""What an hour in a pool costs, for the limits of renting: as pulled last, or asked for now where that is old."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from backends.clock import Clock, format_utc, parse_utc
from backends.clouds import price_cache
from backends.clouds.port import Market
from backends.clouds.prices import Price, by_pool
from backends.errors import ReprieveError

OLD_S = 86_400.0  # a price pulled longer ago is asked for again


def price_of(cache: Path, clock: Clock) -> Callable[[str, Market], float | None]:
    """USD an hour of a pool of AWS on a market; None where it is not known. What is asked for is kept in the cache.

    The dearest zone's spot price counts: which zone a machine comes from is not known before.
    """

    def found(pool: str, market: Market) -> float | None:
        provider, region, kind, system = pool.split("/")
        kept = price_cache.load(cache, providers=(provider,), region=region, system=system)
        fresh = [
            each.price
            for each in kept
            if clock.wall() - parse_utc(each.fetched_at) < OLD_S
            and (each.price.instance_type, each.price.kind) == (kind, market)
        ]
        rows = fresh or _asked(region, kind, system, market, clock)
        if rows and not fresh:
            price_cache.save(cache, rows, format_utc(clock.wall()))
        if market == "on_demand":
            best = by_pool(rows).get(pool)
            return None if best is None or best.on_demand is None else best.on_demand.usd_per_hour
        return max((row.usd_per_hour for row in rows), default=None)

    return found


def _asked(region: str, kind: str, system: str, market: Market, clock: Clock) -> list[Price]:
    from backends.clouds.aws.prices import on_demand_prices, spot_prices

    try:
        if market == "spot":
            return list(spot_prices(region, [kind], system, clock))
        return list(on_demand_prices(region, [kind], system))
    except ReprieveError:
        return []  # not known, which the renter refuses in words

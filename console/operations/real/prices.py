"""What an hour in a pool costs, for the limits of renting: as pulled last, or asked for now where that is old."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from backends.clock import Clock, format_utc, parse_utc
from backends.clouds import price_cache
from backends.clouds.port import Market
from backends.clouds.prices import Price
from backends.errors import ReprieveError

OLD_S = 86_400.0  # a price pulled longer ago is asked for again


def price_of(cache: Path, clock: Clock) -> Callable[[str, Market], float | None]:
    """USD an hour of a pool on a market; None where it is not known. What is asked for is kept in the cache.

    The dearest zone's spot price counts: which zone a machine comes from is not known before.
    """

    def found(pool: str, market: Market) -> float | None:
        provider, region, kind, system = pool.split("/")
        kept = price_cache.load(cache, providers=(provider,), region=region, system=system)
        fresh = [
            each.price
            for each in kept
            if clock.wall() - parse_utc(each.fetched_at) < OLD_S
            and (each.price.instance_type.lower(), each.price.kind) == (kind.lower(), market)
        ]
        rows = fresh or _asked(provider, region, kind, system, market, clock)
        if rows and not fresh:
            price_cache.save(cache, rows, format_utc(clock.wall()))
        return max((row.usd_per_hour for row in rows), default=None)

    return found


def _asked(provider: str, region: str, kind: str, system: str, market: Market, clock: Clock) -> list[Price]:
    from backends.clouds.aws.prices import on_demand_prices, spot_prices

    try:
        if provider == "azure":
            from backends.clouds.azure.retail import DEFAULT_URL, retail_prices

            return [row for row in retail_prices(DEFAULT_URL, region, [kind], system) if row.kind == market]
        if provider == "gcp":
            from backends.clouds.gcp.catalogue import list_prices
            from backends.clouds.gcp.cloud import project_here

            rows = list_prices(None, project_here(), region, [kind], system, clock)
            return [row for row in rows if row.kind == market]
        if provider != "aws":
            return []
        if market == "spot":
            return list(spot_prices(region, [kind], system, clock))
        return list(on_demand_prices(region, [kind], system))
    except ReprieveError:
        return []  # not known, which the renter refuses in words

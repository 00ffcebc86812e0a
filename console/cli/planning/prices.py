"""Pulled prices joined to the rows of `pools list`."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backends.clock import parse_utc
from backends.clouds import price_cache
from backends.clouds.price_cache import Kept
from backends.clouds.prices import PoolPrices, by_pool
from planner.economics import break_even_ratio

FEED_BASIS = "mean saving of the feed"
PRICE_BASIS = "prices pulled"
_UNKNOWN = (
    "band", "band_low_fraction", "band_high_fraction", "band_basis", "rate_low_per_hour", "rate_high_per_hour",
    "discount", "discount_fraction", "discount_basis", "break_even_ratio", "vcpus", "ram_gb", "gpu", "gpu_count",
    "on_demand_usd_per_hour", "snapshot", "snapshot_basis", "fetched_at", "age_s",
)  # fmt: skip


def pulled(
    cache: Path, providers: Sequence[str], region: str | None, system: str
) -> tuple[dict[str, PoolPrices], dict[str, str]]:
    """Prices by pool id, and when the oldest of a pool's was fetched."""
    kept = price_cache.load(cache, providers=providers, region=region, system=system)
    fetched: dict[str, str] = {}
    for row in kept:
        pool = _pool(row)
        fetched[pool] = min(row.fetched_at, fetched.get(pool, row.fetched_at))
    return by_pool(row.price for row in kept), fetched


def _pool(row: Kept) -> str:
    price = row.price
    return f"{price.provider}/{price.region}/{price.instance_type}/{price.system}"


def price_fields(prices: PoolPrices | None, fetched_at: str | None, wall: float) -> dict[str, Any]:
    """The price columns of one row; a price that was not pulled is null."""
    known = prices or PoolPrices()
    spot = known.spot
    return {
        "spot_usd_per_hour": None if spot is None else spot.usd_per_hour,
        "spot_zone": None if spot is None else spot.zone or None,
        "spot_since": None if spot is None else spot.since,
        "price_source": None if spot is None else spot.source,
        "price_basis": None if spot is None else spot.basis,
        "price_age_s": None if fetched_at is None else round(max(0.0, wall - parse_utc(fetched_at)), 3),
    }


def others_from_prices(
    priced: dict[str, PoolPrices], providers: Sequence[str], typed: dict[str, Any]
) -> list[dict[str, Any]]:
    """Rows of providers whose interruption figures we do not have: band and rate are null, which is not 0."""
    rows = []
    for pool in sorted(priced):
        provider, region, kind, system = pool.split("/")
        wanted = typed["instance"]
        if provider in providers and (wanted is None or fnmatch.fnmatchcase(kind, wanted)):
            rows.append(
                {
                    "name": pool, "pool": pool, "provider": provider, "region": region, "instance_type": kind, "os": system,
                    **dict.fromkeys(_UNKNOWN), "notes": ["no interruption figure is known"], "source": "prices",
                }
            )  # fmt: skip
    return rows if typed["max_band"] is None and typed["gpu"] is None else []


def join(
    item: dict[str, Any], prices: PoolPrices | None, fetched_at: str | None, wall: float
) -> dict[str, Any]:
    """`item` with its prices; where spot and on-demand price are both known, they make the discount."""
    merged = {**item, **price_fields(prices, fetched_at, wall)}
    if prices is None:
        return merged
    if merged["on_demand_usd_per_hour"] is None and prices.on_demand is not None:
        merged["on_demand_usd_per_hour"] = prices.on_demand.usd_per_hour
    spot, listed = merged["spot_usd_per_hour"], merged["on_demand_usd_per_hour"]
    if spot is not None and listed is not None:
        merged["discount"] = merged["discount_fraction"] = 1.0 - spot / listed
        merged["discount_basis"] = PRICE_BASIS
        merged["break_even_ratio"] = break_even_ratio(merged["discount"]) if merged["discount"] >= 0 else None
    return merged

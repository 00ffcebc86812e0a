"""Pulled prices joined to the rows of `pools list`."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from backends.clock import parse_utc
from backends.clouds import price_cache
from backends.clouds.aws.gpus import parse_gpu
from backends.clouds.gpus import gpu_of
from backends.clouds.price_cache import Kept, KeptFigure
from backends.clouds.prices import PoolPrices, by_pool
from planner.economics import break_even_ratio
from planner.hazards import band_edges, rate_of_share

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


def priced_rows(
    provider: str, cache: Path, priced: dict[str, PoolPrices], typed: dict[str, Any], wall: float
) -> list[dict[str, Any]]:
    """Rows of a provider other than AWS: its types that have a price, with Azure's eviction figure where one was pulled.

    That figure's label is shown as it is. What it is a share of Azure tells in two ways, so a rate follows only from
    --eviction-basis; without a figure band and rate are null, which is not 0.
    """
    wanted = None if typed["gpu"] is None else parse_gpu(typed["gpu"])
    figures = price_cache.load_figures(cache, provider, typed["region"])
    rows = []
    for pool in sorted(priced):
        whose, region, kind, system = pool.split("/")
        gpu = gpu_of(provider, kind)
        fits = wanted is None or (gpu is not None and gpu[0] == wanted[0] and wanted[1] in (None, gpu[1]))
        named = typed["instance"] is None or fnmatch.fnmatchcase(kind, typed["instance"])
        if whose != provider or not named or not fits:
            continue
        figure = figures.get((region.lower(), kind.lower()))
        row = {
            "name": pool, "pool": pool, "provider": provider, "region": region, "instance_type": kind, "os": system,
            **dict.fromkeys(_UNKNOWN), "gpu": None if gpu is None else gpu[0], "gpu_count": None if gpu is None else gpu[1],
            **_figure_fields(figure, typed["eviction_basis"], wall),
        }  # fmt: skip
        high = row["band_high_fraction"]
        if typed["max_band"] is None or (high is not None and high <= typed["max_band"] + 1e-12):
            rows.append(row)
    return rows


def _figure_fields(
    kept: KeptFigure | None, basis: Literal["month", "hour"] | None, wall: float
) -> dict[str, Any]:
    if kept is None:
        return {"notes": ["no interruption figure is known"], "source": "prices"}
    fields: dict[str, Any] = {
        "band": kept.figure.label,
        "source": kept.figure.source,
        "fetched_at": kept.fetched_at,
        "age_s": round(max(0.0, wall - parse_utc(kept.fetched_at)), 3),
        "notes": [kept.figure.basis],
    }
    if kept.figure.provider == "gcp":  # a share of ends: no rate follows from it, whatever it is a share per
        return fields
    try:
        low, high = band_edges(kept.figure.label)
    except ValueError:
        return {**fields, "notes": [f"the band {kept.figure.label!r} is not understood"]}
    if basis is None:
        return {**fields, "notes": [*fields["notes"], "no rate without --eviction-basis"]}
    return {
        **fields,
        "band_basis": basis,
        "band_low_fraction": low,
        "band_high_fraction": high,
        "rate_low_per_hour": rate_of_share(low, basis),
        "rate_high_per_hour": rate_of_share(high, basis),
    }


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

"""Pools with their published figures, from the pulled copy of the feed."""

from __future__ import annotations

from typing import Any

from backends.clock import parse_utc
from backends.clouds.aws import advisor_cache, gpus
from backends.clouds.aws.advisor import AdvisorPool, Feed
from backends.clouds.prices_file import Prices
from backends.errors import UsageError
from console.operations.fleet import Fleet
from planner.economics import break_even_ratio
from planner.hazards import rate_of_share

Document = dict[str, Any]
FEED_BASIS = "mean saving of the feed"


async def pools(fleet: Fleet, arguments: Document) -> Document:
    """Every pool of the pulled copy, with how many nodes of this fleet are in it.

    Raises UsageError when nothing was ever pulled.
    """
    system = arguments.get("os") or "linux"
    found = await fleet.blocking(advisor_cache.load, fleet.context.cache, system=system)
    if found is None:
        raise UsageError("no published figures were pulled yet", hint="in a shell: reprieve pools pull")
    age = max(0.0, fleet.clock.wall() - parse_utc(found.fetched_at))
    ours: dict[str, list[str]] = {}
    for node in fleet.records.nodes().values():
        ours.setdefault(node.pool or "", []).append(node.name)
    items = await fleet.blocking(_documents, found, age)
    for item in items:
        item["nodes"] = ours.get(item["pool"], [])
    return {
        "items": items,
        "source": found.source,
        "snapshot": found.snapshot,
        "age_s": age,
        "gaps": len(found.gaps),
    }


def _documents(found: Feed, age_s: float) -> list[Document]:
    return [pool_document(pool, found, age_s, None) for pool in found.pools]


def pool_document(pool: AdvisorPool, found: Feed, age_s: float, prices: Prices | None) -> dict[str, Any]:
    """One pool as machine formats show it; `age_s` is how long ago the feed was read."""
    low, high, d = pool.band.low, pool.band.high, pool.discount
    gpu = gpus.GPUS.get(pool.instance_type)
    place = (pool.region, pool.instance_type, pool.system)
    return {
        "name": pool.pool,
        "pool": pool.pool,
        "provider": "aws",
        "region": pool.region,
        "instance_type": pool.instance_type,
        "os": pool.system,
        "band": pool.band.label,
        "band_low_fraction": low,
        "band_high_fraction": high,
        "band_basis": "month",
        "rate_low_per_hour": None if low is None else rate_of_share(low, "month"),
        "rate_high_per_hour": None if high is None else rate_of_share(high, "month"),
        "discount": d,
        "discount_fraction": d,
        "discount_basis": None if d is None else FEED_BASIS,
        "break_even_ratio": None if d is None or d < 0 else break_even_ratio(d),
        "vcpus": pool.vcpus,
        "ram_gb": pool.ram_gb,
        "gpu": None if gpu is None else gpu[0],
        "gpu_count": None if gpu is None else gpu[1],
        "on_demand_usd_per_hour": None if prices is None else prices.get(place),
        "snapshot": found.snapshot,
        "snapshot_basis": found.snapshot_basis,
        "fetched_at": found.fetched_at,
        "age_s": round(age_s, 3),
        "notes": list(pool.notes),
        "source": found.source,
    }

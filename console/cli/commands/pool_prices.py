"""`reprieve pools pull --prices` and `--figures azure`: prices and eviction figures into the cache."""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.clean import clean
from backends.clock import format_utc
from backends.clouds import price_cache
from backends.clouds.aws import advisor_cache, feed
from backends.clouds.price_table import read_table
from backends.clouds.prices import PoolPrices, Price, by_pool, status
from backends.errors import CredentialsError, UsageError

if TYPE_CHECKING:
    from console.cli.invocation import Invocation


def pull(invocation: Invocation) -> int:
    """Ask the provider, keep what it told, say for each type what is missing; 1 when nothing asked for has a price."""
    typed = invocation.arguments
    provider, region, system = str(typed["prices"]), typed["region"], typed["os"] or "linux"
    if typed["feed"] is not None and not str(typed["feed"]).startswith(("http://", "https://")):
        return _pull_table(invocation, provider, system)
    if not region or not typed["instance"]:
        raise UsageError(
            f"--prices {provider} needs --region and --instance",
            hint="such as --region us-east-1 --instance p5.48xlarge,g6e.12xlarge",
        )
    types = _types(invocation, provider, region, system)
    found = _ask(invocation, provider, region, types, system)
    fetched_at = format_utc(invocation.clock.wall())
    if not invocation.dry_run:
        price_cache.save(Path(invocation.context.cache), found, fetched_at)
    pools = by_pool(found)
    rows = [_row(kind, pools.get(f"{provider}/{region}/{kind}/{system}", PoolPrices())) for kind in types]
    document = {
        "schema": "reprieve/price-pull/v1",
        "provider": provider,
        "region": region,
        "os": system,
        "items": rows,
        "fetched_at": fetched_at,
    }
    invocation.emit(document, _text)
    return 0 if any(row["status"] == "ok" for row in rows) else 1


def _pull_table(invocation: Invocation, provider: str, system: str) -> int:
    """Prices from the user's table: all of it, whatever region and type."""
    place = str(invocation.arguments["feed"])
    found = read_table(feed.fetch(place, invocation.clock).data or b"", clean(place), provider, system)
    fetched_at = format_utc(invocation.clock.wall())
    if not invocation.dry_run and found:
        price_cache.save(Path(invocation.context.cache), found, fetched_at)
    pools = by_pool(found)
    document = {
        "schema": "reprieve/price-table-pull/v1",
        "provider": provider,
        "source": clean(place),
        "pools": len(pools),
        "priced": sum(status(prices) == "ok" for prices in pools.values()),
        "fetched_at": fetched_at,
    }
    invocation.emit(document)
    return 0 if document["priced"] else 1


def _types(invocation: Invocation, provider: str, region: str, system: str) -> list[str]:
    """The types asked for; a pattern is matched with the types of the pulled interruption figures."""
    parts = [part.strip() for part in str(invocation.arguments["instance"]).split(",") if part.strip()]
    patterns = [part for part in parts if set(part) & set("*?[")]
    if patterns and provider != "aws":
        raise UsageError(f"--instance {clean(patterns[0])!r}: {provider} needs whole names of types")
    kinds = [part for part in parts if part not in patterns]
    if patterns:
        feed = advisor_cache.load(invocation.context.cache, region=region, system=system)
        known = sorted({pool.instance_type for pool in feed.pools}) if feed is not None else []
        for pattern in patterns:
            matched = fnmatch.filter(known, pattern)
            if not matched:
                raise UsageError(
                    f"--instance {clean(pattern)!r} matches no type of {clean(region)} in the pulled figures",
                    hint="run `reprieve pools pull` first, or name the types",
                )
            kinds += matched
    return list(dict.fromkeys(kinds))


def _ask(
    invocation: Invocation, provider: str, region: str, types: list[str], system: str
) -> tuple[Price, ...]:
    if provider == "azure":
        from backends.clouds.azure.retail import DEFAULT_URL, retail_prices

        return retail_prices(str(invocation.arguments["feed"] or DEFAULT_URL), region, types, system)
    if provider == "runpod":
        from backends.clouds.markets import runpod

        return runpod.offers(types, region, invocation.clock)
    if provider == "vast":
        from backends.clouds.markets import vast

        return vast.offers(types, region, invocation.clock)
    if provider == "gcp":
        from backends.clouds.gcp.catalogue import list_prices
        from backends.clouds.gcp.cloud import project_here

        url = None if invocation.arguments["feed"] is None else str(invocation.arguments["feed"])
        return list_prices(url, project_here(), region, types, system, invocation.clock)
    from backends.clouds.aws.prices import on_demand_prices, spot_prices

    return (*spot_prices(region, types, system, invocation.clock), *on_demand_prices(region, types, system))


def _row(kind: str, prices: PoolPrices) -> dict[str, Any]:
    return {
        "instance_type": kind,
        "status": status(prices),
        "spot_usd_per_hour": None if prices.spot is None else prices.spot.usd_per_hour,
        "spot_zone": None if prices.spot is None else prices.spot.zone or None,
        "on_demand_usd_per_hour": None if prices.on_demand is None else prices.on_demand.usd_per_hour,
        "discount_fraction": prices.discount,
    }


def _text(document: dict[str, Any]) -> str:
    def shown(value: object) -> str:
        return "–" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)

    head = f"{'TYPE':<28} {'SPOT USD/H':>10} {'ON DEMAND':>10} {'DISCOUNT':>9}  STATUS"
    lines = [
        f"{row['instance_type']:<28} {shown(row['spot_usd_per_hour']):>10} {shown(row['on_demand_usd_per_hour']):>10} "
        f"{shown(row['discount_fraction']):>9}  {row['status']}"
        for row in document["items"]
    ]
    return "\n".join([head, *lines])


def pull_azure_figures(invocation: Invocation) -> int:
    """Azure's eviction figures, from a file or with a token; what was pulled before stays when nothing comes."""
    from backends.clouds.azure import eviction

    place = invocation.arguments["feed"]
    if place is not None and not str(place).startswith(("http://", "https://")):
        found = eviction.parse(feed.fetch(str(place), invocation.clock).data or b"", clean(place))
    else:
        token = os.environ.get(eviction.TOKEN_VARIABLE, "").strip()
        if not token:
            raise CredentialsError(
                f"Azure Resource Graph needs a token in {eviction.TOKEN_VARIABLE}",
                hint="`az account get-access-token --query accessToken -o tsv`, or --feed FILE with what `az graph query` printed",
            )
        found = eviction.fetch(str(place or eviction.DEFAULT_URL), token)
    fetched_at = format_utc(invocation.clock.wall())
    if not invocation.dry_run and found:
        price_cache.save_figures(Path(invocation.context.cache), "azure", found, fetched_at)
    document = {
        "schema": "reprieve/figure-pull/v1",
        "provider": "azure",
        "source": found[0].source if found else None,
        "basis": eviction.BASIS,
        "pools": len(found),
        "fetched_at": fetched_at,
    }
    invocation.emit(document)
    return 0 if found else 1


def pull_google_figures(invocation: Invocation) -> int:
    """Google's preemption history of the types asked for; what was pulled of others before stays."""
    from backends.clouds.gcp.cloud import project_here
    from backends.clouds.gcp.preemptions import SOURCE, figures

    region = invocation.arguments["region"]
    if not region or not invocation.arguments["instance"]:
        raise UsageError(
            "--figures gcp needs --region and --instance",
            hint="such as --region us-central1 --instance a3-highgpu-8g",
        )
    types = _types(invocation, "gcp", region, "linux")
    found = figures(project_here(), region, types, invocation.clock)
    fetched_at = format_utc(invocation.clock.wall())
    if not invocation.dry_run and found:
        price_cache.save_figures(Path(invocation.context.cache), "gcp", found, fetched_at, whole=False)
    document = {
        "schema": "reprieve/figure-pull/v1", "provider": "gcp", "source": SOURCE,
        "basis": found[0].basis if found else None, "pools": len(found), "fetched_at": fetched_at,
    }  # fmt: skip
    invocation.emit(document)
    return 0 if found else 1

"""`reprieve pools list` and `pools pull`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.clean import clean
from backends.clock import parse_utc
from backends.clouds.aws import advisor, advisor_cache, feed
from backends.clouds.aws.advisor import AdvisorPool, Feed
from backends.errors import DamagedError, UnreachableError, UsageError
from planner.economics import break_even_ratio
from planner.hazards import rate_of_share

if TYPE_CHECKING:
    from console.cli.invocation import Invocation


def list_pools(invocation: Invocation) -> int:
    """Print the pools asked for."""
    typed = invocation.arguments
    system = typed["os"] or "linux"
    found = _feed(invocation, region=typed["region"], system=system)
    pools = advisor.select(found.pools, region=typed["region"], instance=typed["instance"], system=system)
    most = typed["max_band"]
    kept = [
        pool
        for pool in pools
        if most is None or (pool.band.high is not None and pool.band.high <= most + 1e-12)
    ]
    age = max(0.0, invocation.clock.wall() - parse_utc(found.fetched_at))
    items = [_item(pool, found, age) for pool in kept]
    if not items and found.pools:
        invocation.say(f"no pool matches; {len(found.pools)} pools are in {found.source}")
    invocation.emit_listing("pool", items, _columns())
    invocation.say(
        f"bands: share of instances reclaimed in a month; source {found.source}, snapshot {found.snapshot} "
        f"({found.snapshot_basis}: the data may be older)"
    )
    return 0


def _columns() -> list[Any]:
    from console.cli.invocation import Column

    return [
        Column("name", "POOL"),
        Column("band", "BAND/MONTH"),
        Column("discount_fraction", "DISCOUNT"),
        Column("break_even_ratio", "d/(1-d)"),
        Column("vcpus", "VCPUS"),
        Column("ram_gb", "RAM GB"),
        Column("snapshot", "SNAPSHOT"),
        Column("rate_high_per_hour", "RATE HIGH/H", wide=True),
        Column("source", "SOURCE", wide=True),
    ]


def _item(pool: AdvisorPool, found: Feed, age_s: float) -> dict[str, Any]:
    low, high, d = pool.band.low, pool.band.high, pool.discount
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
        "break_even_ratio": None if d is None or d < 0 else break_even_ratio(d),
        "vcpus": pool.vcpus,
        "ram_gb": pool.ram_gb,
        "snapshot": found.snapshot,
        "snapshot_basis": found.snapshot_basis,
        "fetched_at": found.fetched_at,
        "age_s": round(age_s, 3),
        "notes": list(pool.notes),
        "source": found.source,
    }


def _feed(invocation: Invocation, *, region: str | None, system: str) -> Feed:
    """The feed named by --feed, else the pulled copy."""
    place = invocation.arguments.get("feed")
    if place is not None:
        return _parsed(feed.fetch(str(place), invocation.clock), str(place))
    cached = advisor_cache.load(invocation.context.cache, region=region, system=system)
    if cached is None:
        raise UsageError(
            "no interruption figures were pulled yet",
            hint="run `reprieve pools pull`, or name a file with --feed",
        )
    return cached


def _parsed(fetched: feed.Fetched, place: str) -> Feed:
    try:
        parsed = advisor.parse(fetched.data or b"", what=f"feed {clean(place)}")
    except DamagedError as error:
        raise UsageError(error.message) from None
    dates = (fetched.snapshot, fetched.snapshot_basis, fetched.fetched_at)
    return Feed(parsed.pools, fetched.source, *dates, parsed.gaps, parsed.regions)


def find_pool(invocation: Invocation, name: str) -> tuple[AdvisorPool, Feed]:
    """The row of pool `aws/<region>/<type>/<os>` and its feed; UsageError when it is not known."""
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "aws" or parts[3] not in advisor.SYSTEMS:
        raise UsageError(f"--pool {clean(name)!r} is not a pool id, such as aws/us-east-1/p5.48xlarge/linux")
    found = _feed(invocation, region=parts[1], system=parts[3])
    for pool in found.pools:
        if pool.pool == name:
            return pool, found
    why = advisor.why_missing(found, parts[1], parts[3])
    raise UsageError(f"--pool {clean(name)}: not in {found.source} (snapshot {found.snapshot}): {why}")


def pull(invocation: Invocation) -> int:
    """Refresh the copy; a silent server leaves the last good copy and says its age."""
    place = str(invocation.arguments["feed"] or advisor.DEFAULT_URL)
    cache = Path(invocation.context.cache)
    known = advisor_cache.etag(cache)
    shown = clean(place.partition("?")[0])
    try:
        fetched = feed.fetch(place, invocation.clock, etag=known[1] if known and known[0] == shown else None)
    except UnreachableError as error:
        kept = advisor_cache.load(cache)
        if kept is not None:
            error.hint = f"the copy of {kept.fetched_at} from {kept.source} is kept"
        raise
    if fetched.data is None:
        advisor_cache.touch(cache, fetched.fetched_at)
        changed, count = False, None
    else:
        parsed = _parsed(fetched, place)
        if not invocation.dry_run:
            advisor_cache.save(cache, parsed, fetched.etag)
        changed, count = True, len(parsed.pools)
        for gap in parsed.gaps[:5]:
            invocation.say(f"gap in the feed: {gap}")
    invocation.emit(
        {
            "schema": "reprieve/pool-pull/v1",
            "source": fetched.source,
            "changed": changed,
            "pools": count,
            "snapshot": fetched.snapshot or None,
            "fetched_at": fetched.fetched_at,
        }
    )
    return 0

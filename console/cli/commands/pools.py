"""`reprieve pools list` and `pools pull`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.clean import clean
from backends.clock import parse_utc
from backends.clouds.aws import advisor, advisor_cache, feed, gpus
from backends.clouds.aws.advisor import AdvisorPool, Feed
from backends.clouds.prices_file import read_prices
from backends.errors import UnreachableError, UsageError
from console.cli.cells import Column
from console.cli.planning.feed import open_feed, parsed
from console.operations.looks.pools import pool_document

if TYPE_CHECKING:
    from console.cli.invocation import Invocation

_COLUMNS: tuple[tuple[Any, ...], ...] = (
    ("name", "POOL"),
    ("band", "BAND/MONTH"),
    ("discount_fraction", "DISCOUNT"),
    ("break_even_ratio", "d/(1-d)"),
    ("vcpus", "VCPUS"),
    ("ram_gb", "RAM GB"),
    ("snapshot", "SNAPSHOT"),
    ("gpu", "GPU", True),
    ("gpu_count", "GPUS", True),
    ("rate_high_per_hour", "RATE HIGH/H", True),
    ("source", "SOURCE", True),
)  # key, header, only with -o wide


def list_pools(invocation: Invocation) -> int:
    """Print the pools asked for, ranked when a job is described."""
    typed = invocation.arguments
    system = typed["os"] or "linux"
    _check_providers(typed["providers"])
    found = open_feed(invocation, region=typed["region"], system=system)
    kept = _kept(invocation, found, system)
    age = max(0.0, invocation.clock.wall() - parse_utc(found.fetched_at))
    prices = read_prices(Path(typed["prices"])) if typed["prices"] is not None else None
    items = [pool_document(pool, found, age, prices) for pool in kept]
    if not items and found.pools:
        invocation.say(f"no pool matches; {len(found.pools)} pools are in {found.source}")
    columns = _COLUMNS
    if typed["job"] is not None or typed["hours"] is not None:
        from console.cli.planning.rank import ranked

        items, columns = ranked(invocation, items)
    invocation.emit_listing("pool", items[: typed["limit"]], [Column(*column) for column in columns])
    invocation.say(
        f"bands: share of instances reclaimed in a month; source {found.source}, snapshot {found.snapshot} "
        f"({found.snapshot_basis}: the data may be older)"
    )
    return 0


def _check_providers(text: str | None) -> None:
    for name in (text or "aws").split(","):
        if name.strip() != "aws":
            raise UsageError(
                f"--providers names {clean(name.strip(), limit=40)!r}; there are figures for aws only"
            )


def _kept(invocation: Invocation, found: Feed, system: str) -> list[AdvisorPool]:
    typed = invocation.arguments
    pools = advisor.select(found.pools, region=typed["region"], instance=typed["instance"], system=system)
    most = typed["max_band"]
    kept = [
        pool
        for pool in pools
        if most is None or (pool.band.high is not None and pool.band.high <= most + 1e-12)
    ]
    if typed["gpu"] is None:
        return kept
    wanted = gpus.parse_gpu(typed["gpu"])
    return [pool for pool in kept if gpus.fits(pool.instance_type, wanted)]


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
        fresh = parsed(fetched, place)
        if not invocation.dry_run:
            advisor_cache.save(cache, fresh, fetched.etag)
        changed, count = True, len(fresh.pools)
        for gap in fresh.gaps[:5]:
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

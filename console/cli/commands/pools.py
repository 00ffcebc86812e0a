"""`reprieve pools list` and `pools pull`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.clean import clean
from backends.clock import parse_utc
from backends.clouds.aws import advisor, advisor_cache, feed, gpus
from backends.clouds.aws.advisor import AdvisorPool, Feed
from backends.clouds.prices_file import read_prices
from backends.errors import ReprieveError, UnreachableError, UsageError
from console.cli.cells import Column
from console.cli.planning.feed import open_feed, parsed
from console.cli.planning.prices import join, priced_rows, pulled
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
    ("not_launchable", "NOT LAUNCHABLE", True),
)  # key, header, only with -o wide
PRICED = ("aws", "azure", "gcp", "runpod", "vast")
_PRICED: tuple[tuple[Any, ...], ...] = (
    ("spot_usd_per_hour", "SPOT USD/H"),
    ("price_age_s", "PRICE AGE S", True),
    ("discount_basis", "DISCOUNT FROM", True),
)


def list_pools(invocation: Invocation) -> int:
    """Print the pools asked for, ranked when a job is described."""
    typed = invocation.arguments
    system = typed["os"] or "linux"
    _check_numbers(typed)
    providers = _providers(typed["providers"])
    wall = invocation.clock.wall()
    priced, fetched = pulled(Path(invocation.context.cache), providers, typed["region"], system)
    items: list[dict[str, Any]] = []
    found = None
    if "aws" in providers:
        found = open_feed(invocation, region=typed["region"], system=system)
        age = max(0.0, wall - parse_utc(found.fetched_at))
        prices = read_prices(Path(typed["prices"])) if typed["prices"] is not None else None
        items = [pool_document(pool, found, age, prices) for pool in _kept(invocation, found, system)]
        if not items:
            invocation.say(f"no pool matches; {len(found.pools)} pools for {system} are in {found.source}")
    for name in providers:
        if name == "aws":
            continue
        rows = priced_rows(name, Path(invocation.context.cache), priced, typed, wall)
        if not rows:
            invocation.say(f"{name}: no prices match; pull some with `reprieve pools pull --prices {name}`")
        items += rows
    launchable = _launchable(invocation)
    for item in items:
        item["not_launchable"] = (
            "the fleet's files cannot be read"
            if launchable is None
            else launchable.get(item["pool"], "no launch record")
        )
    items = [join(item, priced.get(item["pool"]), fetched.get(item["pool"]), wall) for item in items]
    columns = _COLUMNS
    if any(item["spot_usd_per_hour"] is not None for item in items):
        columns = (*_COLUMNS[:3], *_PRICED, *_COLUMNS[3:])
    if providers != ["aws"]:  # others' shares are not all per month
        columns = (columns[0], ("band", "BAND"), ("band_basis", "SHARE PER"), *columns[2:])
    if typed["job"] is not None or typed["hours"] is not None:
        from console.cli.planning.rank import ranked

        items, columns = ranked(invocation, items)
    invocation.emit_listing("pool", items[: typed["limit"]], [Column(*column) for column in columns])
    if found is not None:
        invocation.say(
            f"bands: share of instances reclaimed in a month; source {found.source}, snapshot {found.snapshot} "
            f"({found.snapshot_basis}: the data may be older)"
        )
    return 0


def _launchable(invocation: Invocation) -> dict[str, str | None] | None:
    """Pools of the fleet's files that have a launch record: None, or why no machine of one can be launched.

    None where the files cannot be read: the figures are shown all the same, and what is wrong is said.
    """
    from backends.inventory.load import load

    try:
        pools = load(invocation.context.fleet).pools
    except ReprieveError as error:
        invocation.say(f"what can be launched is not known: {error.message}")
        return None
    return {
        name: None if pool.launch.get("tested_at") else f"never tested: reprieve pools test {name}"
        for name, pool in pools.items()
        if pool.launch is not None
    }


def _check_numbers(typed: Mapping[str, Any]) -> None:
    if typed["limit"] is not None and typed["limit"] < 1:
        raise UsageError(f"--limit is {typed['limit']}; at least 1 is expected")
    if typed["max_band"] is not None and not 0 <= typed["max_band"] <= 1:
        raise UsageError(
            f"--max-band is {typed['max_band']:g}; a share from 0 to 1, such as 10%, is expected"
        )
    if typed["by"] is not None and typed["hours"] is None and typed["job"] is None:
        raise UsageError("--by ranks pools for a job: give --job, or --hours with the rest of one")


def _providers(text: str | None) -> list[str]:
    names = [name.strip() for name in (text or "aws").split(",")]
    for name in names:
        if name not in PRICED:
            raise UsageError(
                f"--providers names {clean(name, limit=40)!r}; one of {', '.join(PRICED)} is expected"
            )
    return list(dict.fromkeys(names))


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
    if invocation.arguments["prices"] is not None or invocation.arguments["figures"] in ("azure", "gcp"):
        from console.cli.commands import pool_prices

        if invocation.arguments["prices"] is not None:
            return pool_prices.pull(invocation)
        if invocation.arguments["figures"] == "gcp":
            return pool_prices.pull_google_figures(invocation)
        return pool_prices.pull_azure_figures(invocation)
    for name in ("region", "instance", "os"):
        if invocation.arguments[name] is not None:
            raise UsageError(f"--{name} goes with --prices; the interruption figures are pulled whole")
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

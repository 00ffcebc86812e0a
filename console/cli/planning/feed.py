"""Where published figures of pools come from: a file, a URL, or the pulled copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.clean import clean
from backends.clouds.aws import advisor, advisor_cache, feed
from backends.clouds.aws.advisor import AdvisorPool, Feed
from backends.errors import DamagedError, UsageError

if TYPE_CHECKING:
    from console.cli.invocation import Invocation


def open_feed(invocation: Invocation, *, region: str | None, system: str) -> Feed:
    """The feed named by --feed, else the pulled copy narrowed by region and system; UsageError without either."""
    place = invocation.arguments.get("feed")
    if place is not None:
        return parsed(feed.fetch(str(place), invocation.clock), str(place))
    cached = advisor_cache.load(invocation.context.cache, region=region, system=system)
    if cached is None:
        raise UsageError(
            "no interruption figures were pulled yet",
            hint="run `reprieve pools pull`, or name a file with --feed",
        )
    return cached


def parsed(fetched: feed.Fetched, place: str) -> Feed:
    """The feed in fetched bytes; UsageError when they are none."""
    try:
        found = advisor.parse(fetched.data or b"", what=f"feed {clean(place)}")
    except DamagedError as error:
        raise UsageError(error.message) from None
    dates = (fetched.snapshot, fetched.snapshot_basis, fetched.fetched_at)
    return Feed(found.pools, fetched.source, *dates, found.gaps, found.regions)


def find_pool(invocation: Invocation, name: str) -> tuple[AdvisorPool, Feed]:
    """The row of pool `aws/<region>/<type>/<os>` and its feed; UsageError when it is not known."""
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "aws" or parts[3] not in advisor.SYSTEMS:
        raise UsageError(f"--pool {clean(name)!r} is not a pool id, such as aws/us-east-1/p5.48xlarge/linux")
    found = open_feed(invocation, region=parts[1], system=parts[3])
    for pool in found.pools:
        if pool.pool == name:
            return pool, found
    why = advisor.why_missing(found, parts[1], parts[3])
    raise UsageError(f"--pool {clean(name)}: not in {found.source} (snapshot {found.snapshot}): {why}")

"""The reclaim rate of a job's node, from the published band of its pool and the fleet's own history, told to its guard."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from backends.errors import NotFoundError, ReprieveError
from backends.ledger.records import Reclaim
from backends.records.job import Job
from console.operations.common.locate import home
from console.operations.fleet import Fleet
from planner import hazards


def rate_of(
    band: tuple[float, float] | None, node_hours: float, reclaims: int, words: str = ""
) -> dict[str, Any] | None:
    """λ per node-hour with its range, as the node verb `set` takes it (contract section 3, definitions 7 and 8).

    Args:
        band: low and high rate of the pool's published figure, None without one.
        node_hours: T seen in the pool.
        reclaims: k seen in it.
        words: what the band is, for people.

    Returns:
        None when nothing at all is known: unknown is not 0.
    """
    if node_hours <= 0:
        if band is None:
            return None
        return {"per_hour": band[1], "low": band[0], "high": band[1], "source": words}
    low, high = band or (0.0, 0.0)
    found = hazards.posterior(low, high, node_hours, reclaims, published=band is not None)
    history = f"{reclaims} reclaims in {node_hours:.3g} node-hours of its pool"
    return {
        "per_hour": found.mean_per_hour,
        "low": found.low_per_hour,
        "high": found.high_per_hour,
        "source": f"{words}, {history}" if words else history,
    }


SAME_LOSS_S = 600.0  # losses of one node's jobs within this time are one reclaim of that node


def reclaims_of(reclaims: Iterable[Reclaim], nodes: set[str], pool: str | None = None) -> int:
    """How many reclaims of the provider hit these nodes, or machines of `pool`, whatever became of their jobs.

    A reclaim is of a node: jobs lost together count once, and so does a job whose first tries to come back failed.
    """
    hit = [
        r for r in reclaims if r.cause == "reclaim" and (r.from_node in nodes or (pool and r.pool == pool))
    ]
    counted: dict[str | None, float] = {}  # node → when its last counted loss was
    failed: set[tuple[str, str | None]] = set()  # jobs whose loss is counted and that are not back yet
    count = 0
    for each in sorted(hit, key=lambda r: r.at):
        who, last = (each.uid, each.from_node), counted.get(each.from_node)
        if who not in failed and (last is None or each.at - last > SAME_LOSS_S):
            count += 1
            counted[each.from_node] = each.at
        failed = failed - {who} if each.outcome == "restored" else failed | {who}
    return count


def job_rate(fleet: Fleet, job: Job) -> dict[str, Any] | None:
    """The rate of a job's node as `rate_of` gives it; None when its pool or everything about that is unknown."""
    nodes = fleet.records.nodes()
    pool = nodes[job.node].pool if job.node in nodes else None
    if not pool:
        return None
    here = {name for name, node in nodes.items() if node.pool == pool}
    hours = fleet.ledger.observed_hours().get(pool, 0.0)
    band, words = _published(fleet, pool)
    return rate_of(band, hours, reclaims_of(fleet.ledger.reclaims(), here, pool), words)


def _published(fleet: Fleet, pool: str) -> tuple[tuple[float, float] | None, str]:
    """The pulled band of a pool as rates; None where nothing was pulled or the pool is not in it."""
    from backends.clouds.aws import advisor_cache

    parts = pool.split("/")
    if len(parts) != 4 or parts[0] != "aws":
        return None, ""
    try:
        feed = advisor_cache.load(fleet.context.cache, region=parts[1], system=parts[3])
    except ReprieveError:
        return None, ""
    label = next((each.band.label for each in feed.pools if each.pool == pool), None) if feed else None
    if label is None:
        return None, ""
    low, high = (hazards.rate_of_share(edge, "month") for edge in hazards.band_edges(label))
    return (low, high), f"published band {label}"


async def tell_rate(fleet: Fleet, job: Job) -> dict[str, Any] | None:
    """Tell a job's guard its rate, where its interval is `auto`; what was told, None when nothing was.

    Raises:
        UnreachableError: the guard was not reached.
    """
    rate = job_rate(fleet, job) if job.interval_s is None else None
    if rate is None:
        return None
    try:
        await fleet.ask(await home(fleet, job), "set", {"job": job.name, "changes": {"reclaim_rate": rate}})
    except NotFoundError:
        return None  # it left that node meanwhile
    return rate

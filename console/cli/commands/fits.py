"""`checkpoints fits`: which nodes, and which pools not rented yet, could take a job's checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backends.clouds.aws import advisor
from backends.clouds.offers import aws_offer, could_take
from backends.errors import UsageError
from backends.records.fingerprint import Fingerprint, read_fingerprint
from console.cli.planning.feed import open_feed
from console.cli.session import on_fleet
from console.operations.flows import fits as looking

if TYPE_CHECKING:
    from console.cli.invocation import Invocation
    from console.operations.flows.fits import NodeFit

_ORDER = ("could", "unknown", "refused")
DEFAULT_POOLS = 10


def run(invocation: Invocation) -> int:
    """`checkpoints fits NAME`: exit 0 when a node of the fleet can take it now, 6 otherwise."""
    from console.cli.cells import Column

    arguments = invocation.arguments
    name = arguments["name"]
    save, nodes = on_fleet(
        invocation, lambda fleet: looking.fits(fleet, fleet.job(name), arguments.get("checkpoint"))
    )
    items = [_node_item(each) for each in nodes]
    fingerprint = read_fingerprint(save.fingerprint, what="fingerprint") if save.fingerprint else None
    pools, note = _pools(invocation, fingerprint)
    columns = [
        Column("kind"),
        Column("name"),
        Column("verdict"),
        Column("reason"),
        Column("discount_fraction", "DISCOUNT", True),
        Column("band", "BAND/MONTH", True),
    ]
    items = [{"job": name, "checkpoint": save.checkpoint, **item} for item in (*items, *pools)]
    invocation.emit_listing("fit", items, columns)
    usable = [each for each in nodes if each.word in ("fits", "fits_with_warnings")]
    elsewhere = [each for each in usable if not each.home]
    invocation.say(f"{name} {save.checkpoint}: {len(elsewhere)} other nodes can take it now; {note}")
    return 0 if elsewhere else 6


def _node_item(fit: NodeFit) -> dict[str, Any]:
    seen = fit.candidate
    return {
        "kind": "node",
        "name": seen.name,
        "pool": seen.pool,
        "verdict": fit.word,
        "reason": fit.reason,
        "runs_here": fit.home,
        "discount_fraction": None,
        "band": None,
        "properties": list(seen.rows),
    }


def _pools(invocation: Invocation, saved: Fingerprint | None) -> tuple[list[dict[str, Any]], str]:
    """Rows of pools, likeliest and cheapest first, and what to say of them."""
    typed = invocation.arguments
    limit = DEFAULT_POOLS if typed.get("pools") is None else typed["pools"]
    if saved is None:
        return [], "the checkpoint does not say what it needs, so no pool can be judged"
    if limit == 0:
        return [], "pools were not asked for"
    try:
        found = open_feed(invocation, region=typed.get("region"), system="linux")
    except UsageError as error:
        if typed.get("feed") is not None or typed.get("region") is not None:
            raise
        return [], f"no pools are shown: {error.message}; `reprieve pools pull` fetches them"
    rows: list[dict[str, Any]] = []
    for pool in advisor.select(
        found.pools, region=typed.get("region"), instance=typed.get("instance"), system="linux"
    ):
        verdict, reason = could_take(saved, aws_offer(pool.instance_type, pool.ram_gb))
        rows.append(
            {
                "kind": "pool",
                "name": pool.pool,
                "pool": pool.pool,
                "verdict": verdict,
                "reason": reason,
                "runs_here": False,
                "discount_fraction": pool.discount,
                "band": pool.band.label,
                "properties": [],
            }
        )
    rows.sort(
        key=lambda row: (_ORDER.index(row["verdict"]), -(row["discount_fraction"] or -1.0), row["name"])
    )
    counts = ", ".join(f"{sum(row['verdict'] == word for row in rows)} {word}" for word in _ORDER)
    more = "" if len(rows) <= limit else f", the first {limit} shown (--pools N)"
    return rows[:limit], f"pools of {found.source}, snapshot {found.snapshot}: {counts}{more}"

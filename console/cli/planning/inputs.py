"""From typed arguments to the planner's inputs: units, a job's record, a pool's published figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backends.errors import UsageError
from planner.plan.inputs import PlanInputs

if TYPE_CHECKING:
    from console.cli.invocation import Invocation

_HOURS_FROM_SECONDS = (
    "lost", "checkpoint_cost", "restore", "upload", "deadline", "wait", "mean_run",
)  # fmt: skip
_AS_THEY_ARE = (
    "hours", "discount", "spot_price", "on_demand_price", "reclaims", "rate", "band", "band_basis", "size", "bandwidth",
    "notice", "notice_reliability", "max_overhead", "early_failure_share", "lifetime", "store_price", "transfer_price",
    "keep", "nodes", "billing",
)  # fmt: skip


def typed_values(typed: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments of PlanInputs from the typed ones; durations become hours. UsageError for a lone history."""
    values: dict[str, Any] = {name: typed[name] for name in _AS_THEY_ARE if typed.get(name) is not None}
    values |= {name: typed[name] / 3600.0 for name in _HOURS_FROM_SECONDS if typed.get(name) is not None}
    if typed.get("interval") is not None:
        values["interval"] = "auto" if typed["interval"] == "auto" else typed["interval"] / 3600.0
    if typed.get("no_resume"):
        values["no_resume"] = True
    if typed.get("history_hours") is not None:
        values["history_node_hours"] = typed["history_hours"]
        values["history_reclaims"] = typed.get("history_reclaims") or 0
    elif typed.get("history_reclaims") is not None:
        raise UsageError("--history-reclaims stands alone: --history-hours is needed")
    return values


def inputs_of(invocation: Invocation, axes: tuple[str, ...] = ()) -> PlanInputs:
    """The planner's inputs: typed words, then the job's record, then the pool's figures.

    `axes` are inputs that a sweep sets itself; --hours may be among them (1 stands in for it here).
    """
    typed = invocation.arguments
    values, sources = typed_values(typed), dict[str, str]()
    pool = typed.get("pool")
    if typed.get("job") is not None:
        from console.operations.looks.known import of_job

        known = of_job(invocation.context, invocation.clock, typed["job"], values)
        values, sources = {**known.values, **values}, {**known.sources, **sources}
        pool = pool or known.pool
    if typed.get("feed") is not None and pool is None:
        raise UsageError(
            "--feed goes with --pool, or with --job whose node is in a pool: nothing else is looked up in it"
        )
    if "hours" not in values and "hours" not in axes:
        raise UsageError(
            f"reprieve {invocation.words} needs --hours HOURS: useful work of the job, or --job NAME"
        )
    if pool is not None and not ("band" in values and typed.get("pool") is None):
        try:
            values, said = _with_pool(invocation, pool, values, axes)
        except UsageError as error:
            if typed.get("pool") is not None or not _enough(values, axes):
                raise
            invocation.say(f"published figures are left out: {error.message}")
            said = {}
        sources |= said
    return PlanInputs(**{"hours": 1.0, **values}, sources=tuple(sources.items()))


def _enough(values: dict[str, Any], axes: tuple[str, ...]) -> bool:
    """Whether there are a rate and a price without the pool's figures."""
    rate = ("rate", "reclaims", "lifetime", "history_node_hours")
    price = ("discount", "spot_price", "on_demand_price")
    return all(any(name in values or name in axes for name in names) for names in (rate, price))


def _with_pool(
    invocation: Invocation, pool: str, values: dict[str, Any], axes: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Band and discount of a pool, unless the user's own stand."""
    from console.cli.planning.feed import find_pool

    if "band" in values:
        raise UsageError("--pool and --band say the same thing twice: give one")
    row, feed = find_pool(invocation, pool)
    values, sources = dict(values), dict[str, str]()
    where = f"{feed.source}, snapshot {feed.snapshot} ({feed.snapshot_basis})"
    own = any(
        name in values or name in axes for name in ("rate", "reclaims", "lifetime", "history_node_hours")
    )
    if row.band.label is not None and row.band.low is not None:
        values |= {"band": row.band.label, "band_basis": "month"} if "lifetime" not in values else {}
        sources["band"] = where
    elif not own:
        raise UsageError(
            f"--pool {row.pool}: its interruption figure is unknown in {feed.source}; give --rate or --reclaims"
        )
    if not any(name in values or name in axes for name in ("discount", "spot_price", "on_demand_price")):
        if row.discount is None:
            raise UsageError(
                f"--pool {row.pool}: its discount is unknown in {feed.source}; give --discount or both prices"
            )
        values["discount"], sources["discount"] = (
            row.discount,
            f"{where}: mean of the last 30 days over zones",
        )
    return {**values, "pool": row.pool}, sources

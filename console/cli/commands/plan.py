"""`reprieve plan`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from backends.errors import UsageError
from console.cli.commands import plan_text
from planner.advice import evaluate
from planner.plan_inputs import PlanError, PlanInputs

if TYPE_CHECKING:
    from console.cli.invocation import Invocation

DOES_NOT_PAY = 8
_HOURS_FROM_SECONDS = ("lost", "checkpoint_cost", "restore", "upload", "deadline")
_AS_THEY_ARE = (
    "discount", "spot_price", "on_demand_price", "reclaims", "rate", "band", "band_basis", "mean_run", "size",
    "bandwidth", "notice", "max_overhead",
)  # fmt: skip


def run(invocation: Invocation) -> int:
    """Print the plan; exit 8 under --check when spot does not pay or the job never finishes."""
    try:
        document = evaluate(inputs_of(invocation))
    except PlanError as error:
        raise UsageError(str(error)) from None
    invocation.emit(document, plan_text.text)
    bad = document["verdict"] in ("does_not_pay", "never_finishes")
    return DOES_NOT_PAY if invocation.arguments["check"] and bad else 0


def inputs_of(invocation: Invocation) -> PlanInputs:
    """The planner's inputs from the typed arguments; durations become hours."""
    typed = invocation.arguments
    values: dict[str, Any] = {name: typed[name] for name in _AS_THEY_ARE if typed[name] is not None}
    values |= {name: typed[name] / 3600.0 for name in _HOURS_FROM_SECONDS if typed[name] is not None}
    if typed["interval"] is not None:
        values["interval"] = "auto" if typed["interval"] == "auto" else typed["interval"] / 3600.0
    for name, argument in (("wait", 3600.0), ("notice_reliability", 1.0)):
        if typed[name] is not None:
            values[name] = typed[name] / argument
    if typed["nodes"] is not None:
        values["nodes"] = typed["nodes"]
    if typed["billing"] is not None:
        values["billing"] = typed["billing"]
    if typed["history_hours"] is not None:
        values |= {
            "history_node_hours": typed["history_hours"],
            "history_reclaims": typed["history_reclaims"] or 0,
        }
    elif typed["history_reclaims"] is not None:
        raise UsageError("--history-reclaims stands alone: --history-hours is needed")
    inputs = PlanInputs(hours=typed["hours"], no_resume=typed["no_resume"], **values)
    return inputs if typed["pool"] is None else _with_pool(invocation, inputs)


def _with_pool(invocation: Invocation, inputs: PlanInputs) -> PlanInputs:
    """Band and discount of a named pool, unless the user's own stand."""
    from console.cli.commands.pools import find_pool

    if inputs.band is not None:
        raise UsageError("--pool and --band say the same thing twice: give one")
    row, feed = find_pool(invocation, invocation.arguments["pool"])
    if row.band.label is None or row.band.low is None:
        raise UsageError(
            f"--pool {row.pool}: its interruption figure is unknown in {feed.source}; give --rate or --reclaims"
        )
    where = f"{feed.source}, snapshot {feed.snapshot} ({feed.snapshot_basis})"
    sources = {"band": where}
    discount = inputs.discount
    if discount is None and inputs.spot_price is None:
        if row.discount is None:
            raise UsageError(
                f"--pool {row.pool}: its discount is unknown in {feed.source}; give --discount or both prices"
            )
        discount, sources["discount"] = row.discount, f"{where}: mean of the last 30 days over zones"
    return replace(
        inputs, pool=row.pool, band=row.band.label, band_basis="month", discount=discount, sources=sources
    )

"""What a job's record and the ledger tell the planner: hours, interval, deadline, pool, measured costs, own history."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from backends.clock import parse_utc
from backends.errors import UsageError
from backends.inventory.load import load
from backends.ledger.open import FILE, open_ledger
from console.operations.common.learning import learn
from console.operations.common.rates import reclaims_of

if TYPE_CHECKING:
    from backends.clock import Clock
    from backends.inventory.model import Inventory
    from backends.ledger.port import Ledger
    from backends.records.job import Job
    from console.operations.context import Context

Values = dict[str, Any]
RATES = ("rate", "reclaims", "band", "lifetime", "history_node_hours")
PRICES = ("discount", "spot_price", "on_demand_price")


class Known(NamedTuple):
    """Inputs by name, where each came from, and the pool to look up when rate or price are missing."""

    values: Values
    sources: dict[str, str]
    pool: str | None


def of_job(context: Context, clock: Clock, name: str, typed: Values) -> Known:
    """What is known of a job; a rate, price or loss that was typed keeps its rivals out.

    Raises UsageError for an unknown job, and for a deadline that has passed.
    """
    fleet = load(context.fleet)
    job = fleet.job(name)
    values = _of_record(clock, job, typed)
    sources = dict.fromkeys(values, f"record of job {name}")
    node = fleet.nodes.get(job.node)
    pool = None if node is None else node.pool
    if context.ledger is not None or (context.state / FILE).exists():
        with_ledger = open_ledger(context.state, context.ledger)
        try:
            job = _with_uid(with_ledger, job)
            unread = learn(context, with_ledger, job)
            if unread:
                sources["checkpoint_cost"] = unread
            for more, said in (_costs(with_ledger, job, typed), _history(with_ledger, fleet, pool, typed)):
                values |= more
                sources |= dict.fromkeys(more, said)
        finally:
            with_ledger.close()
    known = {**values, **typed}
    rate_known = any(key in typed for key in RATES)
    price_known = any(key in known for key in PRICES)
    return Known(values, sources, pool if pool and not (rate_known and price_known) else None)


def _with_uid(ledger: Ledger, job: Job) -> Job:
    """The record with the uid that the ledger knows, where the record itself has none."""
    found = next((uid for uid, known in ledger.jobs().items() if known.name == job.name), "")
    return job if job.uid or not found else replace(job, uid=found)


def _of_record(clock: Clock, job: Job, typed: Values) -> Values:
    values: Values = {}
    if job.hours is not None:
        values["hours"] = job.hours
    if "lost" not in typed and not typed.get("no_resume"):
        if job.interval_s is not None:
            values["interval"] = job.interval_s / 3600.0
        if job.max_overhead is not None:
            values["max_overhead"] = job.max_overhead
    if job.deadline_at is not None and "deadline" not in typed:
        left_s = parse_utc(job.deadline_at) - clock.wall()
        if left_s <= 0:
            raise UsageError(
                f"job {job.name}: its deadline {job.deadline_at} has passed; give --deadline to plan for another"
            )
        values["deadline"] = left_s / 3600.0
    return values


def _costs(ledger: Ledger, job: Job, typed: Values) -> tuple[Values, str]:
    """Medians of what this job's saves and restores took."""
    if not job.uid or any(key in typed for key in ("lost", "size", "no_resume")):
        return {}, ""
    saves = ledger.saves(job.uid)
    back = [each for each in ledger.reclaims() if each.uid == job.uid and each.outcome == "restored"]
    measured = {
        "checkpoint_cost": [each.freeze_s for each in saves],
        "upload": [each.upload_s for each in saves],
        "restore": [each.restore_s for each in back if each.restore_s is not None],
        "wait": [each.wait_s for each in back if each.wait_s is not None],
    }
    values = {
        name: statistics.median(seconds) / 3600.0
        for name, seconds in measured.items()
        if seconds and name not in typed
    }
    if saves and "checkpoint_cost" in typed:  # the upload belongs to the saves that were measured
        values.pop("upload", None)
    return values, f"ledger: median of {len(saves)} saves and {len(back)} restores"


def _history(ledger: Ledger, fleet: Inventory, pool: str | None, typed: Values) -> tuple[Values, str]:
    """Node-hours and reclaims seen in the job's pool."""
    hours = ledger.observed_hours().get(pool or "", 0.0)
    if not hours or any(key in typed for key in RATES if key != "band"):
        return {}, ""
    here = {name for name, node in fleet.nodes.items() if node.pool == pool}
    count = reclaims_of(ledger.reclaims(), here, pool)
    return {"history_node_hours": hours, "history_reclaims": count}, f"ledger: own history of pool {pool}"

"""`report --by job|pool|month`: the books, a line a group."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.clouds.prices_file import read_prices
from backends.errors import UsageError
from backends.ledger.open import open_ledger
from console.operations.accounts import Expected, Terms, accounts, expected_of
from console.operations.common.learning import learn

if TYPE_CHECKING:
    from backends.ledger.port import Ledger
    from backends.records.job import Job
    from console.cli.invocation import Invocation

_COLUMNS: tuple[tuple[Any, ...], ...] = (
    ("name", "GROUP"),
    ("useful_hours", "USEFUL H"),
    ("billed_hours", "BILLED H"),
    ("reclaims", "RECLAIMS"),
    ("lost_hours_per_reclaim", "L"),
    ("planned_lost_hours_per_reclaim", "PLAN L"),
    ("lost_ratio", "RL/H"),
    ("break_even_ratio", "d/(1-d)"),
    ("saving_on_demand_hours", "SAVED H"),
    ("saving_usd", "SAVED USD"),
    ("posterior_rate_per_hour", "RATE/H"),
    ("planned_reclaim_rate_per_hour", "PLAN RATE/H", True),
    ("losses_not_restored", "NOT RESTORED", True),
    ("wait_hours", "WAIT H", True),
    ("on_demand_fallback_hours", "ON-DEMAND H", True),
    ("saving_before_storage_usd", "USD BEFORE STORAGE", True),
    ("storage_usd", "STORAGE USD", True),
    ("transfer_usd", "TRANSFER USD", True),
)


def run(invocation: Invocation) -> int:
    """Print one row a group; with `-o csv` every figure of it, for a spreadsheet."""
    from console.cli.cells import Column

    typed, context = invocation.arguments, invocation.context
    jobs, pools = _fleet(invocation)
    terms = _terms(invocation, jobs)
    span = typed.get("since")
    since = None if span is None else invocation.clock.wall() - span
    ledger = open_ledger(context.state, context.ledger)
    try:
        for name, job in jobs.items() if typed["by"] == "job" else ():
            unread = learn(context, ledger, replace(job, uid=job.uid or _uid(ledger, name)))
            if unread:
                invocation.say(unread)
        expected = {
            name: _expected(ledger, job, _published(invocation, pools.get(job.node)))
            for name, job in jobs.items()
            if typed["by"] == "job"
        }
        rows = accounts(ledger, typed["by"], terms, expected, job=typed.get("job"), since=since)
    finally:
        ledger.close()
    invocation.emit_listing("account", rows, [Column(*column) for column in _COLUMNS])
    for name, source in terms.sources.items():
        invocation.say(f"{name}: {source}")
    if rows and all(row["discount"] is None for row in rows):
        invocation.say("no discount is known: give --discount 70%, or set it in the jobs' records")
    return 0


def _fleet(invocation: Invocation) -> tuple[dict[str, Job], dict[str, str | None]]:
    """Jobs by name, and the pool of each node."""
    from backends.inventory.load import load

    fleet = load(invocation.context.fleet)
    return dict(fleet.jobs), {name: node.pool for name, node in fleet.nodes.items()}


def _published(invocation: Invocation, pool: str | None) -> float | None:
    """The middle of the pool's published band as a rate per hour; None where no figures of it were pulled."""
    parts = (pool or "").split("/")
    if len(parts) != 4 or parts[0] != "aws":
        return None
    from backends.clouds.aws import advisor_cache
    from planner.hazards import rate_of_share

    found = advisor_cache.load(invocation.context.cache, region=parts[1], system=parts[3])
    for each in found.pools if found is not None else ():
        if each.pool == pool and each.band.low is not None and each.band.high is not None:
            return (rate_of_share(each.band.low, "month") + rate_of_share(each.band.high, "month")) / 2
    return None


def _uid(ledger: Ledger, name: str) -> str:
    return next((uid for uid, known in ledger.jobs().items() if known.name == name), "")


def _terms(invocation: Invocation, jobs: dict[str, Job]) -> Terms:
    typed = invocation.arguments
    sources: dict[str, str] = {}
    prices: dict[str, float] = {}
    if typed.get("prices") is not None:
        path = Path(typed["prices"])
        prices = {
            f"aws/{region}/{kind}/{system}": usd for (region, kind, system), usd in read_prices(path).items()
        }
        sources["on-demand prices"] = str(path)
    for name in ("store_price", "transfer_price"):
        value = typed.get(name)
        if value is not None and not value >= 0:
            raise UsageError(f"--{name.replace('_', '-')} is {value:g}; 0 or more is expected")
        if value is not None:
            sources[name.replace("_", " ")] = "typed"
    if typed.get("discount") is not None:
        sources["discount"] = "typed"
    elif any(job.discount is not None for job in jobs.values()):
        sources["discount"] = "records of the jobs"
    return Terms(
        typed.get("discount"),
        {name: job.discount for name, job in jobs.items() if job.discount is not None},
        prices,
        typed.get("store_price"),
        typed.get("transfer_price"),
        {name: job.keep_last for name, job in jobs.items()},
        sources,
    )


def _expected(ledger: Ledger, job: Job, rate_per_hour: float | None) -> Expected:
    """The job's plan from its measured saves and restores, at the interval that its guard told last."""
    uid = job.uid or _uid(ledger, job.name)
    known = ledger.jobs().get(uid)
    told = known.status.get("interval_s") if known is not None else None
    interval_s = job.interval_s or (float(told) if isinstance(told, (int, float)) else None)
    restores = [
        each.restore_s
        for each in ledger.reclaims()
        if each.uid == uid and each.restore_s is not None and each.outcome == "restored"
    ]
    hours = sum(work.seconds for work in ledger.work() if work.uid == uid) / 3600
    return expected_of(ledger.saves(uid), restores, interval_s, hours, rate_per_hour)

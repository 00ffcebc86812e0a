"""Changing a job's settings while it is under guard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from backends.clean import clean
from backends.errors import UsageError
from backends.guard.decide.model import PolicyIs, Rate
from backends.guard.jobs.beginning import policy_of
from backends.guard.jobs.unit import JobUnit
from backends.records.job import Job
from backends.records.strict import read, to_document

CHANGEABLE = (
    "interval_s", "max_freeze_s", "max_overhead", "max_store_usd_per_day", "on_isolated", "lease_s", "paused", "done_file", "files",
    "keep_last", "min_age_s", "hours", "deadline_at", "restore", "priority", "group", "runtime", "rollback",
    "page_hash",
    "signal", "marker", "resume", "environment",
)  # fmt: skip
RATE = "reclaim_rate"  # told by the console: an object as `decide.model.Rate`, or null

MOST_PER_HOUR = 3600.0


def change_job(unit: JobUnit, changes: dict[str, Any]) -> None:
    """Take `changes` (fields of the job's record, or the reclaim rate) over into record and policy.

    Raises:
        UsageError: a field cannot be changed on a node.
        DamagedError: a value is of the wrong kind or out of range.
    """
    for name in changes:
        if name not in CHANGEABLE and name != RATE:
            known = ", ".join((*CHANGEABLE, RATE))
            raise UsageError(f"{clean(name, limit=64)} cannot be changed on a node; these can: {known}")
    fields = {name: value for name, value in changes.items() if name != RATE}
    job = read(Job, {**to_document(unit.record.job), **fields}, what=f"job {unit.record.job.name}")
    rate = _rate(changes[RATE]) if RATE in changes else unit.mind.policy.rate
    unit.change(lambda record: replace(record, job=job))
    unit.take(PolicyIs(replace(policy_of(job), rate=rate)))


def _rate(document: object) -> Rate | None:
    if document is None:
        return None
    rate = read(Rate, document, what=RATE)
    figures = (rate.per_hour, rate.low or 0.0, rate.high or 0.0)
    if not all(0 <= figure <= MOST_PER_HOUR for figure in figures) or (rate.low or 0.0) > figures[2]:
        shown = ", ".join(f"{figure:g}" for figure in figures)
        raise UsageError(
            f"{RATE} is {shown}; reclaims per hour from 0 to {MOST_PER_HOUR:g}, low before high, are needed"
        )
    return replace(rate, source=clean(rate.source, limit=120))

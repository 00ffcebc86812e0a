"""Changing a job's settings while it is under guard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from backends.clean import clean
from backends.errors import UsageError
from backends.guard.decide.model import PolicyIs
from backends.guard.jobs.beginning import policy_of
from backends.guard.jobs.unit import JobUnit
from backends.records.job import Job
from backends.records.strict import read, to_document

CHANGEABLE = (
    "interval_s", "max_freeze_s", "max_overhead", "on_isolated", "lease_s", "paused", "done_file", "files",
    "keep_last", "min_age_s", "hours", "deadline_at", "restore", "priority", "group", "runtime", "rollback",
    "signal", "marker", "resume", "environment",
)  # fmt: skip
RATE = "reclaim_rate_per_hour"  # told by the console: the planner's figure for the job's pool


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
    rate = changes.get(RATE, unit.mind.policy.rate_per_hour)
    if rate is not None and (isinstance(rate, bool) or not isinstance(rate, (int, float)) or rate < 0):
        raise UsageError(
            f"{RATE} is {clean(rate, limit=64)!r}; a number of reclaims per hour, 0 or more, is needed"
        )
    unit.change(lambda record: replace(record, job=job))
    unit.take(PolicyIs(replace(policy_of(job), rate_per_hour=None if rate is None else float(rate))))

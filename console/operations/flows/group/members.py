"""Who belongs to a group, and whether they can be handled as one."""

from __future__ import annotations

from backends.clean import clean
from backends.errors import UsageError
from backends.ids import check_name
from backends.inventory.document import nearest
from backends.records.group import MOST_MEMBERS
from backends.records.job import Job
from console.operations.common.locate import check_protected
from console.operations.fleet import Fleet


def members(fleet: Fleet, group: str) -> tuple[Job, ...]:
    """The protected jobs of a group, by name.

    Raises:
        UsageError: there are none, too many, one was never protected, or they do not share a store.
    """
    check_name("group", group)
    jobs = sorted((job for job in fleet.jobs().values() if job.group == group), key=lambda job: job.name)
    if not jobs:
        known = sorted({job.group for job in fleet.jobs().values() if job.group})
        raise UsageError(
            f"no job of this fleet is in a group {clean(group, limit=80)!r}{nearest(group, known)}",
            hint=f"reprieve jobs set NAME group={group}, for each of its jobs",
        )
    if len(jobs) > MOST_MEMBERS:
        raise UsageError(f"group {group} has {len(jobs)} jobs; at most {MOST_MEMBERS} are saved together")
    for job in jobs:
        check_protected(job)
    stores = {fleet.store_url(job): job.name for job in jobs}
    if len(stores) > 1:
        where = "; ".join(f"{name} in {url}" for url, name in sorted(stores.items()))
        raise UsageError(
            f"the jobs of group {group} lie in {len(stores)} stores ({where}): a group save needs one",
            hint="protect them again with one --store",
        )
    return tuple(jobs)

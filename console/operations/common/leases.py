"""Reading the lease of a job's newest epoch, as a witness beside a silent node."""

from __future__ import annotations

from backends.errors import CredentialsError
from backends.records.job import Job
from console.operations.decide.loss import LeaseWord
from console.operations.fleet import Fleet
from console.operations.truth import EpochView


async def lease_word(fleet: Fleet, job: Job, running: EpochView) -> LeaseWord | None:
    """How long the lease of the epoch `running` has not been renewed; None: nothing is promised that we can read.

    Raises:
        StoreError, UnreachableError: the store cannot be read.
    """
    try:
        key = fleet.job_key(job.uid)
    except CredentialsError:
        return None
    asked_at = fleet.clock.monotonic()
    lease = await fleet.blocking(fleet.truth(job).lease, job.uid, running.epoch, key)
    return fleet.leases.note(job.uid, running.epoch, lease, asked_at, fleet.clock.monotonic())

"""What a guard is handed so that it can act for one epoch of one job."""

from __future__ import annotations

from typing import Any

from backends.records import strict
from backends.records.job import CONTROLLER_ONLY, Job
from backends.records.node import Node
from console.operations.fleet import Fleet


def grant(fleet: Fleet, job: Job, epoch: int, nonce: str, continues: str) -> dict[str, Any]:
    """What a guard needs to act for one epoch of one job."""
    return {
        "store": fleet.store_url(job),
        "epoch": epoch,
        "nonce": nonce,
        "key": fleet.job_key(job.uid),
        "verify_key": fleet.keys.verify_key(),
        "continues": continues,
        "sent_at": fleet.now_text(),
    }


def job_document(fleet: Fleet, job: Job, node: Node) -> dict[str, Any]:
    """The job's record as its guard keeps it."""
    record = {name: value for name, value in strict.to_document(job).items() if name not in CONTROLLER_ONLY}
    return {**record, "node": node.name, "store": fleet.store_url(job)}

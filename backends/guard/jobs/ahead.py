"""Before a move: what a checkpoint needs is fetched here while its job still runs elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from backends.errors import UsageError
from backends.guard.disk.requests import Task
from backends.guard.jobs.tools import Tools, trouble
from backends.ids import CheckpointId
from backends.records.grant import Grant
from backends.records.job import Job


def directory(tools: Tools, uid: str) -> Path:
    """Where a job's packs lie ahead of its restore; staging is cleared when the guard starts."""
    return tools.layout.staging / f"{uid}.ahead"


def prefetch(tools: Tools, job: Job, grant: Grant, checkpoint: str | None, task: Task) -> dict[str, Any]:
    """Fetch the packs of `checkpoint`, without an epoch; None throws away what lies here."""
    if not job.uid:
        raise UsageError(f"job {job.name} has no uid; nothing of it can be fetched")
    if checkpoint is not None:
        CheckpointId.parse(checkpoint)
    task.begin()
    begun_at = tools.clock.monotonic()
    place = directory(tools, job.uid)
    size = 0
    try:
        if checkpoint is None:
            drop(tools, job.uid)
        else:
            size = tools.open_vault(job, grant).fetch_ahead(checkpoint, place)
    except Exception as error:  # noqa: BLE001 - every failure becomes an answer that says why
        drop(tools, job.uid)
        return {"state": "failed", "error": trouble(error).message, "size_bytes": None, "seconds": None}
    seconds = tools.clock.monotonic() - begun_at
    return {"state": "fetched", "error": None, "size_bytes": size, "seconds": seconds}


def drop(tools: Tools, uid: str) -> None:
    """Throw away what lies here ahead of a restore."""
    shutil.rmtree(directory(tools, uid), ignore_errors=True)

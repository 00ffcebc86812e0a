"""Checkpoints of one job or of all, as their stores have them."""

from __future__ import annotations

from typing import Any

from backends.clock import format_utc
from backends.errors import ReprieveError
from backends.records.job import Job
from console.operations.common.scrubs import scrubs
from console.operations.decide.clocks import stamp_word
from console.operations.decide.upkeep import Scrub
from console.operations.fleet import Fleet
from console.operations.truth import SaveView

Document = dict[str, Any]


async def checkpoints(fleet: Fleet, arguments: Document) -> Document:
    """`items` newest first for each job, and `problems`: a sentence for each job whose store did not answer.

    Args:
        fleet: an opened fleet.
        arguments: `name`, a job (None: all); `fingerprint` true adds what each save needs of a node.

    Raises:
        ReprieveError: the one job named is unknown, or its store does not answer.
    """
    name = arguments.get("name")
    jobs = [fleet.job(name)] if name else list(fleet.jobs().values())
    items: list[Document] = []
    problems: list[str] = []
    for job in jobs:
        if not job.uid:
            continue
        try:
            saves = await fleet.blocking(fleet.truth(job).saves, job.uid, fleet.job_key(job.uid))
        except ReprieveError as error:
            if name:
                raise
            problems.append(f"job {job.name}: {error.message}")
            continue
        checked = scrubs(fleet.ledger, job)
        for save in saves:
            more = (
                {"fingerprint": save.fingerprint, "store": job.store} if arguments.get("fingerprint") else {}
            )
            row = save_document(job, save, fleet.clock.wall(), checked.get(save.checkpoint))
            items.append({**row, **more})
    return {"items": items, "problems": problems}


def save_document(job: Job, save: SaveView, now: float, scrub: Scrub | None = None) -> dict[str, Any]:
    """One checkpoint as machine formats show it; `scrub` is its newest check, if any."""
    damaged = not save.usable or (scrub is not None and not scrub.whole)
    state = "orphan" if save.orphan else "damaged" if damaged else "saved"
    if state == "saved":
        state = "rehearsed" if save.rehearsed_on else "verified" if save.verified else "saved"
    frozen = None if save.frozen_at is None else save.frozen_at - (save.clock_offset_s or 0.0)
    stamp = "" if frozen is None else stamp_word(frozen, save.clock_offset_s, now)
    return {
        "name": f"{job.name}/{save.checkpoint}",
        "job": job.name,
        "uid": job.uid,
        "checkpoint": save.checkpoint,
        "state": state,
        "frozen_at": None if frozen is None else format_utc(frozen),
        "age_s": None if frozen is None else max(0.0, now - frozen),
        "size_bytes": save.size_bytes,
        "stored_bytes": save.stored_bytes,
        "node": save.node,
        "engine": save.engine,
        "verified": save.verified,
        "rehearsed_on": save.rehearsed_on,
        "freeze_s": save.freeze_s,
        "upload_s": save.upload_s,
        "reason": save.reason or ("" if scrub is None else scrub.reason) or stamp,
        "checked_at": None if scrub is None else format_utc(scrub.at),
        "checked_how": None if scrub is None else scrub.how,
    }

"""Measured saves from the store itself, where neither a controller nor a console was there to hear of them."""

from __future__ import annotations

from backends.clock import parse_utc
from backends.errors import ReprieveError
from backends.ids import CheckpointId
from backends.ledger.port import Ledger
from backends.ledger.records import SaveMeasure
from backends.records.job import Job
from backends.store.format.manifests import list_job, load_manifest
from backends.store.open import open_store
from backends.store.port import ObjectStore
from backends.store.sealing import JobKey
from console.operations.context import Context

MOST = 20  # newest saves that are read; medians need no more


def learn(context: Context, ledger: Ledger, job: Job) -> str:
    """Put the job's newest saves into `ledger` if it knows none; why that did not work, empty when it did or was not needed."""
    from console.operations.real.keys import FileKeys

    url = job.store or context.store
    if not job.uid or not url or ledger.saves(job.uid):
        return ""
    try:
        key = JobKey.from_hex(FileKeys(context.state).job_key(job.uid))
        learn_saves(ledger, job.uid, open_store(url), key)
    except ReprieveError as error:
        return f"the saves of job {job.name} could not be read from its store: {error.message}"
    return ""


def learn_saves(ledger: Ledger, uid: str, store: ObjectStore, key: JobKey) -> int:
    """Put the newest saves in `store` into `ledger`, one that cannot be read left out; how many were new.

    What a manifest says of its upload is the time of hashing, sealing and writing, without the reading back.

    Raises:
        StoreError, UnreachableError: the store cannot be read.
    """
    known = {save.checkpoint for save in ledger.saves(uid)}
    newest: list[CheckpointId] = list(reversed(list_job(store, uid).checkpoints))[:MOST]
    found = []
    for identity in newest:
        if str(identity) in known:
            continue
        try:
            manifest = load_manifest(store, uid, identity, key)
        except ReprieveError:
            continue
        times = manifest.timings
        at = parse_utc(times.frozen_at) - (times.clock_offset_s or 0.0)
        found.append(SaveMeasure(uid, str(identity), at, times.frozen_s, times.pack_s, manifest.size_bytes))
    for save in reversed(found):
        ledger.add_save(save)
    return len(found)

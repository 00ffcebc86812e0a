"""Read-only verification of checkpoints by another party than the node, and the records that say so."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from backends.clock import Clock, format_utc
from backends.errors import DamagedError, ExistsError, NotFoundError, StoreError, UnreachableError, UsageError
from backends.ids import CheckpointId
from backends.records.lineage import Attestation
from backends.records.manifest import Manifest
from backends.store import layout
from backends.store.fetch import CheckpointReader
from backends.store.fleetkey import FleetKey, VerifyKey, open_record, sign_record
from backends.store.format.manifests import manifest_mac
from backends.store.format.packs import check_present
from backends.store.port import ObjectStore
from backends.store.sealing import JobKey


@dataclass(frozen=True)
class VerifyReport:
    """What a verification read and found good."""

    checkpoint: CheckpointId
    how: str  # `full`, or `sample 0.10`
    frames: int  # frames opened
    plain_bytes: int  # plaintext bytes authenticated
    seconds: float
    manifest: Manifest


def verify_checkpoint(
    store: ObjectStore,
    uid: str,
    checkpoint: CheckpointId,
    key: JobKey,
    clock: Clock,
    *,
    sample: float | None = None,
    seed: int = 0,
    wanted: Callable[[], bool] = lambda: True,
    reader: CheckpointReader | None = None,
) -> VerifyReport:
    """Verify a checkpoint without writing anything; `reader` is one of it that was opened already.

    Always: manifest, index, presence and size of every pack. Without `sample` every frame is opened and every
    stream's digest compared; with it that share of the frames (0 < sample ≤ 1, at least one), drawn by `seed`.
    `wanted` is asked between frames: once it says no, the verification is called off.

    Raises:
        StoreError: it was called off; nothing is known of the checkpoint.
        NotFoundError, NewerFormatError, DamagedError: as `fetch`, naming the object.
    """
    if sample is not None and not 0 < sample <= 1:
        raise UsageError(f"sample is {sample}; a share above 0 and at most 1 is expected")
    started = clock.monotonic()
    reader = reader or CheckpointReader(store, uid, checkpoint, key)
    check_present(store, uid, reader.index.packs)
    if sample is None:
        for stream in reader.index.streams:
            for _ in reader.blocks(stream):
                _go_on(wanted)
        places = list(range(len(reader.index.frames)))
    else:
        count = min(len(reader.index.frames), max(1, round(sample * len(reader.index.frames))))
        places = sorted(random.Random(seed).sample(range(len(reader.index.frames)), count))  # noqa: S311 - a sample
        for place in places:
            _go_on(wanted)
            reader.frames.plain(place)
    return VerifyReport(
        checkpoint,
        "full" if sample is None else f"sample {sample:.2f}",
        len(places),
        sum(reader.index.frames[place].plain for place in places),
        clock.monotonic() - started,
        reader.manifest,
    )


def verify_by_parent(
    store: ObjectStore, uid: str, checkpoint: CheckpointId, key: JobKey, clock: Clock
) -> VerifyReport | None:
    """Verify a checkpoint whose synthetic full is damaged as it was saved, with its parent; None: there is no full.

    What is found good may be restored (`fetch` takes the same way), but is not to be attested as verified: retention
    takes the full for what it says, so the parent may go.
    """
    reader = CheckpointReader.by_parent(store, uid, checkpoint, key)
    return None if reader is None else verify_checkpoint(store, uid, checkpoint, key, clock, reader=reader)


def _go_on(wanted: Callable[[], bool]) -> None:
    if not wanted():
        raise StoreError("the verification was called off before its end")


def attest(
    store: ObjectStore,
    uid: str,
    checkpoint: CheckpointId,
    kind: Literal["verified", "rehearsed"],
    key: FleetKey,
    clock: Clock,
    *,
    by: str,
    how: str,
    seconds: float,
) -> Attestation:
    """Write the record `verified` or `rehearsed`, create-if-absent; return the one that stands in the store."""
    name = layout.checkpoint(uid, checkpoint, kind)
    mac = manifest_mac(store.read(layout.checkpoint(uid, checkpoint)))
    record = Attestation(uid, str(checkpoint), kind, by, format_utc(clock.wall()), seconds, how, mac)
    data = sign_record(record, key)
    try:
        store.create(name, data)
    except UnreachableError:
        try:
            store.create(name, data)
        except ExistsError:
            return read_attestation(store, uid, checkpoint, kind, key.verify_key) or record
    except ExistsError:
        standing = read_attestation(store, uid, checkpoint, kind, key.verify_key)
        if standing is None:
            raise DamagedError(
                f"{name}: not a valid record of this fleet stands there; it was not replaced"
            ) from None
        return standing
    return record


def read_attestation(
    store: ObjectStore,
    uid: str,
    checkpoint: CheckpointId,
    kind: Literal["verified", "rehearsed"],
    key: VerifyKey,
) -> Attestation | None:
    """The record, None when it is absent, not signed by the fleet, or speaks of another manifest."""
    name = layout.checkpoint(uid, checkpoint, kind)
    try:
        record = open_record(Attestation, store.read(name), key, what=name)
        mac = manifest_mac(store.read(layout.checkpoint(uid, checkpoint)))
    except (NotFoundError, DamagedError):
        return None
    same = (record.job_uid, record.checkpoint, record.kind, record.manifest) == (
        uid,
        str(checkpoint),
        kind,
        mac,
    )
    return record if same and mac else None

"""Taking over a job: the steps (0), (a), (b), (c) of architecture decision 2 as separate, resumable functions.

    settle         (0) if the highest epoch continues from nothing yet, make it void: it never starts anything
    claim_next     (a) claim the next epoch, with proof that the last process is gone
    choose         (b) pick the newest checkpoint on the chain that verifies, falling back with the reason
    write_continues(c) say what the epoch goes on from, and the one guard that may start it

Each may be repeated after a crash with the same nonce: it observes first and acts only on what is not done. After a
conflict or a silence the object is read and its nonce compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from backends.clock import Clock, format_utc, parse_utc
from backends.errors import (
    DamagedError,
    ExistsError,
    FencedError,
    IncompatibleError,
    NotFoundError,
    UnreachableError,
)
from backends.ids import CheckpointId
from backends.records.lineage import Claim, Continues, ContinuesKind, JobHeader, Proof, Tombstone
from backends.records.manifest import Manifest
from backends.store import layout
from backends.store.fleetkey import FleetKey, Record, VerifyKey, open_record, sign_record
from backends.store.format.manifests import list_job, load_manifest
from backends.store.lineage import Lineage, read_lineage
from backends.store.port import ObjectStore
from backends.store.sealing import JobKey

FIRST = Proof("first", 0, "", "", "reprieve", "1970-01-01T00:00:00.000Z")


@dataclass(frozen=True)
class Taker:
    """Who takes over: the store, the fleet's key, a name for people, a nonce kept in the caller's journal."""

    store: ObjectStore
    uid: str
    key: FleetKey
    controller: str
    nonce: str  # one per intended takeover; the same again when it is resumed
    clock: Clock

    @property
    def verify_key(self) -> VerifyKey:
        """The public half of the fleet's key."""
        return self.key.verify_key

    def lineage(self) -> Lineage:
        """The lineage as it stands."""
        return read_lineage(self.store, self.uid, self.verify_key)

    def now(self) -> str:
        """RFC 3339 of now, for people."""
        return format_utc(self.clock.wall())


@dataclass(frozen=True)
class Choice:
    """What the next epoch goes on from."""

    kind: ContinuesKind  # checkpoint, genesis or cold
    checkpoint: CheckpointId | None = None
    manifest: Manifest | None = None
    skipped: tuple[tuple[CheckpointId, str], ...] = ()  # newer ones on the chain that failed, with the reason
    orphans: tuple[CheckpointId, ...] = ()  # off the chain: listed, never chosen
    extra_loss_s: float | None = (
        0.0  # work lost beyond that of the newest; None: the newest cannot tell its time
    )


def put_record(store: ObjectStore, key: str, record: Record, fleet_key: FleetKey) -> bool:
    """Create a signed record durably; False when another object stands there. Silence is asked again once."""
    data = sign_record(record, fleet_key)
    try:
        store.create(key, data)
    except UnreachableError:
        try:
            store.create(key, data)
        except ExistsError:
            return store.read(key) == data
    except ExistsError:
        return store.read(key) == data
    return True


def settle(taker: Taker) -> Lineage:
    """(0) Make sure that nobody can decide any more what the highest epoch continues from; return the lineage.

    The caller's own epoch (same nonce) is left open. Raises DamagedError when the lineage has a gap.
    """
    lineage = taker.lineage()
    lineage.check_gaps()
    epoch = lineage.highest
    own = lineage.own_claim(taker.nonce)
    if lineage.settled(epoch) or (own is not None and own.epoch == epoch):
        return lineage
    void = Continues(taker.uid, epoch, "void", None, None, None, taker.controller, taker.nonce, taker.now())
    put_record(taker.store, layout.continues(taker.uid, epoch), void, taker.key)
    return taker.lineage()


def claim_next(taker: Taker, proof: Proof) -> Claim:
    """(a) Claim the next epoch. Call `settle` first and prove the death of `lineage.current()`.

    Raises:
        NoProofError: the proof does not cover the process that may still run.
        FencedError: somebody else took the epoch; begin again with a new nonce.
    """
    lineage = taker.lineage()
    lineage.check_gaps()
    own = lineage.own_claim(taker.nonce)
    if own is not None:
        if own.epoch != lineage.highest:
            raise FencedError(
                f"job {taker.uid}: our epoch {own.epoch} was overtaken by epoch {lineage.highest}"
            )
        return own
    if not lineage.settled(lineage.highest):
        raise FencedError(f"job {taker.uid}: epoch {lineage.highest} was claimed meanwhile; begin again")
    lineage.check_proof(proof)
    epoch = lineage.highest + 1
    claim = Claim(taker.uid, epoch, taker.controller, taker.nonce, taker.now(), proof)
    if put_record(taker.store, layout.claim(taker.uid, epoch), claim, taker.key):
        return claim
    standing = taker.lineage().claims.get(epoch)
    if standing is not None and standing.nonce == taker.nonce:
        return standing
    by = standing.controller if standing is not None else "an object that is no valid claim"
    raise FencedError(f"job {taker.uid}: epoch {epoch} was taken by {by}; begin again with a new nonce")


def choose(
    taker: Taker,
    claim: Claim,
    key: JobKey,
    verify: Callable[[CheckpointId], Manifest],
    *,
    wanted: CheckpointId | None = None,
) -> Choice:
    """(b) The newest checkpoint on the chain below the claimed epoch for which `verify` does not raise.

    `verify` reads the checkpoint (`verify_checkpoint(...).manifest`) and raises DamagedError, NotFoundError or
    IncompatibleError for one that cannot be used: it is skipped with the reason. `wanted` asks for that one only.
    When nothing has ever been started, the choice is `genesis`.

    Raises:
        NotFoundError: no checkpoint on the chain can be used; a cold start is the operator's choice.
    """
    lineage = taker.lineage()
    if any(not lineage.settled(epoch) for epoch in range(1, claim.epoch)):
        raise FencedError(f"job {taker.uid}: an epoch below {claim.epoch} is not settled; begin again")
    if lineage.current(below=claim.epoch) is None and not lineage.doubtful:
        return Choice("genesis")
    found = list_job(taker.store, taker.uid).checkpoints
    chain = lineage.chain(found, below=claim.epoch)
    orphans = tuple(identity for identity in found if identity not in set(chain))
    if wanted is not None:
        if wanted not in chain and not (
            wanted in found and lineage.on_chain(wanted, claim.epoch, past_doubt=True)
        ):
            state = "an orphan, never chosen" if wanted in orphans else "not in the store"
            raise NotFoundError(f"job {taker.uid}: checkpoint {wanted} is {state}")
        chain = [wanted]
    skipped: list[tuple[CheckpointId, str]] = []
    for identity in chain:
        try:
            manifest = _second_look(verify, identity)
        except (DamagedError, NotFoundError, IncompatibleError) as error:
            skipped.append((identity, error.message))
            continue
        loss = _extra_loss(taker, key, [each for each, _ in skipped], manifest)
        return Choice("checkpoint", identity, manifest, tuple(skipped), orphans, loss)
    reasons = "; ".join(f"{identity}: {reason}" for identity, reason in skipped) or "there is none"
    raise NotFoundError(
        f"job {taker.uid}: no checkpoint on the chain can be used ({reasons})",
        hint="restore an earlier one by name, or start the job cold",
    )


def _second_look(verify: Callable[[CheckpointId], Manifest], identity: CheckpointId) -> Manifest:
    """Verify once more before a checkpoint is passed over for good: a read that failed once is not damage."""
    try:
        return verify(identity)
    except DamagedError:
        return verify(identity)


def _extra_loss(taker: Taker, key: JobKey, skipped: list[CheckpointId], chosen: Manifest) -> float | None:
    """Seconds between the freeze of the newest skipped checkpoint and that of the chosen one; None: unknown."""
    if not skipped:
        return 0.0
    try:
        newest = load_manifest(taker.store, taker.uid, skipped[0], key)
    except (DamagedError, NotFoundError, IncompatibleError):
        return None
    return max(0.0, parse_utc(newest.timings.frozen_at) - parse_utc(chosen.timings.frozen_at))


def write_continues(taker: Taker, claim: Claim, choice: Choice, target: str, guard: str) -> Continues:
    """(c) Say what the claimed epoch goes on from and who may start it; return what stands in the store.

    A repeated call returns the first one's record, whatever it is asked now: obey the returned target.

    Raises:
        FencedError: somebody made the epoch void or took a newer one; nothing may be started.
    """
    identity = None if choice.checkpoint is None else str(choice.checkpoint)
    record = Continues(
        taker.uid,
        claim.epoch,
        choice.kind,
        identity,
        target,
        guard,
        taker.controller,
        taker.nonce,
        taker.now(),
    )
    put_record(taker.store, layout.continues(taker.uid, claim.epoch), record, taker.key)
    lineage = taker.lineage()
    standing = lineage.continues.get(claim.epoch)
    if standing is None or standing.kind == "void" or standing.nonce != taker.nonce:
        by = "an object that is not valid" if standing is None else f"{standing.controller} ({standing.kind})"
        raise FencedError(f"job {taker.uid}: epoch {claim.epoch} was decided by {by}; nothing is started")
    newer = lineage.newer_claim(claim.epoch)
    if newer is not None:
        raise FencedError(
            f"job {taker.uid}: epoch {newer.epoch} was claimed by {newer.controller}; nothing is started"
        )
    return standing


def begin(taker: Taker, name: str, target: str, guard: str) -> Continues:
    """The first start of a job: its header, epoch 1 and `genesis`, in order; repeatable with the same nonce."""
    put_header(taker, name)
    settle(taker)
    claim = claim_next(taker, FIRST)
    return write_continues(taker, claim, Choice("genesis"), target, guard)


def put_header(taker: Taker, name: str) -> JobHeader:
    """Write `job.json`, create-if-absent; ExistsError when the prefix belongs to another name."""
    header = JobHeader(taker.uid, name, taker.now())
    if put_record(taker.store, layout.header(taker.uid), header, taker.key):
        return header
    key = layout.header(taker.uid)
    standing = open_record(JobHeader, taker.store.read(key), taker.verify_key, what=key)
    if (standing.job_uid, standing.name) != (taker.uid, name):
        raise ExistsError(f"{key}: belongs to job {standing.name!r}, not {name!r}; take a new uid")
    return standing


def remove(taker: Taker, name: str) -> Tombstone:
    """Write the tombstone of a forgotten job; checkpoints, claims and continues stay."""
    record = Tombstone(taker.uid, name, taker.controller, taker.now())
    put_record(taker.store, layout.removed(taker.uid), record, taker.key)
    return record

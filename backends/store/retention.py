"""Which checkpoints may go, and removing them: never the newest verified, never what is not understood.

Order (architecture decision 2): list, pick the head K, *then* look at the claims; delete only what is older than K,
and only when K's epoch is the highest claimed or the highest continues names K. At least two verified checkpoints
stay. The listing is our own, of this job's prefix; paths inside manifests are never targets. `plan` is pure; a dry
run prints the very plan that `run` executes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from backends.clock import Clock
from backends.errors import DamagedError, NotFoundError, UsageError
from backends.ids import CheckpointId
from backends.store import layout
from backends.store.fleetkey import VerifyKey
from backends.store.format.manifests import Listing, NewerFormatError, list_job, load_full, load_manifest
from backends.store.lineage import Lineage, read_lineage
from backends.store.port import ObjectInfo, ObjectStore, Sweeper
from backends.store.sealing import JobKey
from backends.store.verify import read_attestation

MIN_VERIFIED = 2
FUTURE_S = 300.0  # an object stamped further ahead than this is kept: some clock is wrong
LEFTOVER_S = 86400.0  # temporary files of crashed writers are removed after this


@dataclass(frozen=True)
class Policy:
    """What the job's record asks for."""

    keep_last: int = 3  # newest checkpoints on the chain that stay
    min_age_s: float = 86400.0  # nothing younger goes
    pinned: frozenset[CheckpointId] = frozenset()

    def __post_init__(self) -> None:
        if self.keep_last < 1:
            raise UsageError(f"keep_last is {self.keep_last}; at least 1 is needed")
        if not self.min_age_s >= 0:
            raise UsageError(f"min_age is {self.min_age_s} s; 0 or more is needed")


@dataclass(frozen=True)
class Known:
    """What is known of one listed checkpoint or leftover."""

    understood: bool  # its manifest authenticates and reads; False also for one with no manifest
    verified: bool = False  # another party says so, validly signed
    parent: CheckpointId | None = None  # the one whose packs it needs; none where it has a synthetic full
    newer_format: bool = False


@dataclass(frozen=True)
class Kept:
    """A checkpoint that stays."""

    checkpoint: CheckpointId
    reason: str


@dataclass(frozen=True)
class Plan:
    """What a run would do: the objects in the order of their removal."""

    uid: str
    head: CheckpointId | None  # K
    removed: tuple[CheckpointId, ...] = ()  # oldest last: children before parents
    keys: tuple[str, ...] = ()  # manifest first, then records, then data, checkpoint by checkpoint
    kept: tuple[Kept, ...] = ()
    refused: str | None = None  # why nothing may be removed now
    foreign: int = 0  # objects that are not ours: ignored
    freed_bytes: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)


def head(listing: Listing) -> CheckpointId | None:
    """K: the newest committed checkpoint of a listing by (epoch, seq)."""
    return max(listing.manifests, default=None)


def refusal(found: CheckpointId | None, lineage: Lineage, known: Mapping[CheckpointId, Known]) -> str | None:
    """Why nothing may be removed now, given claims that were read after the listing; None when it may."""
    if found is None:
        return "no checkpoint is committed"
    newer = sorted(identity for identity, each in known.items() if each.newer_format)
    if newer:
        return (
            f"checkpoint {newer[0]} was made by a newer version; it is not understood, so nothing is removed"
        )
    if lineage.highest_valid > lineage.highest:
        return "the lineage has a gap"
    if lineage.doubtful:
        return f"what epoch {lineage.doubtful} continues from cannot be read"
    current = lineage.continues.get(lineage.highest)
    if found.epoch == lineage.highest and lineage.on_chain(found):
        return None
    if current is not None and current.from_checkpoint == found:
        return None
    return (
        f"the newest checkpoint {found} is of epoch {found.epoch}, the highest claimed is {lineage.highest}: "
        f"a takeover may be choosing"
    )


def keepers(
    chain: list[CheckpointId], known: Mapping[CheckpointId, Known], policy: Policy
) -> dict[CheckpointId, str]:
    """Checkpoints that stay whatever their age, with the reason. `chain` is newest first."""
    kept: dict[CheckpointId, str] = {}
    verified = [identity for identity in chain if known[identity].verified and known[identity].understood]
    for identity in chain[: policy.keep_last]:
        kept.setdefault(identity, f"one of the last {policy.keep_last}")
    for identity in verified[: max(MIN_VERIFIED, policy.keep_last)]:
        kept.setdefault(identity, "one of the newest verified")
    if len(verified) < MIN_VERIFIED:
        for identity in chain:
            kept.setdefault(identity, f"fewer than {MIN_VERIFIED} checkpoints are verified")
    for identity in chain:
        if not verified or identity > verified[0]:
            kept.setdefault(identity, "newer than the newest verified")
    for identity in policy.pinned:
        kept.setdefault(identity, "pinned")
    for identity, each in known.items():
        if not each.understood:
            kept.setdefault(identity, "its manifest is not understood")
    return kept


def plan(
    listing: Listing,
    known: Mapping[CheckpointId, Known],
    lineage: Lineage,
    policy: Policy,
    now: float,
) -> Plan:
    """Decide what may go. `lineage` was read after `listing`; `now` is seconds since 1970 by the store's clock."""
    newest = head(listing)
    refused = refusal(newest, lineage, known)
    if refused is not None or newest is None:
        kept = tuple(Kept(identity, refused or "") for identity in listing.checkpoints)
        return Plan(listing.uid, newest, kept=kept, refused=refused, foreign=len(listing.foreign))
    chain = lineage.chain(listing.manifests)
    reasons = keepers(chain, known, policy)
    for identity in sorted({*listing.manifests, *listing.data, *listing.attested}):
        stamps = [info.modified for info in _objects(listing, identity)]
        if not identity < newest:
            reasons.setdefault(identity, "not older than the newest")
        elif max(stamps) > now + FUTURE_S:
            reasons.setdefault(identity, "stamped in the future")
        elif now - max(stamps) < policy.min_age_s:
            reasons.setdefault(identity, "younger than the minimum age")
    for identity in list(reasons):
        for needed in _needed(identity, known):
            reasons.setdefault(needed, f"checkpoint {identity} uses its packs")
    removed = sorted(({*listing.manifests, *listing.data, *listing.attested}) - set(reasons), reverse=True)
    objects = [info for identity in removed for info in _objects(listing, identity)]
    return Plan(
        listing.uid,
        newest,
        tuple(removed),
        tuple(info.key for info in objects),
        tuple(Kept(identity, reasons[identity]) for identity in sorted(reasons)),
        None,
        len(listing.foreign),
        sum(info.size for info in objects),
        {info.key: info.size for info in objects},
    )


def _objects(listing: Listing, identity: CheckpointId) -> Iterator[ObjectInfo]:
    """The objects of one checkpoint in the order of removal: manifest, records, data."""
    if identity in listing.manifests:
        yield listing.manifests[identity]
    yield from listing.attested.get(identity, ())
    yield from listing.data.get(identity, ())


def _needed(identity: CheckpointId, known: Mapping[CheckpointId, Known]) -> Iterator[CheckpointId]:
    """The checkpoints whose packs this one uses, or may use where its manifest cannot be read.

    A save refers to the newest save of its epoch at that time or to what that one refers to (`store.parent`).
    """
    each: Known | None = known.get(identity)
    while each is not None:
        found = each.parent
        if found is None and not each.understood:
            older = [other for other in known if other.epoch == identity.epoch and other < identity]
            found = max(older, default=None)
        if found is None:
            return
        yield found
        identity, each = found, known.get(found)


def look(
    store: ObjectStore, listing: Listing, key: JobKey, verify_key: VerifyKey
) -> dict[CheckpointId, Known]:
    """Open the manifests and records of a listing. Saves without a manifest are not in the result."""
    known: dict[CheckpointId, Known] = {}
    for identity in listing.checkpoints:
        try:
            manifest = load_manifest(store, listing.uid, identity, key)
        except NewerFormatError:
            known[identity] = Known(understood=False, newer_format=True)
            continue
        except (DamagedError, NotFoundError):
            known[identity] = Known(understood=False)
            continue
        parent = None
        listed = any(info.key.endswith(f"/{layout.FULL}") for info in listing.attested.get(identity, ()))
        if manifest.parent is not None and not (listed and load_full(store, listing.uid, manifest, key)):
            parent = CheckpointId.parse(manifest.parent)
        record = read_attestation(store, listing.uid, identity, "verified", verify_key)
        known[identity] = Known(True, record is not None, parent)
    return known


def make_plan(
    store: ObjectStore,
    uid: str,
    key: JobKey,
    verify_key: VerifyKey,
    policy: Policy,
    clock: Clock,
    shown: Collection[CheckpointId] | None = None,
) -> Plan:
    """List the job, open what was listed, then look at the claims, and decide.

    With `shown`, the checkpoints that an earlier plan named to somebody who agreed: the plan names no others.

    Raises:
        UsageError: one of those may not go any more; nothing goes then.
    """
    listing = list_job(store, uid)
    known = look(store, listing, key, verify_key)
    lineage = read_lineage(store, uid, verify_key)
    decided = plan(listing, known, lineage, policy, clock.wall())
    if shown is None:
        return decided
    for kept in decided.kept:
        if kept.checkpoint in shown:
            raise UsageError(
                f"checkpoint {kept.checkpoint} may not go any more: {kept.reason}; nothing was removed, look again"
            )
    unseen = frozenset(decided.removed) - frozenset(shown)
    narrowed = replace(policy, pinned=policy.pinned | unseen)
    return plan(listing, known, lineage, narrowed, clock.wall()) if unseen else decided


def run(store: ObjectStore, decided: Plan, clock: Clock) -> tuple[str, ...]:
    """Remove what the plan names, in its order; return the keys removed. A crash half-way is finished by the next."""
    prefix = layout.job(decided.uid)
    for name in decided.keys:
        if not name.startswith(prefix):
            raise UsageError(f"{name}: outside the job's own prefix; nothing more is removed")
        store.delete(name)
    if isinstance(store, Sweeper):
        store.sweep(clock.wall() - LEFTOVER_S)
    return decided.keys

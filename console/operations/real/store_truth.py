"""A job's store as operations see it, on `backends.store`: every rule of the lineage is decided there."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Literal

from backends.clean import clean
from backends.clock import parse_utc
from backends.errors import (
    DamagedError,
    FencedError,
    IncompatibleError,
    NoProofError,
    NotFoundError,
    ReprieveError,
    StoreError,
)
from backends.ids import CheckpointId, check_name, new_nonce
from backends.records import strict
from backends.records.lineage import Claim, Continues, Proof
from backends.records.manifest import Manifest
from backends.store import layout, retention, takeover, verify
from backends.store.format.manifests import Listing, list_job, load_manifest
from backends.store.lease import read_lease
from backends.store.lineage import Lineage
from backends.store.sealing import JobKey
from console.operations.real.group_truth import GroupTruth
from console.operations.truth import Choice, ContinuesKind, EpochView, LeaseView, LineageView, SaveView

HEARTBEAT_LIMIT = 64 * 1024


class StoreTruth(GroupTruth):
    """One controller's view of one store; see `console.operations.truth.Truth`."""

    @property
    def url(self) -> str:
        """Where it is."""
        return self._store.url

    def _taker(self, uid: str, nonce: str) -> takeover.Taker:
        return takeover.Taker(self._store, uid, self._key, self._by, nonce, self._clock)

    def _lineage(self, uid: str) -> Lineage:
        lineage = self._taker(uid, "").lineage()
        lineage.check_gaps()
        return lineage

    def lineage(self, uid: str) -> LineageView:
        """All epochs now; DamagedError when the store lost one."""
        lineage = self._lineage(uid)
        epochs = (
            _view(epoch, lineage.claims.get(epoch), lineage.continues.get(epoch), epoch in lineage.continues)
            for epoch in range(1, lineage.highest + 1)
        )
        return LineageView(tuple(epochs), lineage.problems)

    def void(self, uid: str, epoch: int) -> bool:
        """Create `epoch`'s continues as void unless it has one."""
        found = takeover.settle(self._taker(uid, new_nonce())).continues.get(epoch)
        return found is not None and found.kind == "void"

    def claim(self, uid: str, epoch: int, nonce: str, proof: dict[str, Any]) -> bool:
        """Create the claim; True when it is there with our nonce."""
        covers = takeover.FIRST if proof["kind"] == "first" else Proof(**proof)
        try:
            return takeover.claim_next(self._taker(uid, nonce), covers).epoch == epoch
        except (FencedError, NoProofError):
            return False  # the lineage moved on: the caller looks again

    def choose(
        self, uid: str, key: str, wanted: str | None = None, trusted: frozenset[str] = frozenset()
    ) -> Choice:
        """Newest checkpoint on the chain that verifies; a full verification is attested as another party's."""
        job_key = JobKey.from_hex(key)
        lineage = self._lineage(uid)
        settled = lineage.settled(lineage.highest)
        taker = self._taker(uid, new_nonce())
        epoch = lineage.highest + 1 if settled else lineage.highest
        claim = Claim(uid, epoch, self._by, taker.nonce, taker.now(), takeover.FIRST)
        passed_over: dict[
            str, str
        ] = {}  # checkpoint → why; looked at twice, so one that is read then comes off

        def checked(identity: CheckpointId) -> Manifest:
            try:
                if str(identity) in trusted:
                    manifest = load_manifest(self._store, uid, identity, job_key)
                else:
                    manifest = self._verified(uid, identity, job_key)
            except (DamagedError, NotFoundError, IncompatibleError) as error:
                passed_over[str(identity)] = error.message
                raise
            passed_over.pop(str(identity), None)
            return manifest

        want = None if wanted is None else CheckpointId.parse(wanted)
        try:
            choice = takeover.choose(taker, claim, job_key, checked, wanted=want)
        except (NotFoundError, FencedError) as error:
            return Choice(None, tuple(passed_over.items()), reason=error.message)
        if choice.manifest is None:
            return Choice(None, reason="nothing was ever started")
        chosen = _save_view(choice.manifest, lineage, orphan=False)
        orphans = tuple(str(identity) for identity in choice.orphans)
        skipped = tuple(passed_over.items())
        return Choice(chosen, skipped, choice.extra_loss_s if skipped else None, orphans)

    def _verified(self, uid: str, identity: CheckpointId, key: JobKey) -> Manifest:
        try:
            report = verify.verify_checkpoint(self._store, uid, identity, key, self._clock)
        except (DamagedError, NotFoundError):
            by_parent = verify.verify_by_parent(self._store, uid, identity, key, self._clock)
            if by_parent is None:
                raise
            return by_parent.manifest
        data = {"by": self._by, "seconds": report.seconds, "how": report.how}
        self.mark(uid, str(identity), "verified", data)
        return report.manifest

    def name(
        self,
        uid: str,
        epoch: int,
        *,
        kind: ContinuesKind,
        checkpoint: str | None,
        target: str,
        guard: str,
        nonce: str,
    ) -> bool:
        """Create `epoch`'s continues; True when it is there with our nonce."""
        if kind == "none":
            raise ValueError("an epoch cannot be named `none`")
        taker = self._taker(uid, nonce)
        claim = taker.lineage().claims.get(epoch)
        if claim is None:
            return False
        identity = None if checkpoint is None else CheckpointId.parse(checkpoint)
        try:
            standing = takeover.write_continues(taker, claim, takeover.Choice(kind, identity), target, guard)
        except FencedError:
            return False
        return standing.nonce == nonce

    def lease(self, uid: str, epoch: int, key: str) -> LeaseView | None:
        """The lease of `epoch`."""
        found = read_lease(self._store, uid, epoch, JobKey.from_hex(key))
        return None if found is None else LeaseView(found.guard, found.lease_s, found.nonce)

    def newest(self, uid: str) -> str | None:
        """The newest committed checkpoint on the chain, unopened."""
        chain = self._lineage(uid).chain(list_job(self._store, uid).checkpoints)
        return str(chain[0]) if chain else None

    def names(self, uid: str) -> list[str]:
        """All committed checkpoints by name, newest first."""
        return [str(each) for each in reversed(list_job(self._store, uid).checkpoints)]

    def look(self, uid: str, checkpoint: str, key: str) -> SaveView:
        """One checkpoint by its manifest alone."""
        identity = CheckpointId.parse(checkpoint)
        return self._look(uid, identity, JobKey.from_hex(key), self._lineage(uid), Listing(uid))

    def rehearsed(self, uid: str) -> str | None:
        """Where the newest rehearsed checkpoint ran."""
        prefix = layout.checkpoints(uid)
        found = [info.key[len(prefix) :].partition("/") for info in self._store.list(prefix)]
        names = [layout.parse_checkpoint(name) for name, _, what in found if what == layout.REHEARSED]
        for identity in sorted((name for name in names if name is not None), reverse=True):
            record = verify.read_attestation(self._store, uid, identity, "rehearsed", self._key.verify_key)
            if record is not None:
                return clean(record.how)
        return None

    def saves(self, uid: str, key: str) -> list[SaveView]:
        """All committed checkpoints, newest first, orphans and unreadable ones too."""
        job_key, lineage = JobKey.from_hex(key), self._lineage(uid)
        listing = list_job(self._store, uid)
        return [self._look(uid, each, job_key, lineage, listing) for each in reversed(listing.checkpoints)]

    def _look(
        self, uid: str, identity: CheckpointId, key: JobKey, lineage: Lineage, listing: Listing
    ) -> SaveView:
        orphan = not lineage.on_chain(identity)
        try:
            manifest = load_manifest(self._store, uid, identity, key)
        except (DamagedError, NotFoundError, IncompatibleError) as error:
            return SaveView(
                str(identity), None, None, None, None, usable=False, reason=error.message, orphan=orphan
            )
        names = {info.key.rpartition("/")[2] for info in listing.attested.get(identity, ())}
        rehearsed = None
        if layout.REHEARSED in names:
            record = verify.read_attestation(self._store, uid, identity, "rehearsed", self._key.verify_key)
            rehearsed = clean(record.how) if record is not None else None
        verified = layout.VERIFIED in names and (
            verify.read_attestation(self._store, uid, identity, "verified", self._key.verify_key) is not None
        )
        return _save_view(manifest, lineage, orphan=orphan, verified=verified, rehearsed_on=rehearsed)

    def verify(
        self,
        uid: str,
        checkpoint: str,
        key: str,
        *,
        sample: float | None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> SaveView:
        """Read a checkpoint back and check it; nothing is written. Each sample is another one."""
        job_key, identity = JobKey.from_hex(key), CheckpointId.parse(checkpoint)
        try:
            report = verify.verify_checkpoint(
                self._store,
                uid,
                identity,
                job_key,
                self._clock,
                sample=sample,
                seed=secrets.randbits(32),
                wanted=wanted,
            )
        except (DamagedError, NotFoundError, IncompatibleError) as error:
            return SaveView(checkpoint, None, None, None, None, usable=False, reason=error.message)
        lineage = self._lineage(uid)
        return _save_view(
            report.manifest, lineage, orphan=not lineage.on_chain(identity), verified=sample is None
        )

    def mark(
        self, uid: str, checkpoint: str, what: Literal["verified", "rehearsed"], data: dict[str, Any]
    ) -> None:
        """Create the record of another party's check if it is absent; a store that refuses it is no failure."""
        identity = CheckpointId.parse(checkpoint)
        try:
            verify.attest(
                self._store,
                uid,
                identity,
                what,
                self._key,
                self._clock,
                by=str(data["by"]),
                how=str(data["how"]),
                seconds=float(data["seconds"]),
            )
        except StoreError:
            return

    def register(self, uid: str, name: str) -> None:
        """Create `job.json`; ExistsError when the prefix belongs to another name."""
        takeover.put_header(self._taker(uid, new_nonce()), name)

    def remove(self, uid: str, name: str) -> None:
        """Write the tombstone; checkpoints stay."""
        takeover.remove(self._taker(uid, new_nonce()), name)

    def heartbeat(self, controller: str, document: dict[str, Any]) -> None:
        """Replace this controller's heartbeat."""
        self._store.replace(layout.controller(controller), strict.canonical(document))

    def controllers(self) -> dict[str, dict[str, Any]]:
        """The newest heartbeat of each controller; unreadable ones are left out."""
        result: dict[str, dict[str, Any]] = {}
        for info in self._store.list("controllers/"):
            name = info.key.rpartition("/")[2]
            try:
                check_name("controller", name)
                data = self._store.read(info.key)
                result[name] = strict.loads(data, what=info.key, limit=HEARTBEAT_LIMIT)
            except ReprieveError:
                continue
        return result

    def prune(
        self,
        uid: str,
        key: str,
        *,
        keep_last: int,
        min_age_s: float,
        dry_run: bool,
        shown: tuple[str, ...] | None = None,
    ) -> dict[str, Any]:
        """Delete what retention allows; see `Truth.prune`."""
        policy = retention.Policy(keep_last, min_age_s, self.pinned(uid))
        job_key = JobKey.from_hex(key)
        agreed = None if shown is None else [CheckpointId.parse(each) for each in shown]
        plan = retention.make_plan(
            self._store, uid, job_key, self._key.verify_key, policy, self._clock, agreed
        )
        late = self.pinned(uid) & frozenset(plan.removed)
        if late:  # a group was saved while this was planned
            raise StoreError(
                f"a group was saved meanwhile and needs checkpoint {min(late)}: nothing was removed, look again"
            )
        if not dry_run:
            retention.run(self._store, plan, self._clock)
        return {
            "delete": [str(identity) for identity in plan.removed],
            "keep": {str(kept.checkpoint): kept.reason for kept in plan.kept},
            "refused": plan.refused,
            "objects": len(plan.keys),
            "freed_bytes": plan.freed_bytes,
        }


def _save_view(
    manifest: Manifest,
    lineage: Lineage,
    *,
    orphan: bool,
    verified: bool = False,
    rehearsed_on: str | None = None,
) -> SaveView:
    made = lineage.continues.get(manifest.epoch)
    return SaveView(
        str(manifest.id),
        parse_utc(manifest.timings.frozen_at),
        manifest.size_bytes,
        clean(made.target) if made is not None and made.target is not None else None,
        clean(manifest.engine),
        verified,
        rehearsed_on,
        orphan=orphan,
        fingerprint=manifest.fingerprint,
        freeze_s=manifest.timings.frozen_s,
        upload_s=manifest.timings.pack_s,
        stored_bytes=sum(entry.size for entry in manifest.packs),
        clock_offset_s=manifest.timings.clock_offset_s,
    )


def _view(epoch: int, claim: Claim | None, continues: Continues | None, settled: bool) -> EpochView:
    """One epoch; an object that is not validly signed starts nothing and counts as void."""
    kind: ContinuesKind = "none"
    if settled:
        kind = "void" if continues is None or claim is None else continues.kind
    named = continues if kind not in ("none", "void") else None
    return EpochView(
        epoch,
        claim.nonce if claim is not None else "",
        kind,
        named.checkpoint if named is not None else None,
        clean(named.target) if named is not None else None,
        named.guard if named is not None else None,
        named.nonce if named is not None else None,
        claim.at if claim is not None else "",
        clean(claim.controller) if claim is not None else "",
        strict.to_document(claim.proof) if claim is not None else {},
    )

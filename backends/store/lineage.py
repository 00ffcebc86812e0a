"""A job's lineage: epochs, what each continues from, which checkpoints are on the chain.

`Lineage` is a pure picture of the claims and continues found in the store; every decision of the protocol
(architecture decision 2) is one of its methods, so that the model check drives the very code that runs. An object
that is not validly signed is reported and trusted for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from backends.errors import DamagedError, NoProofError, NotFoundError
from backends.ids import CheckpointId
from backends.records.lineage import Claim, Continues, Proof
from backends.store import layout
from backends.store.fleetkey import VerifyKey, open_record
from backends.store.port import ObjectStore

R = TypeVar("R", Claim, Continues)
Fate = Literal["counts", "orphan", "open"]


@dataclass(frozen=True)
class Lineage:
    """Claims and continues by epoch; None stands for an object that is there and invalid."""

    uid: str
    claims: Mapping[int, Claim | None] = field(default_factory=dict)
    continues: Mapping[int, Continues | None] = field(default_factory=dict)
    problems: tuple[str, ...] = ()  # one sentence for each object that is not trusted

    @property
    def highest(self) -> int:
        """The last epoch that is taken, counted without gaps from 1; 0 when none is."""
        epoch = 0
        while epoch + 1 in self.claims:
            epoch += 1
        return epoch

    @property
    def highest_valid(self) -> int:
        """The highest epoch that a validly signed object names, gaps or not; 0 when there is none."""
        return max((record.epoch for record in self._valid()), default=0)

    @property
    def doubtful(self) -> int:
        """The highest epoch with a valid claim whose continues is there and cannot be read; 0 when there is none.

        Damage and a planted object look the same: something may run under that epoch. It counts only above the
        last readable non-void epoch.
        """
        current = self.current()
        known = 0 if current is None else current.epoch
        found = [
            epoch
            for epoch in range(known + 1, self.highest + 1)
            if self.claims[epoch] is not None and epoch in self.continues and self.continues[epoch] is None
        ]
        return max(found, default=0)

    def _valid(self) -> list[Claim | Continues]:
        return [record for record in (*self.claims.values(), *self.continues.values()) if record is not None]

    def check_gaps(self) -> None:
        """DamagedError when a valid object lies beyond a gap: the store lost something, so nobody may go on."""
        if self.highest_valid > self.highest:
            raise DamagedError(
                f"job {self.uid}: epoch {self.highest + 1} has no claim although epoch {self.highest_valid} has: "
                f"the store lost an object",
                hint="look into the store before any restore; nothing was changed",
            )

    def settled(self, epoch: int) -> bool:
        """Whether nobody can decide any more what that epoch continues from."""
        return epoch < 1 or epoch in self.continues

    def current(self, below: int | None = None) -> Continues | None:
        """The last non-void continues (of an epoch under `below`): the process that may still run; None: none ever."""
        limit = self.highest + 1 if below is None else below
        for epoch in range(min(limit - 1, self.highest), 0, -1):
            found = self.continues.get(epoch)
            if found is not None and found.kind != "void":
                return found
        return None

    def newer_claim(self, epoch: int) -> Claim | Continues | None:
        """What shows that an epoch above `epoch` was taken: the lowest validly signed claim, or else continues.

        Whoever holds `epoch` is behind then; None while there is nothing newer.
        """
        above = [record for record in self._valid() if record.epoch > epoch]
        return min(above, key=lambda record: (record.epoch, isinstance(record, Continues)), default=None)

    def own_claim(self, nonce: str) -> Claim | None:
        """The claim made with this nonce."""
        found = [claim for claim in self.claims.values() if claim is not None and claim.nonce == nonce]
        return found[0] if found else None

    def check_proof(self, proof: Proof) -> None:
        """NoProofError unless `proof` covers the process that the last non-void continues names."""
        if self.doubtful:
            if (proof.kind, proof.epoch) == ("word", self.doubtful):
                return
            raise NoProofError(
                f"job {self.uid}: what epoch {self.doubtful} continues from cannot be read, so nobody knows what may "
                f"still run",
                hint=f"only the operator's typed word for epoch {self.doubtful} goes on from here",
            )
        current = self.current()
        expected = (
            (0, "", "") if current is None else (current.epoch, current.target or "", current.guard or "")
        )
        found = (proof.epoch, proof.target, proof.guard)
        if found != expected:
            raise NoProofError(
                f"job {self.uid}: the proof covers epoch {found[0]} on {found[1] or 'no node'}; the process that may "
                f"still run is epoch {expected[0]} on {expected[1] or 'no node'}",
                hint="prove the death of that one: cloud state, a confirmed stop, or the operator's typed word",
            )

    def on_chain(
        self, checkpoint: CheckpointId, below: int | None = None, *, past_doubt: bool = False
    ) -> bool:
        """Whether a checkpoint is on the chain from the last non-void epoch (under `below`); else it is an orphan.

        With a doubtful epoch only that epoch's own saves are known to be on the chain. `past_doubt` looks at the
        chain before it, for an operator who names a checkpoint.
        """
        if self.doubtful and not past_doubt and (below is None or self.doubtful < below):
            return checkpoint.epoch == self.doubtful
        limit: int | None = None  # highest seq that counts in the epoch looked at; None: all
        current = self.current(below)
        while current is not None:
            if checkpoint.epoch == current.epoch:
                return limit is None or checkpoint.seq <= limit
            start = current.from_checkpoint
            if start is None or start.epoch >= current.epoch:
                return False
            limit = start.seq
            current = self._non_void(start.epoch)
        return False

    def fate(self, checkpoint: CheckpointId) -> Fate:
        """What a newer epoch made of a checkpoint of an older one: it goes on from it, passed it over, or has not said.

        Epochs below the checkpoint's own need not be known.
        """
        below = dict.fromkeys(range(1, checkpoint.epoch))
        whole = replace(self, claims={**below, **self.claims}, problems=())
        newest = whole.current()
        if newest is None or newest.epoch <= checkpoint.epoch or whole.doubtful:
            return "open"
        return "counts" if whole.on_chain(checkpoint) else "orphan"

    def chain(self, checkpoints: Iterable[CheckpointId], below: int | None = None) -> list[CheckpointId]:
        """Those of `checkpoints` that are on the chain, newest first by (epoch, seq)."""
        return sorted((found for found in checkpoints if self.on_chain(found, below)), reverse=True)

    def _non_void(self, epoch: int) -> Continues | None:
        found = self.continues.get(epoch)
        return None if found is None or found.kind == "void" else found

    def may_start(self, epoch: int, guard: str, nonce: str) -> Continues:
        """The continues that lets `guard` start this epoch; FencedError-free refusal as NoProofError otherwise.

        Only the guard named by the valid, non-void continues of the highest epoch may start it, and only for the
        grant with the same nonce. That it starts once is the guard's own synced record.
        """
        found = self.continues.get(epoch)
        claim = self.claims.get(epoch)
        newer = self.newer_claim(epoch)
        reason = None
        if claim is None:
            reason = "it has no valid claim"
        elif found is None or found.kind == "void":
            reason = "it is void or names no one yet"
        elif found.guard != guard:
            reason = f"it names guard {found.guard}, not {guard}"
        elif found.nonce != nonce:
            reason = "the grant's nonce is another's"
        elif newer is not None:
            reason = f"epoch {newer.epoch} has been claimed since"
        if reason is not None or found is None:
            raise NoProofError(f"job {self.uid}: epoch {epoch} may not be started here: {reason}")
        return found

    def adopts(self, guard: str, own_epoch: int, last: CheckpointId | None) -> Continues | None:
        """A newer epoch that lets a zombie of `own_epoch` run on: it names this guard and its own last commit."""
        newest = self.current()
        if (
            newest is None
            or newest.epoch <= own_epoch
            or newest.guard != guard
            or self.claims.get(newest.epoch) is None
        ):
            return None
        same = newest.from_checkpoint == last if last is not None else newest.kind in ("genesis", "cold")
        return newest if same and self.highest == newest.epoch else None


def read_lineage(store: ObjectStore, uid: str, verify_key: VerifyKey, *, since: int = 1) -> Lineage:
    """List and read the claims and continues of a job. Foreign names are ignored, invalid objects reported.

    `since` leaves out lower epochs: enough to see whether an epoch is behind, too little for anything else.
    """
    claims: dict[int, Claim | None] = {}
    continues: dict[int, Continues | None] = {}
    problems: list[str] = []
    prefix = layout.epochs(uid)
    for info in store.list(prefix):
        parsed = layout.parse_epoch(info.key[len(prefix) :])
        if parsed is None or parsed[0] < since:
            continue
        epoch, is_continues = parsed
        if is_continues:
            continues[epoch] = _open(store, Continues, info.key, uid, epoch, verify_key, problems)
        else:
            claims[epoch] = _open(store, Claim, info.key, uid, epoch, verify_key, problems)
    return Lineage(uid, claims, continues, tuple(problems))


def _open(
    store: ObjectStore,
    kind: type[R],
    key: str,
    uid: str,
    epoch: int,
    verify_key: VerifyKey,
    problems: list[str],
) -> R | None:
    try:
        record = open_record(kind, store.read(key), verify_key, what=key)
    except (DamagedError, NotFoundError) as error:
        problems.append(error.message)
        return None
    if record.job_uid != uid or record.epoch != epoch:
        problems.append(f"{key}: it says job {record.job_uid}, epoch {record.epoch}; it is ignored")
        return None
    return record

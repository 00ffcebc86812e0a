"""The small signed records that say who may run a job: claims, continues, attestations, header, tombstone.

Each is one immutable object of the store, created if absent. `backends.store.fleetkey` signs and opens them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from backends.errors import UsageError
from backends.ids import CheckpointId, check_uid

ProofKind = Literal["first", "cloud", "stopped", "word", "lease"]
ContinuesKind = Literal["checkpoint", "genesis", "cold", "void"]


@dataclass(frozen=True)
class Proof:
    """Why the process of the last non-void epoch is known to be gone."""

    kind: ProofKind  # first: nothing was ever started; stopped: the guard acknowledged; word: typed by the operator
    epoch: int  # the epoch whose process is gone; 0 for `first`
    target: str  # the node that epoch's continues names; empty for `first`
    guard: str  # the guard it names; empty for `first`
    by: str  # who says so: the cloud's name, the guard, the operator
    at: str  # RFC 3339
    detail: str = ""

    def __post_init__(self) -> None:
        if (self.kind == "first") != (self.epoch == 0):
            raise ValueError(f"proof {self.kind!r} names epoch {self.epoch}; only `first` names epoch 0")


@dataclass(frozen=True)
class Claim:
    """`epochs/<n>`: one controller takes epoch n; only one can."""

    RECORD: ClassVar[str] = "claim"

    job_uid: str
    epoch: int  # from 1, without gaps
    controller: str
    nonce: str  # tells our own write from another's after a conflict or time-out
    at: str  # RFC 3339; for people, never for order
    proof: Proof

    def __post_init__(self) -> None:
        _check(self.job_uid, self.epoch)


@dataclass(frozen=True)
class Continues:
    """`epochs/<n>.continues`: what epoch n goes on from, and the one guard that may start it; or void."""

    RECORD: ClassVar[str] = "continues"

    job_uid: str
    epoch: int
    kind: ContinuesKind
    checkpoint: str | None  # <epoch>.<seq> for kind `checkpoint`
    target: str | None  # node name; None for `void`
    guard: str | None  # guard id; None for `void`
    controller: str
    nonce: str
    at: str

    def __post_init__(self) -> None:
        _check(self.job_uid, self.epoch)
        if (self.kind == "checkpoint") != (self.checkpoint is not None):
            raise ValueError(f"continues of kind {self.kind!r} with checkpoint {self.checkpoint!r}")
        if self.checkpoint is not None and CheckpointId.parse(self.checkpoint).epoch >= self.epoch:
            raise ValueError(f"epoch {self.epoch} cannot continue from {self.checkpoint}")
        if (self.kind == "void") != (self.target is None) or (self.target is None) != (self.guard is None):
            raise ValueError(
                f"continues of kind {self.kind!r} names target {self.target!r}, guard {self.guard!r}"
            )

    @property
    def from_checkpoint(self) -> CheckpointId | None:
        """The checkpoint it goes on from, None for the other kinds."""
        return None if self.checkpoint is None else CheckpointId.parse(self.checkpoint)


@dataclass(frozen=True)
class Attestation:
    """`checkpoints/<e>.<s>/verified` or `rehearsed`: another party than the node looked at it."""

    RECORD: ClassVar[str] = "attestation"

    job_uid: str
    checkpoint: str
    kind: Literal["verified", "rehearsed"]
    by: str
    at: str
    seconds: float  # how long it took
    how: str  # full | sample 0.10 | the host of a rehearsal
    manifest: str  # mac of the manifest that was looked at

    def __post_init__(self) -> None:
        _check(self.job_uid, CheckpointId.parse(self.checkpoint).epoch)


@dataclass(frozen=True)
class JobHeader:
    """`job.json`: which job this prefix belongs to; a reused name is a new uid."""

    RECORD: ClassVar[str] = "job"

    job_uid: str
    name: str
    created: str

    def __post_init__(self) -> None:
        _check(self.job_uid, 1)


@dataclass(frozen=True)
class Tombstone:
    """`removed`: the job's record was forgotten; its checkpoints stay until pruned by name."""

    RECORD: ClassVar[str] = "tombstone"

    job_uid: str
    name: str
    by: str
    at: str

    def __post_init__(self) -> None:
        _check(self.job_uid, 1)


def _check(uid: str, epoch: int) -> None:
    try:
        check_uid(uid)
    except UsageError as error:
        raise ValueError(str(error)) from None
    if not 1 <= epoch <= 999_999_999:
        raise ValueError(f"epoch {epoch} is not between 1 and 999999999")

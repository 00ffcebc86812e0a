"""What a job's store says of it, and the four writes of a take-over, as operations need them.

The store is the truth: who may run the job is decided here, by objects that only one writer can create. The rules
are `backends.store.lineage`; this module is the small face that flows and their tests share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from backends.records.group import GroupEpoch, GroupSave, Member, Resumed

ContinuesKind = Literal["none", "void", "genesis", "checkpoint", "cold"]


@dataclass(frozen=True)
class EpochView:
    """One epoch as the store has it; only validly signed objects are seen here."""

    epoch: int
    claim_nonce: str
    kind: ContinuesKind = "none"  # none: claimed, nothing named yet
    checkpoint: str | None = None
    target: str | None = None  # node name
    guard: str | None = None
    nonce: str | None = None  # of the continues
    claimed_at: str = ""
    by: str = ""
    proof: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LineageView:
    """All epochs of a job in order, and what was found that cannot be trusted."""

    epochs: tuple[EpochView, ...] = ()
    alarms: tuple[str, ...] = ()

    @property
    def highest(self) -> EpochView | None:
        """The newest claim, None before the first."""
        return self.epochs[-1] if self.epochs else None

    @property
    def running(self) -> EpochView | None:
        """The newest epoch that names somebody: the one whose process may live."""
        named = [epoch for epoch in self.epochs if epoch.kind not in ("none", "void")]
        return named[-1] if named else None


@dataclass(frozen=True)
class LeaseView:
    """The lease of one epoch as the store holds it."""

    guard: str
    lease_s: float | None  # None: nothing is promised
    nonce: str  # another one at each renewal


@dataclass(frozen=True)
class SaveView:
    """One committed checkpoint."""

    checkpoint: str
    frozen_at: float | None  # seconds since 1970 by the node's clock; None for one that cannot be read
    size_bytes: int | None
    node: str | None
    engine: str | None
    verified: bool = False
    rehearsed_on: str | None = None
    usable: bool = True
    reason: str = ""  # why it is not usable
    orphan: bool = False
    fingerprint: dict[str, Any] = field(default_factory=dict)
    freeze_s: float | None = None
    upload_s: float | None = None
    stored_bytes: int | None = None  # sealed bytes of its own packs in the store, none of its parent's
    clock_offset_s: float | None = None  # node's wall clock minus ours at the save; None: unknown


@dataclass(frozen=True)
class Choice:
    """The checkpoint to continue from; None: nothing usable. `skipped` newer ones with the reason of each."""

    chosen: SaveView | None
    skipped: tuple[tuple[str, str], ...] = ()
    extra_loss_s: float | None = None  # freeze instant of the newest skipped − of the chosen; None: unknown
    orphans: tuple[str, ...] = ()
    reason: str = ""  # why nothing was chosen


class Truth(Protocol):
    """A job store seen by one controller. Blocking; raises StoreError subclasses and UnreachableError."""

    @property
    def url(self) -> str:
        """Where it is."""
        ...

    def lineage(self, uid: str) -> LineageView:
        """All epochs now."""
        ...

    def void(self, uid: str, epoch: int) -> bool:
        """Create `epoch`'s continues as void; False when it exists already (somebody was named)."""
        ...

    def claim(self, uid: str, epoch: int, nonce: str, proof: dict[str, Any]) -> bool:
        """Create the claim; True when it is there with our nonce, False when another took it."""
        ...

    def choose(
        self, uid: str, key: str, wanted: str | None = None, trusted: frozenset[str] = frozenset()
    ) -> Choice:
        """Newest checkpoint on the chain that verifies against the job key `key` (hex), or `wanted` alone.

        Checkpoints named in `trusted` were verified a moment ago and are not read again.
        """
        ...

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
        """Create `epoch`'s continues; True when it is there with our nonce, False when another one is."""
        ...

    def lease(self, uid: str, epoch: int, key: str) -> LeaseView | None:
        """The lease of `epoch`, authenticated with the job key; None when there is none that counts."""
        ...

    def newest(self, uid: str) -> str | None:
        """The newest committed checkpoint on the chain, unopened; None when there is none."""
        ...

    def names(self, uid: str) -> list[str]:
        """Names of all committed checkpoints, newest first, orphans too; none is opened."""
        ...

    def look(self, uid: str, checkpoint: str, key: str) -> SaveView:
        """One checkpoint by its manifest alone; `usable` is false, with the reason, when that cannot be read."""
        ...

    def rehearsed(self, uid: str) -> str | None:
        """Where the newest rehearsed checkpoint of the job ran, None when none ever was."""
        ...

    def saves(self, uid: str, key: str) -> list[SaveView]:
        """All committed checkpoints, newest first."""
        ...

    def verify(
        self,
        uid: str,
        checkpoint: str,
        key: str,
        *,
        sample: float | None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> SaveView:
        """Read a checkpoint back, all of it or a share of its frames; `usable` and `reason` say what came of it.

        Raises:
            StoreError: the store cannot be read, or `wanted` said no meanwhile; nothing is known then.
        """
        ...

    def mark(
        self, uid: str, checkpoint: str, what: Literal["verified", "rehearsed"], data: dict[str, Any]
    ) -> None:
        """Create the record of another party's check if it is absent."""
        ...

    def register(self, uid: str, name: str) -> None:
        """Create `job.json` and check that the job key can be used here, before anything is saved."""
        ...

    def remove(self, uid: str, name: str) -> None:
        """Write the tombstone; checkpoints stay."""
        ...

    def heartbeat(self, controller: str, document: dict[str, Any]) -> None:
        """Replace this controller's heartbeat: `at` (RFC 3339) and `every_s` among its fields."""
        ...

    def controllers(self) -> dict[str, dict[str, Any]]:
        """The newest heartbeat of each controller."""
        ...

    def group_saves(self, group: str) -> tuple[GroupSave, ...]:
        """All saves of the group named so, newest first."""
        ...

    def group_epochs(self, group: str) -> tuple[GroupEpoch, ...]:
        """All epochs of the group, newest first."""
        ...

    def commit_group(
        self, group: str, members: tuple[Member, ...], skew: tuple[float, float], nonce: str
    ) -> GroupSave:
        """Create the next save of a group, all members or nothing; `skew` is measured and by how much it may be wrong.

        Raises:
            NotFoundError: a member's checkpoint is not there.
        """
        ...

    def take_group(
        self, group: str, save: int, members: tuple[Resumed, ...], nonce: str
    ) -> GroupEpoch | None:
        """Create the next epoch of a group; None when another controller took it."""
        ...

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
        """Delete what retention allows, and of it only what was `shown` before, if given.

        The plan: `{delete: [ids], keep: {id: why}, refused: str | None, objects: n, freed_bytes: n}`.

        Raises:
            UsageError: something shown may not go any more; nothing was deleted.
        """
        ...

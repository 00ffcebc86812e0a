"""What the guard asks of the store for one job: ship a save, fetch one, and say where the lineage stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from backends.engines.port import OpenFile, Saved
from backends.records.grant import Grant
from backends.records.job import Job


@dataclass(frozen=True)
class Shipment:
    """One save in its staging directory, ready to be packed."""

    job: Job
    engine: str
    saved: Saved
    directory: Path
    pid: int  # the process that was saved; it may be gone by now


@dataclass(frozen=True)
class Receipt:
    """A save that is durable: read back, and no newer epoch found."""

    checkpoint: str
    size_bytes: int
    stored_bytes: int | None = None  # what this save itself put into the store; None: not told
    parent: str | None = None  # the full save that it refers to; None: it is one


@dataclass(frozen=True)
class Fetched:
    """What a fetched checkpoint needs to run again; its `images/` and `files/` lie in the directory given."""

    engine: str
    files: tuple[OpenFile, ...]
    details: dict[str, Any]
    ahead_bytes: int = 0  # sealed bytes that lay here already
    moved_bytes: int | None = None  # sealed bytes that came from the store now; None: not counted


@dataclass(frozen=True)
class Place:
    """Where an epoch stands in the lineage."""

    newest: int  # highest validly claimed epoch
    returned: bool  # `newest` names this guard and the given last commit
    invalid: tuple[tuple[int, str], ...]


class Vault(Protocol):
    """The store, seen by one job's guard. Raises StoreError, FencedError, DamagedError, UnreachableError."""

    def ship(self, shipment: Shipment, epoch: int) -> Receipt:
        """Commit a save under `epoch`: data, manifest, read back, look for a newer epoch."""
        ...

    def start_over(self) -> None:
        """Make the next save a full one."""
        ...

    def consolidate(self, checkpoint: str) -> str | None:
        """After a ship: make that save a full one where its distance from the last full one asks for it.

        Ends early once the next ship begins. Returns what to say of it; None: nothing was due or it was cut short.
        """
        ...

    def recover(self, epoch: int, after: str | None) -> str | None:
        """The newest checkpoint of `epoch`, newer than `after`, that counts after a crash of the guard; None: none."""
        ...

    def fetch(self, checkpoint: str, into: Path, ahead: Path | None = None) -> Fetched:
        """Verify a checkpoint and write its images and files under `into`; packs in `ahead` are not read from the store."""
        ...

    def fetch_ahead(self, checkpoint: str, into: Path) -> int:
        """Copy the packs that a checkpoint needs into `into`; returns the bytes copied."""
        ...

    def place(self, epoch: int, guard: str, last: str | None) -> Place:
        """Look at the claims and continues above `epoch`."""
        ...

    def keep_lease(self, epoch: int, guard: str, lease_s: float | None) -> None:
        """Write the promise that this guard freezes the job `lease_s` after this call began; None withdraws it."""
        ...

    def may_start(self, epoch: int, guard: str, nonce: str, checkpoint: str | None) -> None:
        """Return when a valid signed continues of `epoch` names this guard, nonce and checkpoint.

        Raises:
            NoProofError: it does not, or a newer epoch exists.
        """
        ...

    def escrow(self, nonce: str) -> str:
        """A test object sealed with the job's key as this guard uses it; needs no store. Hex."""
        ...

    def maker(self, checkpoint: str) -> str | None:
        """The guard that was named to run the epoch of a checkpoint; None when the lineage does not say."""
        ...

    def rehearsed(self) -> bool:
        """Whether some checkpoint of this job is recorded as rehearsed on another host."""
        ...


VaultOpener = Callable[[Job, Grant], Vault]

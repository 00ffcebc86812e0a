"""A grant: what a guard needs to act for one epoch of one job (docs/internals.md section 2)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_HEX = re.compile(r"[0-9a-f]*\Z")


@dataclass(frozen=True)
class Grant:
    """Handed to a node with `protect`, `start`, `restore` and `rehearse`; holds the job's key, so never logged."""

    store: str  # URL of the store
    epoch: int  # 0 for a rehearsal, which has none
    nonce: str  # the nonce of the epoch's continues
    key: str = field(repr=False)  # the job's key, hex
    verify_key: str  # the fleet's Ed25519 public key, hex
    continues: str = "genesis"  # genesis, or the checkpoint <epoch>.<seq> this epoch goes on from
    sent_at: str | None = None  # RFC 3339 by the controller's wall clock, when it sent this
    heard_at: float | None = None  # boot clock of the node; filled in there by the node command

    def __post_init__(self) -> None:
        if self.epoch < 0:
            raise ValueError(f"epoch is {self.epoch}; 0 or more is needed")
        for name in ("nonce", "key", "verify_key"):
            if not _HEX.match(getattr(self, name)):
                raise ValueError(f"{name} is not lower-case hex")

"""Watching leases in the store: by our own clock, how long has none been renewed."""

from __future__ import annotations

from dataclasses import dataclass, field

from console.operations.decide.loss import LeaseWord
from console.operations.truth import LeaseView


@dataclass
class LeaseWatch:
    """For each job: the renewal last seen, and when (monotonic) we first saw it."""

    seen: dict[str, tuple[int, LeaseView, float]] = field(default_factory=dict)

    def note(
        self, uid: str, epoch: int, lease: LeaseView | None, asked_at: float, now: float
    ) -> LeaseWord | None:
        """What the lease read between `asked_at` and `now` means; None when nothing is promised.

        A renewal counts from the end of the read that first showed it; its age, at the beginning of each later read.
        """
        if lease is None or lease.lease_s is None:
            self.seen.pop(uid, None)
            return None
        known = self.seen.get(uid)
        if known is None or known[:2] != (epoch, lease):
            known = self.seen[uid] = (epoch, lease, now)
        return LeaseWord(lease.guard, lease.lease_s, max(0.0, asked_at - known[2]))

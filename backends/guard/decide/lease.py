"""When an isolated job must stand still: its promise in the store, else its policy.

A promise that was ever written holds until its withdrawal is known to be written: whoever read it may act on it.
"""

from __future__ import annotations

from dataclasses import replace

from backends.guard.decide.model import Decision, Lease, LeaseBegun, LeaseKept, Mind

SHARE = 3.0  # renewals in the time of one lease
MOST_BETWEEN_S = 30.0


def ends_at(mind: Mind) -> float | None:
    """Boot-clock instant after which the process may not run any more; None: it may run for ever."""
    if mind.lease is not None:
        return mind.lease.renewed_at + mind.lease.lease_s
    return mind.contact_at + mind.policy.lease_s if mind.policy.on_isolated == "freeze" else None


def wanted_s(mind: Mind) -> float | None:
    """The lease to promise now; None: none."""
    return mind.policy.lease_s if mind.policy.on_isolated == "freeze" and mind.phase == "running" else None


def renew_in_s(mind: Mind, now: float) -> float | None:
    """Seconds until the lease should be renewed or withdrawn; None: there is nothing to write.

    A zombie renews nothing: its epoch is over.
    """
    wanted = wanted_s(mind)
    if mind.behind is not None or (wanted is None and mind.lease is None):
        return None
    if wanted is None or mind.lease is None or mind.lease.lease_s != wanted:
        return 0.0
    return max(0.0, mind.lease.renewed_at + min(wanted / SHARE, MOST_BETWEEN_S) - now)


def take_begun(mind: Mind, event: LeaseBegun, now: float) -> tuple[Mind, tuple[Decision, ...]]:
    """From here on the shorter of the old promise and the new one binds."""
    if event.lease_s is None:
        return mind, ()
    if mind.lease is None:
        return replace(mind, lease=Lease(event.lease_s, event.at)), ()
    return replace(mind, lease=replace(mind.lease, lease_s=min(mind.lease.lease_s, event.lease_s))), ()


def take_kept(mind: Mind, event: LeaseKept, now: float) -> tuple[Mind, tuple[Decision, ...]]:
    """The new promise binds from the beginning of its writing."""
    return replace(mind, lease=None if event.lease_s is None else Lease(event.lease_s, event.at)), ()

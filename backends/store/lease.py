"""A job's lease in the store: the guard's renewed promise to freeze its process when it cannot renew it any more.

`leases/<epoch>` is replaced by the one guard that the epoch names and authenticated with the job's key. A controller only
looks whether it changes: no clock is compared (reliability: monotonic clocks on both sides).
"""

from __future__ import annotations

from dataclasses import dataclass

from backends.errors import DamagedError, NotFoundError
from backends.ids import check_uid
from backends.records import strict
from backends.store import layout
from backends.store.port import ObjectStore
from backends.store.sealing import JobKey

LIMIT = 4096  # bytes
MOST_S = 30 * 86_400.0


@dataclass(frozen=True)
class Lease:
    """The promise as it stands: frozen at the latest `lease_s` seconds after the renewal that wrote it began."""

    job_uid: str
    epoch: int
    guard: str
    lease_s: float | None  # None: nothing is promised (any more)
    nonce: str  # another one at each renewal

    def __post_init__(self) -> None:
        check_uid(self.job_uid)
        if self.lease_s is not None and not 0 < self.lease_s <= MOST_S:
            raise ValueError(
                f"a lease of {self.lease_s} s; more than 0 and at most {MOST_S:.0f} s are expected"
            )


def write_lease(store: ObjectStore, lease: Lease, key: JobKey) -> None:
    """Replace the lease of `lease.epoch`. Raises StoreError and its kin."""
    document = strict.to_document(lease)
    document["mac"] = key.mac(strict.canonical(document))
    store.replace(layout.lease(lease.job_uid, lease.epoch), strict.canonical(document))


def read_lease(store: ObjectStore, uid: str, epoch: int, key: JobKey) -> Lease | None:
    """The lease of `epoch`; None when there is none, or one that this job's key did not make (it proves nothing).

    Raises:
        StoreError, UnreachableError: the store cannot be read.
    """
    name = layout.lease(uid, epoch)
    try:
        document = strict.loads(store.read(name), what=name, limit=LIMIT)
        mac = document.pop("mac", None)
        if not isinstance(mac, str) or not key.mac_matches(strict.canonical(document), mac):
            return None
        lease = strict.read(Lease, document, what=name)
    except (NotFoundError, DamagedError, ValueError):
        return None
    return lease if (lease.job_uid, lease.epoch) == (uid, epoch) else None

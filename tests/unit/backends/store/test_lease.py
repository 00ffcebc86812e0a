"""What a lease in the store says, and what it does not say when it was tampered with."""

from __future__ import annotations

import pytest

from backends.errors import UnreachableError
from backends.fakes.store import Fault, MemoryStore
from backends.store import layout
from backends.store.lease import Lease, read_lease, write_lease
from backends.store.sealing import JobKey

UID = "a" * 20
KEY = JobKey.new()
LEASE = Lease(UID, 3, "guard-a", 90.0, "n1")


def test_a_lease_is_replaced_and_read_back() -> None:
    store = MemoryStore()
    assert read_lease(store, UID, 3, KEY) is None
    write_lease(store, LEASE, KEY)
    write_lease(store, Lease(UID, 3, "guard-a", None, "n2"), KEY)
    found = read_lease(store, UID, 3, KEY)
    assert found is not None
    assert (found.lease_s, found.nonce) == (None, "n2")
    assert [name for name in store.objects if "leases" in name] == [f"jobs/{UID}/leases/3"]


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"\xff", b'{"mac":"00"}'])
def test_what_cannot_be_read_promises_nothing(data: bytes) -> None:
    store = MemoryStore()
    store.replace(layout.lease(UID, 3), data)
    assert read_lease(store, UID, 3, KEY) is None


def test_another_jobs_key_or_epoch_promises_nothing() -> None:
    store = MemoryStore()
    write_lease(store, LEASE, JobKey.new())
    assert read_lease(store, UID, 3, KEY) is None
    write_lease(store, LEASE, KEY)
    store.replace(layout.lease(UID, 4), store.read(layout.lease(UID, 3)))
    assert read_lease(store, UID, 4, KEY) is None


def test_a_silent_store_is_not_an_absent_lease() -> None:
    store = MemoryStore()
    write_lease(store, LEASE, KEY)
    store.script.append(Fault("silent", "read"))
    with pytest.raises(UnreachableError):
        read_lease(store, UID, 3, KEY)


@pytest.mark.parametrize("lease_s", [0.0, -1.0, float("inf"), float("nan")])
def test_an_absurd_length_is_no_lease(lease_s: float) -> None:
    with pytest.raises(ValueError, match="a lease of"):
        Lease(UID, 1, "g", lease_s, "n")

"""The guard's vault after a ship: a synthetic full where one is due, cut short by the next ship."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest

from backends.engines.port import Saved
from backends.guard import storevault
from backends.guard.storevault import StoreVault
from backends.guard.vault import Shipment
from backends.ids import CheckpointId
from backends.records.grant import Grant
from backends.records.job import Job
from backends.records.manifest import Manifest
from backends.store import chain, full
from backends.store.fileops import RealOps
from backends.store.format.manifests import load_manifest
from backends.store.port import ObjectStore
from backends.store.sealing import JobKey
from tests.support.memory import Process, page, save_of
from tests.support.store import UID, Bench

A = 0x400000


@dataclass
class Node:
    """A guard's vault on a store in memory, and saves that change one page each."""

    bench: Bench
    vault: StoreVault
    where: Path
    saves: int = 0

    def ship(self) -> str:
        self.saves += 1
        directory = self.where / str(self.saves)
        save_of(directory, [Process(7, {A: [page(1), page(2), page(3), page(100 + self.saves)]})])
        saved = Saved(
            frozen_at=1.0,
            frozen_at_monotonic=1.0,
            frozen_s=0.1,
            dump_s=0.1,
            size_bytes=1,
            files=(),
            processes=(),
            versions={},
        )
        shipment = Shipment(self.job, "fake", saved, directory, 1)
        return self.vault.ship(shipment, 1).checkpoint

    @property
    def job(self) -> Job:
        return Job(name="job", node="n", uid=UID, command=("true",))

    def parent(self, checkpoint: str) -> str | None:
        found = load_manifest(self.bench.store, UID, CheckpointId.parse(checkpoint), self.bench.key)
        return found.parent


@pytest.fixture
def node(tmp_path: Path) -> Node:
    bench = Bench()
    bench.begin()
    (tmp_path / "tables").mkdir()
    grant = Grant(
        store="memory://",
        epoch=1,
        nonce="ab" * 16,
        key=bench.key.hex,
        verify_key=bench.fleet.verify_key.hex,
        continues="genesis",
    )
    job = Job(name="job", node="n", uid=UID, command=("true",))
    vault = StoreVault(
        bench.store, job, grant, bench.clock, lambda shipment: {}, RealOps(tmp_path / "tables")
    )
    return Node(bench, vault, tmp_path)


def test_nothing_is_due_after_a_few_saves(node: Node) -> None:
    for _ in range(3):
        assert node.vault.consolidate(node.ship()) is None
    assert node.parent("1.3") == "1.1"


def test_what_is_due_is_made_and_becomes_the_parent(node: Node) -> None:
    node.ship()
    with patch.object(chain, "MAX_SAVES", 1):
        second = node.ship()
    told = node.vault.consolidate(second)
    assert told is not None
    assert "1.2" in told
    assert node.parent(node.ship()) == "1.2"
    assert node.vault.consolidate(second) is None


def test_without_it_the_next_save_is_a_full_one(node: Node) -> None:
    node.ship()
    with patch.object(chain, "MAX_SAVES", 1):
        node.ship()
    assert node.parent(node.ship()) is None
    assert node.parent(node.ship()) == "1.3"


def test_the_next_ship_cuts_it_short(node: Node) -> None:
    node.ship()
    with patch.object(chain, "MAX_SAVES", 1):
        second = node.ship()
    real = full.make_full

    def slow(
        store: ObjectStore, uid: str, checkpoint: CheckpointId, key: JobKey, stop: Callable[[], bool]
    ) -> Manifest | None:
        assert not stop()
        assert node.parent(node.ship()) is None  # a full save, not one that refers to what is being made
        assert stop()
        return real(store, uid, checkpoint, key, lambda: False)  # even if it was ready a moment too late

    with patch.object(storevault, "make_full", slow):
        assert node.vault.consolidate(second) is None
    assert node.parent(node.ship()) == "1.3"

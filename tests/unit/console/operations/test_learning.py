"""Saves that nobody heard of are learnt from the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.errors import UnreachableError
from backends.fakes.store import Fault, MemoryStore
from backends.ledger.sqlite import SqliteLedger
from backends.store.sealing import JobKey
from console.operations.common.learning import learn_saves
from tests.support.store import UID, Bench


@pytest.fixture
def ledger(tmp_path: Path) -> SqliteLedger:
    return SqliteLedger(tmp_path / "ledger.db")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    found = Bench()
    found.begin()
    for seq in (1, 2, 3):
        found.save(tmp_path, seq)
    return found


def test_what_manifests_say_is_in_the_ledger_once(ledger: SqliteLedger, bench: Bench) -> None:
    assert learn_saves(ledger, UID, bench.store, bench.key) == 3
    assert learn_saves(ledger, UID, bench.store, bench.key) == 0
    found = ledger.saves(UID)
    assert [save.checkpoint for save in found] == ["1.1", "1.2", "1.3"]
    assert all(save.freeze_s == 0.25 and save.size_bytes > 0 for save in found)


def test_what_cannot_be_read_is_left_out_and_a_silent_store_is_told(
    ledger: SqliteLedger, bench: Bench
) -> None:
    assert isinstance(bench.store, MemoryStore)
    key = f"jobs/{UID}/checkpoints/1.2/manifest.json"
    bench.store.objects[key] = (b"{}", 0.0)
    assert learn_saves(ledger, UID, bench.store, bench.key) == 2
    assert learn_saves(ledger, UID, bench.store, JobKey.new()) == 0
    bench.store.script.append(Fault("silent", "list", times=0))
    with pytest.raises(UnreachableError):
        learn_saves(ledger, UID, bench.store, bench.key)

"""Retention and saves that refer to an older one: what a kept manifest needs stays, whatever the policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.fakes.fileops import SimulatedOps
from backends.fakes.store import MemoryStore
from backends.ids import CheckpointId
from backends.store import layout
from backends.store.format.manifests import list_job
from backends.store.format.table import drop_table
from backends.store.retention import Plan, Policy, make_plan, run
from backends.store.verify import verify_checkpoint
from tests.support.memory import Process, page, save_of
from tests.support.store import UID, Bench

A = 0x400000


def ids(*seqs: int) -> tuple[CheckpointId, ...]:
    return tuple(CheckpointId(1, seq) for seq in seqs)


@pytest.fixture
def bench() -> Bench:
    found = Bench(tables=SimulatedOps())
    found.begin()
    return found


def save(bench: Bench, where: Path, seq: int, *, full: bool = False, verified: bool = True) -> None:
    """A save that changes one page of the last one; `full`: the table was lost."""
    assert bench.tables is not None
    if full:
        drop_table(bench.tables, UID)
    memory = Process(7, {A: [page(1), page(2), page(3), page(seq)]})
    assert (
        bench.committer().commit(seq, save_of(where / str(seq), [memory])).manifest.parent is None
    ) == full
    if verified:
        bench.verified(CheckpointId(1, seq))
    bench.clock.sleep(600)


def retain(bench: Bench, keep_last: int = 1) -> Plan:
    decided = make_plan(
        bench.store, UID, bench.key, bench.fleet.verify_key, Policy(keep_last, 0.0), bench.clock
    )
    run(bench.store, decided, bench.clock)
    return decided


def whole(bench: Bench) -> int:
    """Verify all that is listed; how many there are."""
    found = list_job(bench.store, UID).checkpoints
    for identity in found:
        verify_checkpoint(bench.store, UID, identity, bench.key, bench.clock)
    return len(found)


def test_the_full_save_stays_while_one_that_uses_it_does(bench: Bench, tmp_path: Path) -> None:
    for seq in range(1, 7):
        save(bench, tmp_path, seq, full=seq == 1)
    decided = retain(bench)
    assert decided.removed == ids(4, 3, 2)
    assert [kept.reason for kept in decided.kept if kept.checkpoint == CheckpointId(1, 1)] == [
        "checkpoint 1.6 uses its packs"
    ]
    assert whole(bench) == 3
    save(bench, tmp_path, 7)
    for seq in (8, 9):
        save(bench, tmp_path, seq, full=seq == 8)
    assert retain(bench).removed == ids(7, 6, 5, 1)
    assert list_job(bench.store, UID).checkpoints == list(ids(8, 9))
    assert whole(bench) == 2
    save(bench, tmp_path, 10)
    assert whole(bench) == 3


def test_what_an_unreadable_manifest_may_need_stays(bench: Bench, tmp_path: Path) -> None:
    for seq in range(1, 5):
        save(bench, tmp_path, seq, full=seq == 1)
    for seq in range(5, 8):
        save(bench, tmp_path, seq, full=True)
    assert isinstance(bench.store, MemoryStore)
    name = layout.checkpoint(UID, CheckpointId(1, 4))
    data, at = bench.store.objects[name]
    bench.store.objects[name] = (data[:-2], at)
    assert retain(bench).removed == ids(5, 2)  # 1.4 cannot be read: 1.3 and 1.1 may be its parent
    bench.store.objects[name] = (data, at)
    assert whole(bench) == 5
    assert retain(bench).removed == ids(4, 3, 1)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(["save", "full", "verified", "retain"]), max_size=14), st.integers(1, 3))
def test_no_order_of_saves_and_retention_breaks_what_is_kept(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], keep_last: int
) -> None:
    where = tmp_path_factory.mktemp("saves")
    bench = Bench(tables=SimulatedOps())
    bench.begin()
    save(bench, where, 1, full=True, verified=False)
    for seq, step in enumerate(steps, 2):
        if step == "retain":
            retain(bench, keep_last)
        else:
            save(bench, where, seq, full=step == "full", verified=step == "verified")
        assert whole(bench) >= 1

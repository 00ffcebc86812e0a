"""A job's whole life on real object stores: commit, verify, take over, fetch, go on, retain."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from backends.errors import DamagedError, ExistsError, FencedError
from backends.ids import CheckpointId
from backends.records.manifest import Manifest
from backends.store import layout
from backends.store.fetch import fetch
from backends.store.format.manifests import list_job
from backends.store.port import ObjectStore
from backends.store.probe import probe
from backends.store.retention import Policy, make_plan, run
from backends.store.takeover import Choice, choose, claim_next, settle
from backends.store.verify import verify_checkpoint
from tests.support.store import UID, Bench, make_save

pytestmark = pytest.mark.stores


def test_the_probe_finds_every_promise_kept(real: ObjectStore) -> None:
    rows = probe(real)
    assert [row["check"] for row in rows if not row["ok"]] == []
    assert {"create if absent", "sixteen at once", "read after write", "list after write"} <= {
        row["check"] for row in rows
    }
    assert real.list("probes/probe-") == []


def test_commit_take_over_fetch_and_retain(real: ObjectStore, tmp_path: Path) -> None:
    bench = Bench(store=real)
    bench.begin()
    content = {seq: os.urandom(300_000) for seq in (1, 2, 3)}
    for seq, data in content.items():
        done = bench.save(tmp_path, seq, content=data)
        assert str(done.checkpoint) == f"1.{seq}"
        assert done.warnings == ()
        bench.verified(done.checkpoint)
    assert bench.committer().next_seq() == 4

    record = bench.take_over()
    assert record.checkpoint == "1.3"
    with pytest.raises(FencedError, match="epoch 2 was claimed"):
        bench.save(tmp_path, 4)
    target = tmp_path / "restored"
    manifest = fetch(real, UID, CheckpointId(1, 3), bench.key, target)
    assert (target / "images" / "pages-1.img").read_bytes() == content[3]
    assert (target / "files" / "progress").read_bytes() == b"step 3\n"
    assert manifest.id == CheckpointId(1, 3)

    for seq in (1, 2):
        bench.save(tmp_path, seq, epoch=2)
        bench.verified(CheckpointId(2, seq))
    decided = make_plan(real, UID, bench.key, bench.fleet.verify_key, Policy(1, 0.0), bench.clock)
    run(real, decided, bench.clock)
    kept = list_job(real, UID).checkpoints
    assert CheckpointId(2, 2) in kept
    assert CheckpointId(1, 1) not in kept
    assert real.list(f"jobs/{UID}/packs/1.1/") == []
    verify_checkpoint(real, UID, CheckpointId(2, 2), bench.key, bench.clock)


def test_a_pack_of_full_size_and_a_damaged_one(real: ObjectStore, tmp_path: Path) -> None:
    bench = Bench(store=real)
    bench.begin()
    data = os.urandom(1 << 20) * 70  # more than a pack of 64 MiB
    done = bench.save(tmp_path, 1, content=data)
    assert len([entry for entry in done.manifest.packs if entry.name.startswith("packs/")]) >= 2
    target = tmp_path / "restored"
    fetch(real, UID, CheckpointId(1, 1), bench.key, target)
    assert (target / "images" / "pages-1.img").read_bytes() == data

    bench.save(tmp_path, 2, content=b"later" * 1000)
    name = layout.job(UID, "packs", "1.2", "0")
    sealed = bytearray(real.read(name))
    sealed[40] ^= 1
    real.replace(name, bytes(sealed))
    taker = bench.taker()
    settle(taker)
    claim = claim_next(taker, bench.proof())

    def verify(identity: CheckpointId) -> Manifest:
        return verify_checkpoint(real, UID, identity, bench.key, bench.clock).manifest

    choice: Choice = choose(taker, claim, bench.key, verify)
    assert choice.checkpoint == CheckpointId(1, 1)
    assert [identity for identity, _ in choice.skipped] == [CheckpointId(1, 2)]
    with pytest.raises(DamagedError):
        verify(CheckpointId(1, 2))


def test_of_two_takers_one_gets_the_epoch(real: ObjectStore) -> None:
    bench = Bench(store=real)
    bench.begin()
    barrier = threading.Barrier(4, timeout=30)
    outcomes: list[str] = []

    def take(name: str) -> None:
        taker = bench.taker(controller=name)
        settle(taker)
        barrier.wait()
        try:
            claim_next(taker, bench.proof())
            outcomes.append("won")
        except FencedError:
            outcomes.append("lost")

    threads = [threading.Thread(target=take, args=(f"console-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == ["lost", "lost", "lost", "won"]
    assert bench.taker().lineage().highest == 2


def test_another_save_under_the_same_name_is_told(real: ObjectStore, tmp_path: Path) -> None:
    bench = Bench(store=real)
    bench.begin()
    bench.save(tmp_path, 1, content=b"one" * 100)
    source = make_save(tmp_path / "again", {"pages-1.img": b"two" * 100})
    with pytest.raises(ExistsError, match="other content"):
        bench.committer().commit(1, source)

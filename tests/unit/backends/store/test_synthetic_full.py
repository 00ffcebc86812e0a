"""A synthetic full: the same content without the parent, made beside the save that stands, at any fault harmless."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.errors import DamagedError, ReprieveError
from backends.fakes.fileops import FailingOps, SimulatedOps
from backends.fakes.store import MemoryStore
from backends.ids import CheckpointId
from backends.records.manifest import Manifest
from backends.store import chain, full, layout
from backends.store.fetch import CheckpointReader, fetch
from backends.store.files import FileStore
from backends.store.format import source
from backends.store.format.manifests import list_job, load_manifest
from backends.store.format.table import promote_table
from backends.store.full import FIRST_NUMBER, make_full
from backends.store.retention import Policy, make_plan, run
from backends.store.verify import verify_by_parent, verify_checkpoint
from tests.support.memory import PAGE, Process, images, page, save_of
from tests.support.store import UID, Bench

A, B = 0x400000, 0x7F0000000000
ONE, TWO, THREE = (CheckpointId(1, seq) for seq in (1, 2, 3))


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    """Frames of eight pages; a full save is due after each incremental one."""
    with (
        patch.object(source, "FRAME_BYTES", 8 * PAGE),
        patch.object(full, "FRAME_BYTES", 8 * PAGE),
        patch.object(chain, "MAX_SAVES", 1),
    ):
        yield


def memory(seq: int) -> Process:
    """Twenty pages of which one changes from save to save, zeros among them, and a mapping that comes with the second."""
    pages = [page(n) for n in range(1, 21)]
    pages[3], pages[7] = page(1000 + seq), page(0)
    runs = {A: pages, B: [page(0)] * 3 + [page(50)]}
    return Process(7, runs if seq == 1 else {A - 2 * PAGE: [page(60 + seq)], **runs})


def begun(bench: Bench, where: Path, saves: int = 2) -> Bench:
    bench.begin()
    for seq in range(1, saves + 1):
        bench.committer().commit(seq, save_of(where / str(seq), [memory(seq)], {"log": b"line\n" * seq}))
    return bench


def full_of(bench: Bench, checkpoint: CheckpointId = TWO) -> Manifest | None:
    return make_full(bench.store, UID, checkpoint, bench.key, lambda: False)


def check(bench: Bench, seq: int) -> None:
    with TemporaryDirectory() as name:
        fetch(bench.store, UID, CheckpointId(1, seq), bench.key, Path(name))
        found = {path.name: path.read_bytes() for path in (Path(name) / "images").iterdir()}
    assert found == images([memory(seq)])


def test_it_restores_without_the_parent_and_is_the_next_ones_parent(tmp_path: Path) -> None:
    tables = SimulatedOps()
    bench = begun(Bench(tables=tables), tmp_path)
    before = load_manifest(bench.store, UID, TWO, bench.key)
    made = full_of(bench)
    assert made is not None
    assert (before.parent, made.parent, made.content) == ("1.1", None, before.content)
    assert list(made.keys) == ["1.2"]
    assert full_of(bench) == made
    promote_table(tables, UID)
    third = bench.committer().commit(3, save_of(tmp_path / "3", [memory(3)]))
    assert third.manifest.parent == "1.2"
    for info in (*list_job(bench.store, UID).data[ONE], *list_job(bench.store, UID).attested.get(ONE, ())):
        bench.store.delete(info.key)
    check(bench, 2)
    check(bench, 3)
    assert verify_checkpoint(bench.store, UID, TWO, bench.key, bench.clock).manifest == made


def test_retention_lets_the_parent_go_only_once_there_is_one(tmp_path: Path) -> None:
    bench = begun(Bench(tables=SimulatedOps()), tmp_path, saves=4)
    for seq in (2, 3, 4):
        bench.verified(CheckpointId(1, seq))

    def removed() -> tuple[CheckpointId, ...]:
        policy = Policy(1, 0.0)
        return make_plan(bench.store, UID, bench.key, bench.fleet.verify_key, policy, bench.clock).removed

    assert [load_manifest(bench.store, UID, i, bench.key).parent for i in list_job(bench.store, UID).checkpoints] == [
        None, "1.1", None, "1.3",
    ]  # fmt: skip
    assert removed() == (TWO, ONE)
    bench.store.delete(layout.checkpoint(UID, THREE))
    assert removed() == ()
    assert full_of(bench, TWO) is not None
    assert ONE in removed()


def test_frames_are_never_sealed_twice_under_one_number(tmp_path: Path) -> None:
    bench = begun(Bench(tables=SimulatedOps()), tmp_path)
    numbers: list[int] = []
    for _ in range(3):
        made = full_of(bench)
        assert made is not None
        reader = CheckpointReader(bench.store, UID, TWO, bench.key, made)
        assert all(frame.number < 1 << 63 for frame in reader.index.frames)
        numbers += [frame.number for frame in reader.index.frames if frame.number >= FIRST_NUMBER]
        bench.store.delete(layout.checkpoint(UID, TWO, layout.FULL))
    assert len(numbers) == len(set(numbers)) > 6


def test_a_stop_leaves_what_stood(tmp_path: Path) -> None:
    bench = begun(Bench(tables=SimulatedOps()), tmp_path)
    for after in range(40):
        left = [after]

        def stop(left: list[int] = left) -> bool:
            left[0] -= 1
            return left[0] < 0

        if make_full(bench.store, UID, TWO, bench.key, stop) is not None:
            assert after > 5
            break
        assert bench.store.info(layout.checkpoint(UID, TWO, layout.FULL)) is None
        check(bench, 2)
    else:
        raise AssertionError("it never came to an end")
    third = bench.committer().commit(3, save_of(tmp_path / "3", [memory(3)]))
    assert third.manifest.parent is None  # its table was not put in place in time
    check(bench, 3)


def test_one_that_is_damaged_or_of_other_content_is_not_used(tmp_path: Path) -> None:
    bench = begun(Bench(tables=SimulatedOps()), tmp_path)
    assert full_of(bench) is not None
    assert isinstance(bench.store, MemoryStore)
    name = layout.checkpoint(UID, TWO, layout.FULL)
    whole = bench.store.objects[name]
    for bad in (whole[0][:-1], b"", bench.store.read(layout.checkpoint(UID, TWO))):
        bench.store.objects[name] = (bad, 0.0)
        assert CheckpointReader(bench.store, UID, TWO, bench.key).manifest.parent == "1.1"
        with pytest.raises(DamagedError):
            full_of(bench)


def test_a_full_whose_packs_are_damaged_leaves_the_way_by_the_parent(tmp_path: Path) -> None:
    bench = begun(Bench(tables=SimulatedOps()), tmp_path)
    before = {info.key for info in bench.store.list(layout.job(UID, "packs", "1.2", ""))}
    assert full_of(bench) is not None
    assert isinstance(bench.store, MemoryStore)
    added = {info.key for info in bench.store.list(layout.job(UID, "packs", "1.2", ""))} - before
    whole = dict(bench.store.objects)
    for key in sorted(added):
        for harm in ("gone", "flipped"):
            bench.store.objects = dict(whole)
            if harm == "gone":
                del bench.store.objects[key]
            else:
                bench.store.flip(key, 20)
            with pytest.raises(DamagedError):
                verify_checkpoint(bench.store, UID, TWO, bench.key, bench.clock)
            report = verify_by_parent(bench.store, UID, TWO, bench.key, bench.clock)
            assert report is not None
            assert report.manifest.parent == "1.1"
            check(bench, 2)
    bench.store.flip(layout.job(UID, "packs", "1.1", "0"), 5000)  # neither way is whole
    with pytest.raises(DamagedError):
        fetch(bench.store, UID, TWO, bench.key, tmp_path / "nothing")


def test_no_fault_at_any_operation_harms_what_stands(tmp_path: Path) -> None:
    files = SimulatedOps()
    base = begun(Bench(FileStore(Path("/store"), files), tables=SimulatedOps()), tmp_path)
    counting = FailingOps(files.copy())
    make_full(FileStore(Path("/store"), counting), UID, TWO, base.key, lambda: False)
    counts = {"made": 0, "given up": 0}
    for at in range(1, len(counting.calls) + 1):
        inner = files.copy()
        kind = ("EIO", "ENOSPC", "timed_out_but_done")[at % 3]
        ops = FailingOps(inner, at, kind)  # type: ignore[arg-type]  # one of FAULTS
        try:
            make_full(FileStore(Path("/store"), ops), UID, TWO, base.key, lambda: False)
            counts["made"] += 1
        except ReprieveError:
            counts["given up"] += 1
        for after in (inner, *inner.survivals(2, seed=at)):
            found = Bench(FileStore(Path("/store"), after), base.key, base.fleet)
            for identity in (ONE, TWO):
                verify_checkpoint(found.store, UID, identity, base.key, base.clock)
            check(found, 2)
    assert counts["given up"] > 20, counts


@settings(max_examples=10, deadline=None)
@given(st.lists(st.lists(st.integers(0, 59), max_size=10), min_size=2, max_size=5), st.integers(0, 3))
def test_any_chain_of_saves_with_fulls_between_comes_back(changes: list[list[int]], zeros: int) -> None:
    with TemporaryDirectory() as name:
        tables = SimulatedOps()
        bench = Bench(tables=tables)
        bench.begin()
        pages = [page(0 if n % 4 < zeros else n) for n in range(60)]
        saved = []
        for seq, places in enumerate(changes, 1):
            for place in places:
                pages[place] = page(0 if place % 7 == 0 else 1000 * seq + place)
            saved.append(Process(7, {A: list(pages[:40]), B: list(pages[40:])}))
            identity = CheckpointId(1, seq)
            bench.committer().commit(seq, save_of(Path(name) / str(seq), [saved[-1]]))
            assert full_of(bench, identity) is not None
            promote_table(tables, UID)
            bench.verified(identity)
        run(
            bench.store,
            make_plan(bench.store, UID, bench.key, bench.fleet.verify_key, Policy(1, 0.0), bench.clock),
            bench.clock,
        )
        for seq in range(len(changes) - 1, len(changes) + 1):
            into = Path(name) / f"into{seq}"
            fetch(bench.store, UID, CheckpointId(1, seq), bench.key, into)
            assert (into / "images/pages-1.img").read_bytes() == saved[seq - 1].pages()

"""Saves that store only what changed: every one restores byte for byte, whatever the memory maps did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.errors import DamagedError, FullError
from backends.fakes.fileops import FailingOps, FaultKind, SimulatedOps
from backends.fakes.store import Fault, MemoryStore
from backends.ids import CheckpointId
from backends.store import layout
from backends.store.commit import Committed
from backends.store.fetch import CheckpointReader, fetch
from backends.store.fileops import RealOps
from backends.store.format import source
from backends.store.format.table import open_table
from backends.store.sealing import JobKey
from tests.support.memory import PAGE, Process, images, page, save_of
from tests.support.store import UID, Bench

A, B = 0x400000, 0x7F0000000000
TABLE = f"{UID}.table"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "tables").mkdir()
    found = Bench(tables=RealOps(tmp_path / "tables"))
    found.begin()
    return found


@pytest.fixture(autouse=True)
def _small_frames() -> Iterator[None]:
    """Frames of eight pages: streams of a few dozen pages then span several."""
    with patch.object(source, "FRAME_BYTES", 8 * PAGE):
        yield


def marks(first: int, count: int) -> list[bytes]:
    return [page(first + n) for n in range(count)]


def commit(bench: Bench, where: Path, seq: int, *processes: Process, epoch: int = 1) -> Committed:
    return bench.committer(epoch).commit(seq, save_of(where / f"save{epoch}.{seq}", list(processes)))


def stored_pages(bench: Bench, committed: Committed) -> int:
    """Pages that the save's own frames hold."""
    reader = CheckpointReader(bench.store, UID, committed.checkpoint, bench.key)
    own = f"packs/{committed.checkpoint}/"
    names = {
        frame for stream in reader.index.streams if stream.map for frame in {e.frame for e in stream.extents}
    }
    frames = [reader.index.frames[place] for place in names if place < len(reader.index.frames)]
    return sum(f.plain for f in frames if reader.index.packs[f.pack].name.startswith(own)) // PAGE


def check(bench: Bench, where: Path, seq: int, *processes: Process, epoch: int = 1) -> None:
    into = where / f"into{epoch}.{seq}"
    fetch(bench.store, UID, CheckpointId(epoch, seq), bench.key, into)
    found = {path.name: path.read_bytes() for path in (into / "images").iterdir()}
    assert found == images(list(processes))


def test_only_changed_pages_are_stored_and_zeros_are_not(bench: Bench, tmp_path: Path) -> None:
    old = Process(7, {A: marks(1, 20), B: [page(0)] * 5 + marks(100, 10)})
    first = commit(bench, tmp_path, 1, old)
    assert first.manifest.parent is None
    assert stored_pages(bench, first) == 30
    new = Process(7, {A: marks(1, 20), B: [page(0)] * 5 + marks(100, 10)})
    new.runs[A][3] = page(900)
    new.runs[A][4] = page(0)
    new.runs[B][0] = page(901)
    second = commit(bench, tmp_path, 2, new)
    assert second.manifest.parent == "1.1"
    assert stored_pages(bench, second) == 2
    check(bench, tmp_path, 1, old)
    check(bench, tmp_path, 2, new)


def test_inserted_removed_and_growing_mappings_shift_nothing(bench: Bench, tmp_path: Path) -> None:
    old = Process(7, {A: marks(1, 20), B: marks(100, 10)})
    commit(bench, tmp_path, 1, old)
    new = Process(7, {A - 3 * PAGE: marks(300, 1), A: marks(1, 24), B + 2 * PAGE: marks(102, 8)})
    second = commit(bench, tmp_path, 2, new)
    assert stored_pages(bench, second) == 1 + 4
    check(bench, tmp_path, 2, new)


def test_what_did_not_change_is_hashed_by_blocks(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process(7, {A + PAGE: marks(1, 40), B: [page(0)] * 16})
    commit(bench, tmp_path, 1, process)
    process.runs[A + PAGE][20] = page(999)
    counts = {PAGE: 0, 4 * PAGE: 0}
    real = JobKey.hashes

    def counting(self: JobKey, data: bytes, size: int, begin: int = 0, count: int = 1) -> list[bytes]:
        counts[size] += count if len(data) > size else 0  # not the hashes of zeros that are known beforehand
        return real(self, data, size, begin, count)

    monkeypatch.setattr(JobKey, "hashes", counting)
    second = commit(bench, tmp_path, 2, process)
    assert stored_pages(bench, second) == 1
    # The first three pages and the last one are no block; windows of eight pages cut every second block of the rest.
    assert counts[4 * PAGE] <= 14
    assert counts[PAGE] <= 4 + 4 * 5 + 4, counts
    check(bench, tmp_path, 2, process)


def test_a_process_that_comes_first_changes_the_numbers_only(bench: Bench, tmp_path: Path) -> None:
    old = Process(7, {A: marks(1, 20)})
    commit(bench, tmp_path, 1, old)
    second = commit(bench, tmp_path, 2, Process(5, {A: marks(50, 3)}), old)
    assert stored_pages(bench, second) == 3
    check(bench, tmp_path, 2, Process(5, {A: marks(50, 3)}), old)


def test_later_saves_refer_to_the_full_one_never_through_each_other(bench: Bench, tmp_path: Path) -> None:
    process = Process(7, {A: marks(1, 100)})
    commit(bench, tmp_path, 1, process)
    for seq in (2, 3, 4):
        process.runs[A][seq] = page(1000 + seq)
        done = commit(bench, tmp_path, seq, process)
        assert done.manifest.parent == "1.1"
        assert stored_pages(bench, done) == seq - 1
        check(bench, tmp_path, seq, process)


def test_drift_from_the_full_save_leads_to_a_new_one(bench: Bench, tmp_path: Path) -> None:
    process = Process(7, {A: marks(1, 40)})
    parents = []
    for seq in range(1, 16):
        for n in range(3):
            process.runs[A][(3 * seq + n) % 40] = page(1000 * seq + n)
        parents.append(commit(bench, tmp_path, seq, process).manifest.parent)
    fulls = [seq for seq, parent in enumerate(parents, 1) if parent is None]
    assert fulls[0] == 1
    assert 2 <= len(fulls) <= 4, parents
    check(bench, tmp_path, 15, process)


def test_a_save_where_everything_changed_is_full(bench: Bench, tmp_path: Path) -> None:
    commit(bench, tmp_path, 1, Process(7, {A: marks(1, 20)}))
    second = commit(bench, tmp_path, 2, Process(7, {A: marks(500, 20)}))
    assert second.manifest.parent is None
    third = commit(bench, tmp_path, 3, Process(7, {A: [*marks(500, 19), page(3)]}))
    assert third.manifest.parent == "1.2"
    check(bench, tmp_path, 3, Process(7, {A: [*marks(500, 19), page(3)]}))


def test_the_next_epoch_begins_with_a_full_save(bench: Bench, tmp_path: Path) -> None:
    process = Process(7, {A: marks(1, 20)})
    commit(bench, tmp_path, 1, process)
    bench.take_over("node-a", "guard-a")
    assert commit(bench, tmp_path, 1, process, epoch=2).manifest.parent is None
    assert commit(bench, tmp_path, 2, process, epoch=2).manifest.parent == "2.1"


def test_another_jobs_table_is_not_used(bench: Bench, tmp_path: Path) -> None:
    commit(bench, tmp_path, 1, Process(7, {A: marks(1, 20)}))
    other = Bench(tables=bench.tables)  # same uid, another key
    other.begin()
    assert commit(other, tmp_path, 1, Process(7, {A: marks(1, 20)})).manifest.parent is None


@pytest.mark.parametrize("damage", ["missing", "cut", "empty", "flipped", "older", "foreign"])
def test_a_table_that_cannot_be_trusted_means_a_full_save(damage: str, bench: Bench, tmp_path: Path) -> None:
    process = Process(7, {A: marks(1, 20)})
    commit(bench, tmp_path, 1, process)
    table = tmp_path / "tables" / TABLE
    before = table.read_bytes()
    if damage == "older":  # of a save that is neither the newest nor its parent
        process = Process(7, {A: marks(200, 20)})
        commit(bench, tmp_path, 2, process)
    changed = bytearray(before)
    changed[17] ^= 1
    table.write_bytes(
        {"cut": before[:-9], "empty": b"", "flipped": bytes(changed), "foreign": b"x" * 999}.get(
            damage, before
        )
    )
    if damage == "missing":
        table.unlink()
    process.runs[A][5] = page(77)
    done = commit(bench, tmp_path, 3, process)
    assert done.manifest.parent is None
    check(bench, tmp_path, 3, process)
    process.runs[A][6] = page(78)
    assert commit(bench, tmp_path, 4, process).manifest.parent == "1.3"


def test_every_flipped_bit_of_a_table_is_noticed(bench: Bench, tmp_path: Path) -> None:
    process = Process(7, {A: marks(1, 4)})
    commit(bench, tmp_path, 1, process)
    table = tmp_path / "tables" / TABLE
    before = table.read_bytes()
    for place in range(len(before)):
        changed = bytearray(before)
        changed[place] ^= 1 << (place % 8)
        table.write_bytes(bytes(changed))
        with open_table(RealOps(table.parent), UID, bench.key) as found:
            assert found is None, place
        assert not table.exists()
        table.write_bytes(before)
    with open_table(RealOps(table.parent), UID, bench.key) as found:
        assert found is not None


def test_a_parent_whose_pack_is_gone_means_a_full_save(bench: Bench, tmp_path: Path) -> None:
    process = Process(7, {A: marks(1, 20)})
    commit(bench, tmp_path, 1, process)
    bench.store.delete(layout.pack(UID, "packs", CheckpointId(1, 1), 0))
    assert commit(bench, tmp_path, 2, process).manifest.parent is None
    check(bench, tmp_path, 2, process)


def test_a_parent_that_vanishes_during_the_save_is_not_reported(bench: Bench, tmp_path: Path) -> None:
    process = Process(7, {A: marks(1, 20)})
    commit(bench, tmp_path, 1, process)
    process.runs[A][5] = page(77)
    gone = layout.pack(UID, "packs", CheckpointId(1, 1), 0)
    create = bench.store.create

    def creating(key: str, data: bytes | Iterable[bytes]) -> int:
        if key.endswith("manifest.json"):
            bench.store.delete(gone)
        return create(key, data)

    with (
        patch.object(bench.store, "create", creating),
        pytest.raises(DamagedError, match=r"packs/1\.1/0: missing"),
    ):
        commit(bench, tmp_path, 2, process)
    assert commit(bench, tmp_path, 3, process).manifest.parent is None


@pytest.mark.parametrize("kind", ["ENOSPC", "EIO"])
def test_a_disk_that_does_not_take_the_table_costs_the_table_only(kind: FaultKind, tmp_path: Path) -> None:
    process = Process(7, {A: marks(1, 20)})
    inner = SimulatedOps()
    counting = FailingOps(inner)
    bench = Bench(tables=counting)
    bench.begin()
    commit(bench, tmp_path, 1, process)
    commit(bench, tmp_path, 2, process)
    calls = len(counting.calls)
    assert calls > 8
    for at in range(1, calls + 1):
        found = Bench(tables=FailingOps(SimulatedOps(), at, kind, for_good=at % 2 == 0))
        found.begin()
        for seq in (1, 2, 3):
            process.runs[A][seq] = page(at * 100 + seq)
            try:
                commit(found, tmp_path / str(at), seq, process)
            except DamagedError:  # the table broke under the save: given up, not reported
                continue
            check(found, tmp_path / str(at), seq, process)


def test_a_failed_save_leaves_the_older_table(bench: Bench, tmp_path: Path) -> None:
    process = Process(7, {A: marks(1, 20)})
    commit(bench, tmp_path, 1, process)
    process.runs[A][5] = page(77)
    assert isinstance(bench.store, MemoryStore)
    bench.store.script.append(Fault("full", "create"))
    with pytest.raises(FullError):
        commit(bench, tmp_path, 2, process)
    assert commit(bench, tmp_path, 3, process).manifest.parent == "1.1"
    assert [path.name for path in (tmp_path / "tables").iterdir()] == [TABLE]


MAPS = st.dictionaries(
    st.sampled_from([A, A + 16 * PAGE, A + 40 * PAGE, B, B + 9 * PAGE]),
    st.lists(st.integers(0, 3).map(page), min_size=0, max_size=9),
    max_size=4,
)
WORLDS = st.dictionaries(st.sampled_from([5, 7, 9]), MAPS, max_size=3)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(WORLDS, min_size=2, max_size=5))
def test_arbitrary_sequences_of_memory_maps_come_back(
    worlds: list[dict[int, dict[int, list[bytes]]]],
) -> None:
    with TemporaryDirectory() as name:
        where = Path(name)
        bench = Bench(tables=SimulatedOps())
        bench.begin()
        saved = [[Process(pid, world[pid]) for pid in sorted(world)] for world in worlds]
        for seq, processes in enumerate(saved, 1):
            commit(bench, where, seq, *processes)
        for seq, processes in enumerate(saved, 1):
            check(bench, where, seq, *processes)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.integers(0, 99), max_size=12), min_size=2, max_size=6))
def test_a_second_save_stores_each_changed_page_once(changes: list[list[int]]) -> None:
    with TemporaryDirectory() as name:
        where = Path(name)
        bench = Bench(tables=SimulatedOps())
        bench.begin()
        process = Process(7, {A: marks(1, 100)})
        commit(bench, where, 1, process)
        changed: set[int] = set()
        for seq, pages in enumerate(changes, 2):
            for number in pages:
                process.runs[A][number] = page(1000 * seq + number)
            done = commit(bench, where, seq, process)
            changed |= set(pages)
            assert stored_pages(bench, done) == (len(changed) if done.manifest.parent else 100)
            if done.manifest.parent is None and changed:
                changed = set()
            check(bench, where, seq, process)

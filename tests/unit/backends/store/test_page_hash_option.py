"""`page_hash = "xxh3"`: another hash tells pages apart, under a secret seed; the stream's digest stays a strong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.errors import DamagedError
from backends.ids import CheckpointId
from backends.store.commit import Committed
from backends.store.fetch import fetch
from backends.store.fileops import RealOps
from backends.store.format.pagehash import PageHash
from backends.store.format.table import PageTable, open_table
from backends.store.full import make_full
from tests.support.memory import PAGE, Process, page, save_of
from tests.support.store import UID, Bench

A = 0x400000


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "tables").mkdir()
    found = Bench(tables=RealOps(tmp_path / "tables"), page_hash="xxh3")
    found.begin()
    return found


def commit(bench: Bench, where: Path, seq: int, marks: list[int]) -> Committed:
    process = Process(7, {A: [page(mark) for mark in marks]})
    done = bench.committer().commit(seq, save_of(where / f"save{seq}", [process]))
    fetch(bench.store, UID, done.checkpoint, bench.key, where / f"into{seq}")
    assert (where / f"into{seq}/images/pages-1.img").read_bytes() == process.pages()
    return done


def hash_of(bench: Bench) -> tuple[str, str]:
    assert bench.tables is not None
    with open_table(bench.tables, UID, bench.key) as table:
        assert isinstance(table, PageTable)
        return table.page_hash.name, table.page_hash.seed


def test_only_changed_pages_are_stored_and_the_manifest_says_how_they_were_told(
    bench: Bench, tmp_path: Path
) -> None:
    marks = [n % 5 for n in range(60)]
    first = commit(bench, tmp_path, 1, marks)
    marks[7] = 999
    second = commit(bench, tmp_path, 2, marks)
    assert second.manifest.parent == "1.1"
    assert second.manifest.notes["chain"]["first"] == 1
    assert first.manifest.notes == {"page_hash": "xxh3-128"}
    assert second.manifest.notes["page_hash"] == "xxh3-128"
    full = make_full(bench.store, UID, CheckpointId(1, 2), bench.key, lambda: False)
    assert full is not None
    assert full.notes == {"page_hash": "xxh3-128"}


def test_each_full_save_has_a_seed_of_its_own_that_only_the_node_knows(bench: Bench, tmp_path: Path) -> None:
    commit(bench, tmp_path, 1, [1, 2])
    name, seed = hash_of(bench)
    assert (name, len(seed)) == ("xxh3-128", 16)
    assert bench.tables is not None
    bench.tables.unlink(f"{UID}.table")
    manifest = commit(bench, tmp_path, 2, [1, 2]).manifest
    assert hash_of(bench)[1] != seed
    assert seed not in repr(manifest)


@pytest.mark.parametrize("options", [("xxh3", "blake3"), ("blake3", "xxh3")])
def test_another_option_begins_with_a_full_save(
    options: tuple[str, str], bench: Bench, tmp_path: Path
) -> None:
    for seq, option in enumerate(options, 1):
        bench.page_hash = "xxh3" if option == "xxh3" else "blake3"
        assert commit(bench, tmp_path, seq, [1, 2, 3]).manifest.parent is None
        assert hash_of(bench)[0].startswith(option)
    assert commit(bench, tmp_path, 3, [1, 2, 4]).manifest.parent == "1.2"


def test_a_page_taken_for_another_is_noticed_by_every_reader(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = PageHash.hashes

    def colliding(self: PageHash, data: bytes, size: int, begin: int = 0, count: int = 1) -> list[bytes]:
        """A page of 7s has the hash of a page of 2s."""
        return real(self, data.replace(page(7), page(2)), size, begin, count)

    commit(bench, tmp_path, 1, [1, 2, 3])
    monkeypatch.setattr(PageHash, "hashes", colliding)
    with pytest.raises(DamagedError, match="its digest differs"):
        commit(bench, tmp_path, 2, [1, 7, 4])


def test_xxh3_is_the_published_function() -> None:
    found = PageHash(Bench().key, "xxh3-128", "00" * 8).hashes(bytes(PAGE) + b"x" * PAGE, PAGE, 0, 2)
    assert len(set(found)) == 2
    empty = PageHash(Bench().key, "xxh3-128", "00" * 8).hashes(b"", 1, 0, 1)
    assert empty[0].hex() == "99aa06d3014798d86001c324468d497f"  # XXH3's own test vector: no bytes, seed 0

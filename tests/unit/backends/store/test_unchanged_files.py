"""Captured files: one whose content the parent holds is referred to, wherever it lies; any other is stored."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from backends.ids import CheckpointId
from backends.store.commit import Committed
from backends.store.fetch import CheckpointReader, fetch
from backends.store.fileops import RealOps
from backends.store.format import unchanged
from backends.store.full import make_full
from tests.support.memory import PAGE, Process, images, page
from tests.support.store import UID, Bench, make_save

SIZE = 300_000


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "tables").mkdir()
    found = Bench(tables=RealOps(tmp_path / "tables"))
    found.begin()
    return found


def noise(seed: int, size: int = SIZE) -> bytes:
    return random.Random(seed).randbytes(size)


def save(bench: Bench, where: Path, seq: int, files: dict[str, bytes], mark: int = 1) -> Committed:
    memory = [Process(7, {0x400000: [page(mark), page(2), page(3)]})]
    done = bench.committer().commit(seq, make_save(where / f"save{seq}", images(memory), files))
    into = where / f"into{seq}"
    fetch(bench.store, UID, done.checkpoint, bench.key, into)
    assert {path.name: path.read_bytes() for path in (into / "files").iterdir()} == files
    assert (into / "images/pages-1.img").read_bytes() == memory[0].pages()
    return done


def test_an_unchanged_file_is_not_stored_again(bench: Bench, tmp_path: Path) -> None:
    files = {"weights": noise(1), "log": b"l" * 100}
    save(bench, tmp_path, 1, files)
    second = save(bench, tmp_path, 2, files | {"log": b"l" * 200}, mark=9)
    assert second.manifest.parent == "1.1"
    assert second.stored_bytes < PAGE + 5000
    names = {pack.name.split("/")[0] for pack in second.manifest.packs}
    assert "files" in names  # the small one is stored again


def test_it_is_found_under_another_name_and_with_every_page_changed(bench: Bench, tmp_path: Path) -> None:
    save(bench, tmp_path, 1, {"0": noise(1), "1": noise(2)})
    second = save(bench, tmp_path, 2, {"0": noise(3), "1": noise(1), "2": noise(2)}, mark=9)
    assert SIZE < second.stored_bytes < SIZE + 20_000


@pytest.mark.parametrize("at", [0, SIZE // 2, SIZE - 1])
def test_one_changed_byte_means_that_it_is_stored(at: int, bench: Bench, tmp_path: Path) -> None:
    data = bytearray(noise(1))
    save(bench, tmp_path, 1, {"weights": bytes(data)})
    data[at] ^= 1
    second = save(bench, tmp_path, 2, {"weights": bytes(data)})
    assert second.stored_bytes > SIZE


def test_a_changed_file_is_mostly_known_by_its_sample(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(bench, tmp_path, 1, {"weights": noise(1)})
    monkeypatch.setattr(unchanged, "FRAME_BYTES", None)  # the second reading would fail
    assert save(bench, tmp_path, 2, {"weights": noise(2)}).stored_bytes > SIZE


def test_a_small_file_alone_makes_no_parent(bench: Bench, tmp_path: Path) -> None:
    files = {"small": noise(1, unchanged.REFER_BYTES - 1)}
    save(bench, tmp_path, 1, files)
    source = make_save(tmp_path / "save2", {"core.img": b"c"}, files)
    assert bench.committer().commit(2, source).manifest.parent is None


def test_a_file_that_changed_once_makes_a_full_save_due(bench: Bench, tmp_path: Path) -> None:
    save(bench, tmp_path, 1, {"a": noise(1), "b": noise(2)})
    save(bench, tmp_path, 2, {"a": noise(1), "b": noise(2)}, mark=9)
    third = save(bench, tmp_path, 3, {"a": noise(1), "b": noise(3)}, mark=9)
    assert third.manifest.notes["chain"]["excess"] >= SIZE // PAGE
    assert save(bench, tmp_path, 4, {"a": noise(1), "b": noise(3)}, mark=9).manifest.notes["full_due"]


def test_a_synthetic_full_holds_the_file_itself(bench: Bench, tmp_path: Path) -> None:
    files = {"weights": noise(1)}
    save(bench, tmp_path, 1, files)
    save(bench, tmp_path, 2, files, mark=9)
    two = CheckpointId(1, 2)
    full = make_full(bench.store, UID, two, bench.key, lambda: False)
    assert full is not None
    assert full.parent is None
    reader = CheckpointReader(bench.store, UID, two, bench.key, full)
    stream = next(stream for stream in reader.index.streams if stream.name == "weights")
    assert b"".join(reader.blocks(stream)) == files["weights"]
    assert all("/1.2/" in pack.name for pack in reader.index.packs)

"""What was fetched ahead is not fetched again, and is trusted no more than the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from backends.errors import DamagedError, UnreachableError
from backends.fakes.store import Fault, MemoryStore
from backends.ids import CheckpointId
from backends.store.ahead import AheadStore, fetch_ahead
from backends.store.fetch import fetch
from backends.store.fileops import RealOps
from backends.store.format import source
from tests.support.memory import PAGE, Process, page, save_of
from tests.support.store import UID, Bench

TWO, THREE = CheckpointId(1, 2), CheckpointId(1, 3)


@pytest.fixture(autouse=True)
def _small_frames() -> Iterator[None]:
    with patch.object(source, "FRAME_BYTES", 8 * PAGE):
        yield


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Three saves: a full one, and two with a page changed in each."""
    (tmp_path / "tables").mkdir()
    found = Bench(tables=RealOps(tmp_path / "tables"))
    found.begin()
    pages = [page(n) for n in range(200)]
    for number in (1, 2, 3):
        pages[number] = page(1000 + number)
        found.committer().commit(
            number, save_of(tmp_path / f"s{number}", [Process(1, {0x400000: list(pages)})])
        )
    return found


def test_only_what_changed_since_is_read_from_the_store(bench: Bench, tmp_path: Path) -> None:
    here = tmp_path / "ahead"
    copied = fetch_ahead(bench.store, UID, TWO, bench.key, here)
    assert copied > 100_000
    assert fetch_ahead(bench.store, UID, TWO, bench.key, here) == 0, "what lies there is left alone"
    assert {path.stat().st_mode & 0o777 for path in here.iterdir()} == {0o600}
    store = AheadStore(bench.store, here)
    fetch(store, UID, THREE, bench.key, tmp_path / "with")
    fetch(bench.store, UID, THREE, bench.key, tmp_path / "without")
    images = sorted(
        path.relative_to(tmp_path / "with") for path in (tmp_path / "with").rglob("*") if path.is_file()
    )
    assert images
    assert all(
        (tmp_path / "with" / p).read_bytes() == (tmp_path / "without" / p).read_bytes() for p in images
    )
    assert store.from_here > 10 * store.from_store
    assert store.from_store > 0


def test_nothing_ahead_is_the_store_alone(bench: Bench, tmp_path: Path) -> None:
    store = AheadStore(bench.store, None)
    fetch(store, UID, THREE, bench.key, tmp_path / "into")
    assert store.from_here == 0
    assert store.from_store > 0


def test_a_pack_that_was_altered_here_is_refused(bench: Bench, tmp_path: Path) -> None:
    here = tmp_path / "ahead"
    fetch_ahead(bench.store, UID, TWO, bench.key, here)
    largest = max(here.iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.write_bytes(bytes(data))
    with pytest.raises(DamagedError):
        fetch(AheadStore(bench.store, here), UID, THREE, bench.key, tmp_path / "into")


def test_a_pack_that_was_cut_short_here_is_read_from_the_store(bench: Bench, tmp_path: Path) -> None:
    here = tmp_path / "ahead"
    fetch_ahead(bench.store, UID, TWO, bench.key, here)
    for path in here.iterdir():
        path.write_bytes(path.read_bytes()[:100])
    store = AheadStore(bench.store, here)
    fetch(store, UID, THREE, bench.key, tmp_path / "into")
    assert store.from_store > store.from_here


def test_a_store_that_falls_silent_leaves_no_half_pack(bench: Bench, tmp_path: Path) -> None:
    assert isinstance(bench.store, MemoryStore)
    bench.store.script.append(Fault("silent", "read_range", at=3))
    with pytest.raises(UnreachableError):
        fetch_ahead(bench.store, UID, TWO, bench.key, tmp_path / "ahead")
    whole = [path for path in (tmp_path / "ahead").iterdir() if path.suffix != ".part"]
    packs = {info.key.replace("/", "_"): info.size for info in bench.store.list(f"jobs/{UID}/packs/")}
    assert all(path.stat().st_size == packs[path.name] for path in whole)
    assert fetch_ahead(bench.store, UID, TWO, bench.key, tmp_path / "ahead") > 0

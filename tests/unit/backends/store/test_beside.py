"""A second core: calls in order, errors where they are waited for, and saves whose parts go on at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.errors import DamagedError, StoreError
from backends.fakes.store import Fault, MemoryStore
from backends.ids import CheckpointId
from backends.records.manifest import PackEntry
from backends.store import beside, fetch, layout
from backends.store.beside import Beside, DigestBeside
from backends.store.fileops import RealOps, write_synced
from backends.store.format import packs, source
from backends.store.format.packs import check_pack
from backends.store.sealing import JobKey
from tests.support.memory import PAGE, Process, page, save_of
from tests.support.store import UID, Bench

KEY = JobKey(bytes(32))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of four pages, packs of three frames, and everything large enough for the second core."""
    monkeypatch.setattr(source, "FRAME_BYTES", 4 * PAGE)
    monkeypatch.setattr(fetch, "FRAME_BYTES", 4 * PAGE)
    monkeypatch.setattr(fetch, "GATHER_BYTES", 2 * PAGE)
    monkeypatch.setattr(packs, "PACK_BYTES", 12 * PAGE)
    monkeypatch.setattr(packs, "READ_BYTES", 2 * PAGE)
    monkeypatch.setattr(packs, "WORTH", 1)
    monkeypatch.setattr(beside, "WORTH", 1)


def process(marks: int = 80) -> Process:
    return Process(7, {0x400000: [page(1 + n % 61 if n % 7 else 0) for n in range(marks)]})


def test_calls_are_made_in_order_in_another_thread() -> None:
    made: list[tuple[int, str]] = []

    def note(number: int) -> int:
        made.append((number, threading.current_thread().name))
        return number

    with Beside("second") as second:
        tasks = [second.call(partial(note, n)) for n in range(50)]
        assert [task.wait() for task in tasks] == list(range(50))
    assert made == [(n, "second") for n in range(50)]


def test_an_error_is_raised_where_it_is_waited_for() -> None:
    def wrong() -> None:
        raise StoreError("not there")

    with Beside("second") as second:
        task = second.call(wrong)
        assert second.call(lambda: 7).wait() == 7
        with pytest.raises(StoreError, match="not there"):
            task.wait()


def test_without_a_thread_the_caller_makes_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with Beside("second") as second:
        assert second.call(threading.current_thread).wait() is threading.current_thread()


def test_the_end_drops_what_has_not_begun_and_waits_for_the_rest() -> None:
    begun, go_on, made = threading.Event(), threading.Event(), []

    def slow() -> None:
        begun.set()
        go_on.wait(5)
        made.append("slow")

    with Beside("second") as second:
        second.call(slow)
        second.call(lambda: made.append("never"))
        begun.wait(5)
        threading.Timer(0.05, go_on.set).start()
    assert made == ["slow"]
    assert second.ended


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=9), max_size=12), st.integers(1, 8))
def test_a_digest_beside_is_the_digest(pieces: list[bytes], worth: int) -> None:
    with pytest.MonkeyPatch.context() as patch, Beside("second") as second:
        patch.setattr(beside, "WORTH", worth)
        digest = DigestBeside(KEY.hasher(), second)
        for piece in pieces:
            digest.update(piece)
        assert digest.hexdigest() == KEY.digest(b"".join(pieces))


@pytest.mark.usefixtures("small")
def test_saves_of_many_packs_come_back(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    bench = Bench(tables=RealOps(tmp_path / "tables"))
    bench.begin()
    first, second = process(), process()
    second.runs[0x400000][5:60:3] = [page(900 + n) for n in range(5, 60, 3)]
    for seq, memory in enumerate((first, second), 1):
        done = bench.committer().commit(seq, save_of(tmp_path / f"save{seq}", [memory]))
        assert len(done.manifest.packs) > 1
        fetch.fetch(bench.store, UID, done.checkpoint, bench.key, tmp_path / f"into{seq}")
        assert (tmp_path / f"into{seq}/images/pages-1.img").read_bytes() == memory.pages()
    assert done.manifest.parent == "1.1"


@pytest.mark.usefixtures("small")
def test_a_pack_that_the_store_did_not_keep_is_found_before_there_is_a_manifest(tmp_path: Path) -> None:
    bench = Bench()
    bench.begin()
    assert isinstance(bench.store, MemoryStore)
    bench.store.script = [Fault("short", "read_range", "packs/1.1/1", times=0)]
    with pytest.raises(DamagedError, match=r"packs/1\.1/1: shorter than"):
        bench.committer().commit(1, save_of(tmp_path / "save", [process()]))
    assert bench.store.info(layout.checkpoint(UID, CheckpointId(1, 1))) is None


@pytest.mark.usefixtures("small")
def test_each_pack_is_read_back_once_and_looked_for_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = packs.check_pack

    def noting(store: object, uid: str, entry: PackEntry, *rest: object) -> None:
        read.append(entry.name)
        real(store, uid, entry, *rest)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(packs, "check_pack", noting)
    monkeypatch.setattr("backends.store.commit.check_pack", noting)
    bench = Bench()
    bench.begin()
    done = bench.committer().commit(1, save_of(tmp_path / "save", [process()]))
    assert sorted(read) == sorted(entry.name for entry in done.manifest.packs)


def test_a_read_back_that_nobody_waits_for_ends() -> None:
    bench = Bench()
    bench.begin()
    bench.store.create(layout.job(UID, "packs", "1.1", "0"), b"x" * 10)
    with pytest.raises(StoreError, match="given up"):
        check_pack(bench.store, UID, PackEntry("packs/1.1/0", 10, "0" * 64), bench.key, lambda: True)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("pack", [0, 1, 2])
def test_damage_in_a_frame_opened_ahead_is_raised(pack: int, tmp_path: Path) -> None:
    bench = Bench()
    bench.begin()
    bench.committer().commit(1, save_of(tmp_path / "save", [process()]))
    assert isinstance(bench.store, MemoryStore)
    found = bench.store.list(layout.job(UID, "packs", "1.1", ""))
    bench.store.flip(found[pack].key, 40)
    with pytest.raises(DamagedError, match=r"packs/1\.1/\d+: frame \d+ .*authentication failed"):
        fetch.fetch(bench.store, UID, CheckpointId(1, 1), bench.key, tmp_path / "into")


@given(st.lists(st.binary(max_size=7), max_size=20), st.integers(1, 9))
def test_small_pieces_are_put_together(pieces: list[bytes], enough: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch, "GATHER_BYTES", enough)
        found = list(fetch._gathered(iter(pieces)))
    assert b"".join(found) == b"".join(pieces)
    assert all(len(piece) >= enough for piece in found[:-1] if piece) or any(
        len(piece) >= enough for piece in pieces
    )


def test_the_disk_begins_before_the_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.store.fileops.HURRY", 100)
    calls: list[str] = []

    class Noting(RealOps):
        def forget(self, handle: int) -> None:
            calls.append("forget")
            super().forget(handle)

        def sync(self, handle: int) -> None:
            calls.append("sync")
            super().sync(handle)

    def parts() -> Iterator[bytes]:
        for _ in range(5):
            yield b"x" * 60

    assert write_synced(Noting(tmp_path), "file", parts()) == 300
    assert calls == ["forget", "forget", "sync"]
    assert (tmp_path / "file").read_bytes() == b"x" * 300

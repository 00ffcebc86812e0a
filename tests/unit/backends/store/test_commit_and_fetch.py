"""One save's way: commit, idempotent repeat, fence, recover, fetch."""

from __future__ import annotations

import random
import stat
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from backends.errors import DamagedError, ExistsError, FencedError, FullError, StoreError, UnreachableError
from backends.fakes.store import Fault, MemoryStore
from backends.ids import CheckpointId
from backends.store import layout
from backends.store.commit import Committed
from backends.store.fetch import CheckpointReader, fetch
from backends.store.files import FileStore
from backends.store.format import packs
from backends.store.lineage import read_lineage
from backends.store.sealing import JobKey
from backends.store.takeover import claim_next, settle
from tests.support.store import UID, Bench, make_save, pagemap_image

ONE = CheckpointId(1, 1)


@pytest.fixture
def bench() -> Bench:
    found = Bench()
    found.begin()
    return found


def memory(bench: Bench) -> MemoryStore:
    assert isinstance(bench.store, MemoryStore)
    return bench.store


def trees(into: Path) -> dict[str, bytes]:
    return {str(p.relative_to(into)): p.read_bytes() for p in sorted(into.rglob("*")) if p.is_file()}


def test_what_was_saved_comes_back_byte_for_byte(bench: Bench, tmp_path: Path) -> None:
    images = {
        "pages-1.img": random.Random(1).randbytes(9_500_000),
        "core-1.img": b"c",
        "empty.img": b"",
        "sub/x": b"y",
    }
    files = {"log": b"line\n" * 1000, "0001.copy": b""}
    source = make_save(tmp_path / "s", images, files)
    committed = bench.committer().commit(1, source)
    assert committed.checkpoint == ONE
    assert not committed.repeated
    assert committed.manifest.size_bytes == sum(map(len, (images | files).values()))
    seen: list[tuple[int, int]] = []
    manifest = fetch(
        bench.store, UID, ONE, bench.key, tmp_path / "into", lambda done, of: seen.append((done, of))
    )
    assert manifest == committed.manifest
    assert trees(tmp_path / "into" / "images") == images
    assert trees(tmp_path / "into" / "files") == files
    assert seen[0] == (0, manifest.size_bytes)
    assert seen[-1] == (manifest.size_bytes, manifest.size_bytes)
    assert [entry.mode for entry in manifest.files] == [0o640, 0o640]


def test_fetched_and_stored_files_are_private_from_the_start(tmp_path: Path) -> None:
    bench = Bench(store=FileStore(tmp_path / "store"))
    bench.begin()
    bench.save(tmp_path, 1)
    fetch(bench.store, UID, ONE, bench.key, tmp_path / "into")
    for top in (tmp_path / "store", tmp_path / "into"):
        for path in [top, *top.rglob("*")]:
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_nothing_readable_lies_in_the_store(bench: Bench, tmp_path: Path) -> None:
    secret = b"canary-7f3a91" * 10
    bench.save(tmp_path, 1, content=secret)
    for key, (content, _) in memory(bench).objects.items():
        assert b"canary" not in content, key
        assert bench.key.secret not in content
        assert bench.key.hex.encode() not in content


def test_a_save_spans_packs_and_memory_stays_small(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "PACK_BYTES", 8 << 20)
    store = FileStore(tmp_path / "store")
    bench = Bench(store=store, key=bench.key, fleet=bench.fleet)
    bench.begin()
    data = random.Random(2).randbytes(1 << 20) * 60
    source = make_save(tmp_path / "s", {"pages-1.img": data})
    del data
    tracemalloc.start()
    committed = bench.committer().commit(1, source)
    fetch(store, UID, ONE, bench.key, tmp_path / "into")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len([entry for entry in committed.manifest.packs if entry.size > 1 << 20]) == 8
    assert peak < 40 << 20
    assert (tmp_path / "into/images/pages-1.img").read_bytes() == (
        tmp_path / "s/images/pages-1.img"
    ).read_bytes()


def test_pages_are_labelled_by_map_and_address(bench: Bench, tmp_path: Path) -> None:
    runs = [(0x400000, 3, 4), (0x500000, 5, 1), (0x7F0000000000, 2000, 4 | 2), (0x7FFF00000000, 1, 4)]
    pages = random.Random(3).randbytes(2004 * 4096)
    source = make_save(
        tmp_path / "s",
        {"pagemap-17.img": pagemap_image(1, runs), "pages-1.img": pages, "pages-2.img": b"x" * 4096,
         "pagemap-shmem-5.img": b"not one"},
    )  # fmt: skip
    bench.committer().commit(1, source)
    index = CheckpointReader(bench.store, UID, ONE, bench.key).index
    stream = next(s for s in index.streams if s.name == "pages-1.img")
    assert (stream.map, stream.page_size) == ("pagemap-17.img", 4096)
    assert stream.extents[0][:3] == (0, 3 * 4096, 0x400000)
    assert stream.extents[1][:3] == (3 * 4096, 1021 * 4096, 0x7F0000000000)
    assert stream.extents[2][:3] == (1024 * 4096, 979 * 4096, 0x7F0000000000 + 1021 * 4096)
    assert stream.extents[-1][:3] == (2003 * 4096, 4096, 0x7FFF00000000)
    assert next(s for s in index.streams if s.name == "pages-2.img").map is None
    fetch(bench.store, UID, ONE, bench.key, tmp_path / "into")
    assert (tmp_path / "into/images/pages-1.img").read_bytes() == pages


def test_a_pagemap_that_does_not_fit_falls_back_to_plain_extents(bench: Bench, tmp_path: Path) -> None:
    images = {"pagemap-1.img": pagemap_image(1, [(0x1000, 3, 4)]), "pages-1.img": b"x" * 5000}
    bench.committer().commit(1, make_save(tmp_path / "s", images))
    stream = CheckpointReader(bench.store, UID, ONE, bench.key).index.streams[1]
    assert (stream.name, stream.map, stream.page_size) == ("pages-1.img", None, 0)


def test_the_same_content_again_is_no_error_and_writes_nothing(bench: Bench, tmp_path: Path) -> None:
    source = make_save(tmp_path / "s", {"a": b"1" * 100}, {"f": b"2"})
    first = bench.committer().commit(1, source)
    before = dict(memory(bench).objects)
    again = bench.committer().commit(1, source)
    assert again.repeated
    assert again.manifest == first.manifest
    assert memory(bench).objects.keys() == before.keys()


def test_other_content_needs_the_next_seq(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1, content=b"one")
    with pytest.raises(ExistsError, match=r"1\.1 .* other content"):
        bench.save(tmp_path, 1, content=b"two")
    assert bench.committer().next_seq() == 2
    assert bench.save(tmp_path, 2, content=b"two").checkpoint == CheckpointId(1, 2)


def test_leftovers_of_a_failed_attempt_burn_their_seq_but_do_not_block_it(
    bench: Bench, tmp_path: Path
) -> None:
    memory(bench).script = [Fault("full", "create", "manifest.json")]
    with pytest.raises(FullError):
        bench.save(tmp_path, 1)
    assert bench.committer().next_seq() == 2
    assert bench.save(tmp_path, 1).checkpoint == ONE
    fetch(bench.store, UID, ONE, bench.key, tmp_path / "into")


@pytest.mark.parametrize("key", ["manifest.json", "packs/1.2/0", "packs/1.2/1", "files/1.2/0"])
@pytest.mark.parametrize("kind", ["full", "silent"])
def test_a_failed_write_keeps_the_older_save(bench: Bench, tmp_path: Path, key: str, kind: str) -> None:
    bench.save(tmp_path, 1)
    memory(bench).script = [Fault("full" if kind == "full" else "silent", "create", key, times=0)]
    with pytest.raises((FullError, UnreachableError)):
        bench.save(tmp_path, 2)
    memory(bench).script = []
    assert bench.committer().recover(0) is not None
    fetch(bench.store, UID, ONE, bench.key, tmp_path / "into")


def test_a_manifest_that_timed_out_but_got_there_counts(bench: Bench, tmp_path: Path) -> None:
    memory(bench).script = [Fault("silent_but_done", "create", "manifest.json")]
    assert bench.save(tmp_path, 1).checkpoint == ONE


def test_read_back_finds_what_the_store_did_not_keep(bench: Bench, tmp_path: Path) -> None:
    for operation, key in (("read_range", "packs/"), ("read", "checkpoints/")):
        memory(bench).script = [Fault("short", operation, key, times=0)]
        with pytest.raises(DamagedError):
            bench.save(tmp_path, bench.committer().next_seq())
        memory(bench).script = []


def test_read_back_looks_at_every_pack(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = MemoryStore.create

    def damaging(store: MemoryStore, key: str, data: object) -> int:
        size = real(store, key, data)  # type: ignore[arg-type]  # passed on
        if key.endswith("files/1.1/0"):
            store.flip(key, size - 1)
        return size

    monkeypatch.setattr(MemoryStore, "create", damaging)
    with pytest.raises(DamagedError, match=r"files/1\.1/0"):
        bench.save(tmp_path, 1)


def test_the_hint_may_fail(bench: Bench, tmp_path: Path) -> None:
    memory(bench).script = [Fault("full", "replace", "latest")]
    committed = bench.save(tmp_path, 1)
    assert any("latest" in warning for warning in committed.warnings)


def test_a_newer_epoch_fences_before_and_after_the_manifest(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1)
    real = MemoryStore.create
    store = memory(bench)

    def racing(key: str, data: object) -> int:
        size = real(store, key, data)  # type: ignore[arg-type]  # passed on
        if key.endswith("1.2/manifest.json"):
            store.create = lambda key, data: real(store, key, data)  # type: ignore[method-assign]  # undone for the taker
            bench.take_over()
        return size

    store.create = racing  # type: ignore[method-assign]  # the takeover falls between manifest and look
    with pytest.raises(FencedError, match="epoch 2 was claimed"):
        bench.save(tmp_path, 2)
    calls = len(store.calls)
    with pytest.raises(FencedError):
        bench.save(tmp_path, 3)
    assert not any(op == "create" for op, _ in store.calls[calls:])
    with pytest.raises(FencedError):
        bench.committer().recover(0)


@pytest.mark.parametrize(
    ("goes_on_from", "told"),
    [("1.2", "checkpoint 1.2 counts all the same"), ("1.1", "checkpoint 1.2 does not count"), (None, "for that epoch to say")],
)  # fmt: skip
def test_an_overtaken_save_is_told_what_became_of_it(
    bench: Bench, tmp_path: Path, goes_on_from: str | None, told: str
) -> None:
    """The takeover that falls between the manifest and the look may go on from this very save."""
    bench.save(tmp_path, 1)
    real = MemoryStore.create
    store = memory(bench)

    def racing(key: str, data: object) -> int:
        ours = key.endswith("1.2/manifest.json")
        if ours and goes_on_from == "1.1":
            overtaken()
        size = real(store, key, data)  # type: ignore[arg-type]  # passed on
        if ours and goes_on_from != "1.1":
            overtaken()
        return size

    def overtaken() -> None:
        store.create = lambda key, data: real(store, key, data)  # type: ignore[method-assign]  # undone for the taker
        if goes_on_from is None:
            taker = bench.taker()
            settle(taker)
            claim_next(taker, bench.proof())
        else:
            assert bench.take_over().checkpoint == goes_on_from

    store.create = racing  # type: ignore[method-assign]  # the takeover falls beside the manifest
    with pytest.raises(FencedError, match=told):
        bench.save(tmp_path, 2)


def test_the_fate_of_a_save_needs_no_older_epochs(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1)
    bench.take_over()
    bench.save(tmp_path, 1, epoch=2)
    bench.take_over("node-c", "guard-c")
    found = read_lineage(bench.store, UID, bench.fleet.verify_key, since=2)
    assert found.fate(CheckpointId(2, 1)) == "counts"
    assert found.fate(CheckpointId(2, 2)) == "orphan"
    assert found.fate(CheckpointId(3, 1)) == "open"


def test_a_planted_claim_freezes_nothing_and_is_reported(bench: Bench, tmp_path: Path) -> None:
    other = Bench(store=MemoryStore())
    other.begin()
    memory(bench).create(layout.claim(UID, 2), other.store.read(layout.claim(UID, 1)))
    committed = bench.save(tmp_path, 1)
    assert any("epochs/2" in warning for warning in committed.warnings)


def test_recover_reports_the_newest_that_counts(bench: Bench, tmp_path: Path) -> None:
    for seq in (1, 2, 3):
        bench.save(tmp_path, seq)
    pack = layout.pack(UID, "packs", CheckpointId(1, 3), 0)
    memory(bench).flip(pack, 60)
    found = bench.committer().recover(1)
    assert isinstance(found, Committed)
    assert found.checkpoint == CheckpointId(1, 2)
    assert bench.committer().recover(2) is None


def test_a_link_or_changed_copy_gives_the_save_up(bench: Bench, tmp_path: Path) -> None:
    source = make_save(tmp_path / "s", {"a": b"1"}, {"f": b"22"})
    (tmp_path / "s/images/parent").symlink_to("/etc")
    with pytest.raises(StoreError, match="link"):
        bench.committer().commit(1, source)
    (tmp_path / "s/images/parent").unlink()
    with pytest.raises(StoreError, match="holds 2 bytes, 3 were captured"):
        bench.committer().commit(1, replace(source, files=(replace(source.files[0], size=3),)))
    with pytest.raises(StoreError, match="given up"):
        bench.committer().commit(1, replace(source, details={"x": float("nan")}))
    with pytest.raises(StoreError, match="given up"):
        bench.committer().commit(1, replace(source, directory=tmp_path / "none"))


def test_details_keep_their_json_form(bench: Bench, tmp_path: Path) -> None:
    source = replace(
        make_save(tmp_path / "s", {"a": b"1"}), details={"pids": (1, 2), "deep": {"x": [None, 1.5]}}
    )
    bench.committer().commit(1, source)
    manifest = fetch(bench.store, UID, ONE, bench.key, tmp_path / "into")
    assert manifest.details == {"pids": [1, 2], "deep": {"x": [None, 1.5]}}


def test_another_jobs_key_opens_nothing(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1)
    with pytest.raises(DamagedError, match="authentication failed"):
        fetch(bench.store, UID, ONE, JobKey.new(), tmp_path / "into")
    assert not (tmp_path / "into").exists()


def test_fetch_wants_an_empty_directory(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1)
    (tmp_path / "into/images").mkdir(parents=True)
    with pytest.raises(StoreError, match="exists already"):
        fetch(bench.store, UID, ONE, bench.key, tmp_path / "into")


def test_every_flipped_byte_class_is_noticed_naming_the_object(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1)
    store = memory(bench)
    for key in [k for k in store.objects if "/packs/" in k or "/files/" in k or k.endswith("manifest.json")]:
        size = len(store.objects[key][0])
        for offset in {0, 1, size // 2, size - 1}:
            store.flip(key, offset)
            with pytest.raises(DamagedError) as caught:
                fetch(store, UID, ONE, bench.key, tmp_path / f"into{offset}{key.replace('/', '_')}")
            assert "1.1" in caught.value.message
            store.flip(key, offset)
    fetch(store, UID, ONE, bench.key, tmp_path / "into")


def test_frames_and_packs_cannot_be_exchanged(bench: Bench, tmp_path: Path) -> None:
    bench.save(tmp_path, 1, content=b"a" * 500)
    bench.save(tmp_path, 2, content=b"b" * 500)
    store = memory(bench)
    one, two = (layout.pack(UID, "packs", CheckpointId(1, seq), 0) for seq in (1, 2))
    store.objects[one], store.objects[two] = store.objects[two], store.objects[one]
    for seq in (1, 2):
        with pytest.raises(DamagedError, match="authentication failed"):
            fetch(store, UID, CheckpointId(1, seq), bench.key, tmp_path / f"into{seq}")


def test_an_empty_place_is_not_the_store(bench: Bench, tmp_path: Path) -> None:
    empty = Bench(store=MemoryStore("unmounted"), key=bench.key, fleet=bench.fleet)
    with pytest.raises(StoreError, match="does not hold epoch 1"):
        empty.save(tmp_path, 1)
    assert memory(empty).objects == {}

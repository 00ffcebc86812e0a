"""Format 1 as later versions will write it: parents, pages of zeros, page hashes. Today's reader reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.errors import DamagedError
from backends.ids import CheckpointId
from backends.records.manifest import IndexFrame, Manifest, Timings
from backends.store import layout
from backends.store.fetch import CheckpointReader, fetch
from backends.store.format.extents import ZERO, Extent
from backends.store.format.index import Frame, Index, PackRef, Stream, encode_index
from backends.store.format.manifests import seal_manifest
from backends.store.format.packs import PackWriter
from backends.store.sealing import DataKey
from tests.support.store import UID, Bench

PAGE = 4096
ONE, TWO = CheckpointId(1, 1), CheckpointId(1, 2)


def incremental(bench: Bench, directory: Path) -> tuple[bytes, Manifest]:
    """1.1 is a full save of four pages; 1.2 changes one, one is zeros, two lie in the parent's pack."""
    old = b"".join(bytes((65 + n,)) * PAGE for n in range(4))
    bench.save(directory, 1, content=old)
    parent = CheckpointReader(bench.store, UID, ONE, bench.key)
    before = next(s for s in parent.index.streams if s.name == "pages-1.img")
    parent_frame = parent.index.frames[before.extents[0].frame]
    parent_pack = parent.index.packs[parent_frame.pack]
    key = DataKey.new(UID, TWO)
    writer = PackWriter(bench.store, bench.key, key, {"packs": 0, "files": 0})
    writer.write("packs", iter([b"x" * PAGE]))
    new = old[:PAGE] + b"x" * PAGE + bytes(PAGE) + old[3 * PAGE :] + bytes(2 * PAGE)
    stream = Stream(
        "images", "pages-1.img", len(new), bench.key.digest(new),
        (
            Extent(0, PAGE, 0x400000, 1, 0),
            Extent(PAGE, 2 * PAGE, 0x401000, 0, 0),
            Extent(3 * PAGE, PAGE, 0x403000, 1, 3 * PAGE),
            Extent(4 * PAGE, 2 * PAGE, 0x900000, ZERO, 0),
        ),
        "pagemap-1.img", PAGE, bytes((0b000100,)), "blake3-128", bytes(16 * 6),
    )  # fmt: skip
    refs = (PackRef(writer.packs[0].name, writer.packs[0].size), parent_pack)
    frames = (
        writer.frames[0],
        Frame(1, parent_frame.offset, parent_frame.length, parent_frame.number, parent_frame.plain),
    )
    encoded = b"".join(encode_index(Index(UID, TWO, refs, frames, (stream,))))
    writer.write("packs", iter([encoded]))
    last = writer.frames[-1]
    manifest = Manifest(
        1, UID, 1, 2, "n", "1.1", "criu", {}, {}, {}, (), {}, (), len(new), 0, "0" * 64, tuple(writer.packs),
        (IndexFrame(writer.packs[1].name, last.offset, last.length, last.number, last.plain),),
        bench.key.digest(encoded),
        {"1.1": parent.manifest.keys["1.1"], "1.2": bench.key.wrap(key)},
        Timings("2027-01-15T08:00:00.000Z", 0.1, 0.1, 0.1, 0.5),
    )  # fmt: skip
    bench.store.create(layout.checkpoint(UID, TWO), seal_manifest(manifest, bench.key))
    return new, manifest


def test_an_incremental_save_is_read_without_walking_parents(tmp_path: Path) -> None:
    bench = Bench()
    bench.begin()
    new, manifest = incremental(bench, tmp_path)
    bench.store.delete(layout.checkpoint(UID, ONE))
    assert fetch(bench.store, UID, TWO, bench.key, tmp_path / "into") == manifest
    assert (tmp_path / "into/images/pages-1.img").read_bytes() == new


def test_a_missing_pack_of_the_parent_is_damage(tmp_path: Path) -> None:
    bench = Bench()
    bench.begin()
    incremental(bench, tmp_path)
    bench.store.delete(layout.pack(UID, "packs", ONE, 0))
    with pytest.raises(DamagedError, match=r"packs/1\.1/0: missing"):
        fetch(bench.store, UID, TWO, bench.key, tmp_path / "into")

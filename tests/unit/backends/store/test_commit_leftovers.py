"""What an earlier attempt left under a save's own name: made durable before it counts, never taken for another's."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from backends.errors import DamagedError, ExistsError, UnreachableError
from backends.fakes.fileops import Crashed, FailingOps, SimulatedOps
from backends.fakes.store import MemoryStore
from backends.ids import CheckpointId
from backends.store import layout
from backends.store.files import FileStore
from backends.store.format.manifests import list_job
from backends.store.sealing import JobKey
from tests.support.store import UID, Bench

ONE = CheckpointId(1, 1)
MANIFEST = layout.checkpoint(UID, ONE)


def on_disk(ops: FailingOps | SimulatedOps) -> FileStore:
    return FileStore(Path("/store"), ops)


def killed_at_the_manifests_name(tmp_path: Path) -> tuple[Bench, SimulatedOps]:
    """A guard died between the manifest's name and its sync: the name is seen, a power cut may take it."""
    inner = SimulatedOps()
    bench = Bench(store=on_disk(inner))
    bench.begin()
    counted = FailingOps(inner.copy())
    bench.store = on_disk(counted)
    bench.save(tmp_path / "counted", 1)
    links = [number for number, call in enumerate(counted.calls, 1) if call.startswith("link ")]
    (place,) = [number for number in links if MANIFEST in counted.calls[number - 1]]
    bench.store = on_disk(FailingOps(inner, place, "crash_after"))
    with pytest.raises(Crashed):
        bench.save(tmp_path / "killed", 1)
    assert any(ONE not in found(bench, after) for after in inner.survivals(64, seed=1)), "nothing is at stake"
    bench.store = on_disk(inner)
    return bench, inner


def found(bench: Bench, files: SimulatedOps) -> list[CheckpointId]:
    return list_job(on_disk(files), bench.uid).checkpoints


def test_what_a_restarted_guard_reports_outlives_a_power_cut(tmp_path: Path) -> None:
    bench, files = killed_at_the_manifests_name(tmp_path)
    recovered = bench.committer().recover(0)
    assert recovered is not None
    assert recovered.checkpoint == ONE
    assert all(ONE in found(bench, after) for after in files.survivals(64, seed=1))


class OthersFirst(MemoryStore):
    """The first write of the manifest goes astray, and what lies there afterwards are another's bytes."""

    others = b"another's bytes"

    def create(self, key: str, data: bytes | Iterable[bytes]) -> int:
        if key == MANIFEST and key not in self.objects:
            super().create(key, self.others)
            raise UnreachableError("no answer")
        return super().create(key, data)


def test_other_bytes_under_the_manifests_name_are_no_success(tmp_path: Path) -> None:
    bench = Bench(store=OthersFirst())
    bench.begin()
    with pytest.raises(ExistsError, match=r"another save took this seq; commit under the next one"):
        bench.save(tmp_path, 1)
    assert bench.store.read(MANIFEST) == OthersFirst.others, "what lies there stays"
    assert bench.save(tmp_path, bench.committer().next_seq()).checkpoint == CheckpointId(1, 2)


@pytest.mark.parametrize("leftover", ["cut short", "another job's key"])
def test_a_leftover_that_does_not_open_is_neither_reported_nor_overwritten(
    leftover: str, tmp_path: Path
) -> None:
    bench = Bench()
    bench.begin()
    whole = Bench(key=bench.key if leftover == "cut short" else JobKey.new(), fleet=bench.fleet)
    whole.begin()
    whole.save(tmp_path / "other", 1)
    data = whole.store.read(MANIFEST)
    data = data[:-9] if leftover == "cut short" else data
    bench.store.create(MANIFEST, data)
    assert bench.committer().recover(0) is None
    with pytest.raises(DamagedError):
        bench.save(tmp_path, 1)
    assert bench.store.read(MANIFEST) == data
    assert bench.save(tmp_path, bench.committer().next_seq()).checkpoint == CheckpointId(1, 2)

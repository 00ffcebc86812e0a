"""Manifests: strict reading; verification by another party and its records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backends.errors import DamagedError, NotFoundError, UsageError
from backends.fakes.store import Fault, MemoryStore
from backends.ids import CheckpointId
from backends.records.lineage import Claim
from backends.records.manifest import FileEntry, Manifest, Timings, check_distinct, check_stream_name
from backends.records.strict import canonical, loads, to_document
from backends.store import layout
from backends.store.fleetkey import FleetKey, open_record
from backends.store.format.manifests import NewerFormatError, open_manifest, seal_manifest
from backends.store.sealing import JobKey
from backends.store.verify import attest, read_attestation, verify_checkpoint
from tests.support.store import UID, Bench

ONE = CheckpointId(1, 1)
KEY = JobKey(bytes(32))
D = "0" * 64
MANIFEST = Manifest(
    1, UID, 1, 1, "n", None, "criu", {"criu": "4.2"}, {}, {"arch": "x86_64"}, ({"pid": 7},), {},
    (FileEntry("/data/log", 3, 0o644, 0, 0, "log", "open", D),), 5, 3, D, (), (), D, {"1.1": "00"},
    Timings("2027-01-15T08:00:00.000Z", 0.1, 1.0, 2.0, None),
)  # fmt: skip


def memory(bench: Bench) -> MemoryStore:
    assert isinstance(bench.store, MemoryStore)
    return bench.store


def test_a_manifest_opens_only_as_it_was_sealed() -> None:
    data = seal_manifest(MANIFEST, KEY)
    assert open_manifest(data, UID, ONE, KEY) == MANIFEST
    assert canonical(loads(data, what="m")) == data
    for place in range(len(data)):
        damaged = data[:place] + bytes((data[place] ^ 1,)) + data[place + 1 :]
        with pytest.raises((DamagedError, NewerFormatError)):
            open_manifest(damaged, UID, ONE, KEY)
        with pytest.raises(DamagedError):
            open_manifest(data[:place], UID, ONE, KEY)
    with pytest.raises(DamagedError, match="canonical"):
        open_manifest(data.replace(b",", b", "), UID, ONE, KEY)
    for uid, identity in ((UID[::-1], ONE), (UID, CheckpointId(1, 2))):
        with pytest.raises(DamagedError, match="it says"):
            open_manifest(data, uid, identity, KEY)


def authentic(**changes: Any) -> bytes:
    document = to_document(MANIFEST) | changes
    document = {name: value for name, value in document.items() if value != "absent"}
    return canonical(document | {"mac": KEY.mac(canonical(document))})


@pytest.mark.parametrize(
    "changes",
    [{"format": "1"}, {"format": "absent"}, {"format": 0}, {"format": True}, {"epoch": 0}, {"seq": -1}, {"seq": "1"},
     {"unknown": 1}, {"job_uid": "x"}, {"parent": "1.1"}, {"parent": "x"}, {"keys": {}}, {"keys": {"1.1": "", "1.0": ""}},
     {"content": "x"}, {"packs": [{"name": "packs/1.2/0", "size": 1, "digest": D}]},
     {"packs": [{"name": "../x", "size": 1, "digest": D}]}, {"timings": None}, {"files": "absent"}],
)  # fmt: skip
def test_an_authentic_manifest_that_makes_no_sense_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(DamagedError):
        open_manifest(authentic(**changes), UID, ONE, KEY)


def test_fields_for_later_are_ignored_and_authenticated() -> None:
    assert open_manifest(authentic(x_note="unknown optional field"), UID, ONE, KEY) == MANIFEST
    assert open_manifest(authentic(notes={"full": 1}), UID, ONE, KEY).notes == {"full": 1}


def test_a_newer_format_is_said_to_be_one() -> None:
    with pytest.raises(NewerFormatError, match="format 2, this version reads 1; it is kept"):
        open_manifest(authentic(format=2, whatever={}), UID, ONE, KEY)


@given(st.binary(max_size=200))
@example(b'{"format":1,"mac":"\\ud800"}')
@example(b'{"format":1,"\\udfff":0,"mac":""}')
def test_arbitrary_bytes_are_damage(data: bytes) -> None:
    with pytest.raises(DamagedError):
        open_record(Claim, data, FleetKey(bytes(32)).verify_key, what="r")
    with pytest.raises(DamagedError):
        open_manifest(data, UID, ONE, KEY)


@given(st.text(max_size=40))
@settings(max_examples=300)
def test_stream_names_stay_inside(name: str) -> None:
    try:
        check_stream_name(name)
    except ValueError:
        return
    joined = Path("/root/into") / name
    assert ".." not in joined.parts
    assert str(joined).startswith("/root/into/")
    assert "\0" not in name
    assert "\\" not in name


def test_names_that_collide_are_refused() -> None:
    check_distinct(["a", "b/a", "b/c"])
    for names in (["a", "a"], ["a", "A"], ["a", "a/b"], ["a/b/c", "a/B"]):
        with pytest.raises(ValueError, match="name"):
            check_distinct(names)


def test_full_and_sampled_verification(tmp_path: Path) -> None:
    bench = Bench()
    bench.begin()
    bench.save(tmp_path, 1)
    full = verify_checkpoint(bench.store, UID, ONE, bench.key, bench.clock)
    assert (full.how, full.plain_bytes) == ("full", full.manifest.size_bytes)
    part = verify_checkpoint(bench.store, UID, ONE, bench.key, bench.clock, sample=0.5, seed=3)
    assert part.how == "sample 0.50"
    assert 0 < part.frames < full.frames
    writes = [call for call in memory(bench).calls if call[0] in ("create", "replace", "delete")]
    again = [call for call in memory(bench).calls if call[0] in ("create", "replace", "delete")]
    assert writes == again
    for sample in (0.0, 1.5, float("nan")):
        with pytest.raises(UsageError):
            verify_checkpoint(bench.store, UID, ONE, bench.key, bench.clock, sample=sample)
    with pytest.raises(NotFoundError):
        verify_checkpoint(bench.store, UID, CheckpointId(1, 2), bench.key, bench.clock)
    pack = layout.pack(UID, "files", ONE, 0)
    memory(bench).cut(pack, 10)
    with pytest.raises(DamagedError, match=r"files/1\.1/0: 10 bytes"):
        verify_checkpoint(bench.store, UID, ONE, bench.key, bench.clock, sample=0.01)


def test_attestations_are_written_once_and_believed_only_when_signed(tmp_path: Path) -> None:
    bench = Bench()
    bench.begin()
    bench.save(tmp_path, 1)
    key = bench.fleet.verify_key

    def sign(fleet: FleetKey, by: str) -> str:
        return attest(
            bench.store, UID, ONE, "verified", fleet, bench.clock, by=by, how="full", seconds=1.0
        ).by

    assert read_attestation(bench.store, UID, ONE, "verified", key) is None
    memory(bench).script = [Fault("silent_but_done", "create", "verified")]
    assert sign(bench.fleet, "first") == "first"
    assert sign(bench.fleet, "second") == "first"
    record = read_attestation(bench.store, UID, ONE, "verified", key)
    assert record is not None
    assert record.by == "first"
    assert read_attestation(bench.store, UID, ONE, "rehearsed", key) is None
    assert read_attestation(bench.store, UID, ONE, "verified", FleetKey.new().verify_key) is None
    name = layout.checkpoint(UID, ONE, "verified")
    bench.save(tmp_path, 2)
    memory(bench).objects[layout.checkpoint(UID, CheckpointId(1, 2), "verified")] = memory(bench).objects[
        name
    ]
    assert read_attestation(bench.store, UID, CheckpointId(1, 2), "verified", key) is None
    memory(bench).flip(name, 5)
    with pytest.raises(DamagedError, match="not a valid record"):
        sign(bench.fleet, "third")


def test_an_attestation_of_another_manifest_counts_for_nothing(tmp_path: Path) -> None:
    bench = Bench()
    bench.begin()
    bench.save(tmp_path, 1)
    bench.verified(ONE)
    name = layout.checkpoint(UID, ONE)
    other = replace(open_manifest(memory(bench).read(name), UID, ONE, bench.key), nonce="other")
    memory(bench).objects[name] = (seal_manifest(other, bench.key), 0.0)
    assert read_attestation(bench.store, UID, ONE, "verified", bench.fleet.verify_key) is None

"""Job keys, data keys, the fleet's key and signed records."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.errors import CredentialsError, DamagedError, UsageError
from backends.ids import CheckpointId
from backends.records import strict
from backends.records.lineage import Attestation, Claim, Continues, JobHeader, Proof, Tombstone
from backends.store.fleetkey import FleetKey, Record, VerifyKey, open_record, sign_record
from backends.store.sealing import DataKey, JobKey, check_escrow, escrow_test
from backends.store.takeover import FIRST
from tests.support.store import UID

ONE = CheckpointId(1, 1)
AT = "2027-01-15T08:00:00.000Z"
KEY = JobKey(bytes(range(32)))
FLEET = FleetKey(bytes(32))


def test_a_job_key_survives_hex_and_never_shows_itself() -> None:
    key = JobKey.new()
    assert JobKey.from_hex(key.hex + "\n") == key
    assert key.hex not in repr(key)
    assert "secret" not in repr(key)
    assert "secret" not in repr(DataKey.new(UID, ONE))
    for text in ("", "zz" * 32, "00" * 31):
        with pytest.raises(UsageError) as caught:
            JobKey.from_hex(text)
        assert text not in caught.value.message or not text


def test_subkeys_differ_by_purpose_and_job() -> None:
    other = JobKey(bytes(32))
    assert len({KEY.mac(b"x"), KEY.digest(b"x"), other.mac(b"x"), other.digest(b"x")}) == 4
    assert KEY.mac_matches(b"x", KEY.mac(b"x"))
    assert not KEY.mac_matches(b"y", KEY.mac(b"x"))
    assert not KEY.mac_matches(b"x", "ö")


def test_a_data_key_opens_only_for_its_job_and_checkpoint() -> None:
    data_key = DataKey.new(UID, ONE)
    wrapped = KEY.wrap(data_key)
    assert KEY.unwrap(wrapped, UID, ONE) == data_key
    assert KEY.wrap(data_key) != wrapped
    for key, uid, identity in (
        (JobKey.new(), UID, ONE),
        (KEY, UID[::-1], ONE),
        (KEY, UID, CheckpointId(1, 2)),
    ):
        with pytest.raises(DamagedError, match="unwrapped"):
            key.unwrap(wrapped, uid, identity)
    for text in ("", "xyz", wrapped[:-2], wrapped[:20]):
        with pytest.raises(DamagedError):
            KEY.unwrap(text, UID, ONE)


@given(st.binary(max_size=300), st.integers(0, 2**40), st.data())
def test_a_frame_opens_only_as_it_was_sealed(plain: bytes, number: int, data: st.DataObject) -> None:
    data_key = DataKey(bytes(32), UID, ONE)
    codec = data.draw(st.integers(0, 255))
    frame = b"".join(data_key.seal(number, plain, codec))
    assert data_key.open(number, frame) == (codec, plain)
    place = data.draw(st.integers(0, len(frame) - 1))
    damaged = bytearray(frame)
    damaged[place] ^= data.draw(st.integers(1, 255))
    for bad in (bytes(damaged), frame[:place]):
        with pytest.raises(DamagedError):
            data_key.open(number, bad)
    for other in (DataKey(bytes(32), UID[::-1], ONE), DataKey(bytes(32), UID, CheckpointId(1, 2))):
        with pytest.raises(DamagedError):
            other.open(number, frame)
    with pytest.raises(DamagedError):
        data_key.open(number + 1, frame)


def test_escrow_is_proven_by_opening_the_nodes_object() -> None:
    test = escrow_test(KEY, UID, "ab")
    check_escrow(KEY, UID, "ab", test)
    for key, uid, nonce, data in ((JobKey.new(), UID, "ab", test), (KEY, UID[::-1], "ab", test), (KEY, UID, "cd", test),
                                  (KEY, UID, "ab", test[:-2]), (KEY, UID, "ab", "?")):  # fmt: skip
        with pytest.raises(DamagedError, match="does not open what its guard sealed"):
            check_escrow(key, uid, nonce, data)


def test_the_fleet_key_file_is_private_and_never_replaced(tmp_path: Path) -> None:
    old = os.umask(0o000)
    try:
        key = FleetKey.create(tmp_path / "fleet.key")
    finally:
        os.umask(old)
    assert (tmp_path / "fleet.key").stat().st_mode & 0o777 == 0o600
    assert FleetKey.create(tmp_path / "fleet.key") == key
    assert FleetKey.load(tmp_path / "fleet.key") == key
    assert "seed" not in repr(key)
    (tmp_path / "fleet.key").chmod(0o640)
    with pytest.raises(CredentialsError, match="0600"):
        FleetKey.load(tmp_path / "fleet.key")
    with pytest.raises(CredentialsError):
        FleetKey.load(tmp_path / "none")
    (tmp_path / "odd").write_text("zz")
    with pytest.raises(CredentialsError):
        FleetKey.load(tmp_path / "odd")
    (tmp_path / "link").symlink_to(tmp_path / "fleet.key")
    with pytest.raises(CredentialsError):
        FleetKey.load(tmp_path / "link")


RECORDS = [
    Claim(UID, 2, "console", "n1", AT, Proof("cloud", 1, "node-a", "g", "aws", AT, "terminated")),
    Claim(UID, 1, "console", "n1", AT, FIRST),
    Continues(UID, 2, "checkpoint", "1.4", "node-b", "g2", "console", "n1", AT),
    Continues(UID, 2, "void", None, None, None, "console", "n1", AT),
    Attestation(UID, "1.4", "verified", "console", AT, 2.5, "full", "00"),
    JobHeader(UID, "llama-ft", AT),
    Tombstone(UID, "llama-ft", "console", AT),
]


def _upper_signature(data: bytes) -> bytes:
    document = strict.loads(data, what="r")
    return strict.canonical(document | {"signature": document["signature"].upper()})


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
def test_records_open_only_as_they_were_signed(record: Record) -> None:
    data = sign_record(record, FLEET)
    kind: type[Any] = type(record)
    assert open_record(kind, data, FLEET.verify_key, what="r") == record
    assert data == strict.canonical(strict.loads(data, what="r"))
    with pytest.raises(DamagedError, match="not signed by this fleet"):
        open_record(kind, data, FleetKey.new().verify_key, what="r")
    for place in range(0, len(data), 7):
        damaged = data[:place] + bytes((data[place] ^ 1,)) + data[place + 1 :]
        with pytest.raises(DamagedError):
            open_record(kind, damaged, FLEET.verify_key, what="r")
    for spelled in (data.replace(b'"job_uid"', b' "job_uid"'), data.upper(), _upper_signature(data)):
        with pytest.raises(DamagedError):
            open_record(kind, spelled, FLEET.verify_key, what="r")
    if not isinstance(record, Claim):
        with pytest.raises(DamagedError, match="no claim record"):
            open_record(Claim, data, FLEET.verify_key, what="r")
    if not isinstance(record, Continues):
        with pytest.raises(DamagedError, match="no continues record"):
            open_record(Continues, data, FLEET.verify_key, what="r")
    if not isinstance(record, Attestation):
        with pytest.raises(DamagedError, match="no attestation record"):
            open_record(Attestation, data, FLEET.verify_key, what="r")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Claim("short", 1, "c", "n", AT, FIRST),
        lambda: Claim(UID, 0, "c", "n", AT, FIRST),
        lambda: Proof("first", 1, "", "", "", AT),
        lambda: Proof("cloud", 0, "", "", "", AT),
        lambda: Continues(UID, 2, "checkpoint", None, "a", "g", "c", "n", AT),
        lambda: Continues(UID, 2, "genesis", "1.1", "a", "g", "c", "n", AT),
        lambda: Continues(UID, 2, "checkpoint", "2.1", "a", "g", "c", "n", AT),
        lambda: Continues(UID, 2, "void", None, "a", "g", "c", "n", AT),
        lambda: Continues(UID, 2, "cold", None, "a", None, "c", "n", AT),
    ],
)
def test_records_that_make_no_sense_cannot_be_made(make: object) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=r"epoch|uid|proof|continues|continue"):
        make()


def test_verify_keys_travel_as_hex() -> None:
    assert VerifyKey.from_hex(FLEET.verify_key.hex) == FLEET.verify_key
    with pytest.raises(UsageError):
        VerifyKey.from_hex("00")
    assert not VerifyKey(b"\xff" * 32).verifies(b"", b"")

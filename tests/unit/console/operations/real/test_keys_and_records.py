"""Keys are private and never replaced; records of the user's own are never rewritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.errors import CredentialsError, NotFoundError, UsageError
from backends.ids import new_uid
from backends.records.job import Job
from backends.records.node import Node
from console.operations.real.keys import FileKeys
from console.operations.real.opening import gate
from console.operations.real.toml_records import TomlRecords


def test_a_job_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    keys, uid = FileKeys(tmp_path), new_uid()
    with pytest.raises(NotFoundError):
        keys.job_key(uid)
    made = keys.new_job_key(uid)
    assert keys.new_job_key(uid) == made == FileKeys(tmp_path).job_key(uid)
    path = tmp_path / "keys" / f"{uid}.key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in (tmp_path / "keys").iterdir()] == [path.name]
    path.chmod(0o644)
    with pytest.raises(CredentialsError, match="0600") as caught:
        keys.job_key(uid)
    assert made not in caught.value.message


def test_the_fleet_key_is_made_at_first_use(tmp_path: Path) -> None:
    first = FileKeys(tmp_path / "s").verify_key()
    assert FileKeys(tmp_path / "s").verify_key() == first
    assert (tmp_path / "s" / "fleet.key").stat().st_mode & 0o777 == 0o600


def test_records_are_read_again_when_a_file_changes(tmp_path: Path) -> None:
    records = TomlRecords(tmp_path)
    assert records.nodes() == {}
    records.put_node(Node("a", "root@a"))
    assert list(records.nodes()) == ["a"]
    (tmp_path / "mine.toml").write_text('[jobs.train]\nnode = "a"\ncommand = ["x"]\n')
    assert list(records.jobs()) == ["train"]
    assert not records.may_write_job("train")
    assert records.may_write_job("other")
    with pytest.raises(UsageError, match="your own"):
        records.put_job(Job("train", "a", command=("y",)))
    records.put_job(Job("other", "a", uid=new_uid(), command=("y",)))
    assert set(records.jobs()) == {"train", "other"}
    records.remove_job("other")
    assert set(records.jobs()) == {"train"}


def test_the_gate_refuses_with_both_values_and_never_calls_the_unknown_fine() -> None:
    facts = {"time": "2026-12-01T00:00:00Z", "wall_s": 0.0, "arch": "aarch64"}
    answer = gate({"engine": "signal", "arch": "x86_64"}, facts, {}, {})
    assert answer.word == "refuse"
    assert any("x86_64" in reason and "aarch64" in reason for reason in answer.reasons)
    assert answer.rows[0]["property"] == "arch"
    assert gate({}, facts, {}, {}).word == "warn"
    assert gate({"engine": "signal"}, {"nonsense": 1}, {}, {}).word == "unknown"


def test_the_versions_that_a_jobs_record_declares_now_must_be_those_of_the_save() -> None:
    facts = {"time": "2026-12-01T00:00:00Z", "wall_s": 0.0, "arch": "x86_64"}
    saved = {"engine": "signal", "arch": "x86_64", "gpus": [], "memory_needed_bytes": 0, "disk_needed_bytes": 0,
             "runtime": {"serving": "vllm 0.20"}}  # fmt: skip
    changed = gate(saved, facts, {}, {"serving": "vllm 0.21"})
    assert changed.word == "refuse"
    assert changed.reasons == (
        "declared versions: serving 'vllm 0.20' in the save, 'vllm 0.21' now; this needs a cold start",
    )
    same = gate(saved, facts, {}, {"serving": "vllm 0.20"})
    assert all("declared" not in reason for reason in same.reasons)
    forced = gate(saved, facts, {"runtime": "tested by hand"}, {"serving": "vllm 0.21"})
    assert forced.overridden == {"runtime": "tested by hand"}

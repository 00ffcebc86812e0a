"""Real-world cases that concern configuration and fleet files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from backends.errors import UsageError
from backends.inventory.load import load

_CASES = Path(__file__).resolve().parents[3] / "shared" / "data" / "cases" / "cases.jsonl"


def case(name: str) -> dict[str, Any]:
    if not _CASES.exists():
        pytest.skip(f"real-world cases are not on this machine: {_CASES}")
    for line in _CASES.read_text("utf-8").splitlines():
        found: dict[str, Any] = json.loads(line)
        if found["id"] == name:
            return found
    raise AssertionError(f"no case {name}")


def test_rc_33_no_name_is_silently_altered(tmp_path: Path) -> None:
    names = case("RC-33")["expected"]["node_names"]
    fleet = tmp_path / "fleet.toml"
    fleet.write_text("".join(f'[nodes.{name}]\nssh = "198.51.100.30"\n' for name in names), "utf-8")
    assert sorted(load(fleet).nodes) == sorted(names)
    assert [node.name for node in load(fleet).nodes.values()] == sorted(names)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("12:30:45", 'write "12h30m45s"'),
        ('"12:30:45"', 'write "12h30m45s"'),
        ("nan", "with its unit expected"),
        ('".nan"', "is not a duration"),
        ("600", "with its unit expected"),
    ],
)
def test_rc_33_intervals_are_refused_with_a_hint(tmp_path: Path, typed: str, said: str) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(f'[jobs.on]\nnode = "no"\ninterval = {typed}\n', "utf-8")
    with pytest.raises(UsageError) as caught:
        load(fleet)
    assert f"{fleet}:3: interval of 'on'" in caught.value.message
    assert said in caught.value.message


def test_rc_33_ten_minutes_are_600_seconds_and_odd_job_names_stay(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text('[jobs.on]\nnode = "no"\ninterval = "10m"\n[jobs.1_000]\nnode = "0123"\n', "utf-8")
    jobs = load(fleet).jobs
    assert jobs["on"].interval_s == 600
    assert (jobs["on"].node, jobs["1_000"].node) == ("no", "0123")


def test_rc_33_duplicate_keys_and_deep_nesting_are_refused(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.toml"
    for text in ('[nodes.a]\nssh = "a"\nssh = "b"\n', "x = " + "{ a = " * 2000 + "1" + " }" * 2000):
        fleet.write_text(text, "utf-8")
        with pytest.raises(UsageError, match="not the TOML expected"):
            load(fleet)


def test_rc_27_only_plain_addresses_are_accepted(tmp_path: Path) -> None:
    found = case("RC-27")
    accepted = []
    for name in found["input"]["names"]:
        fleet = tmp_path / "fleet.toml"
        fleet.write_text(f"[nodes.n]\nssh = {json.dumps(name)}\n", "utf-8")
        try:
            accepted.append(load(fleet).node("n").ssh)
        except UsageError as error:
            assert f"{fleet}:2: ssh of 'n'" in error.message
            assert "\n" not in error.message
    assert accepted == found["expected"]["accepted"]

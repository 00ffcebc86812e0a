"""Commands on a fleet of fakes: documents, exit codes, consent, and nothing but data on stdout."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from backends.fakes import clock as fake_clock
from backends.fakes.clock import FakeClock
from console.cli import run as command_line
from console.cli import session
from tests.support.operations import Practice

Result = tuple[int, str, str]
Command = Callable[..., Result]


@pytest.fixture
def practice(tmp_path: Path) -> Practice:
    return Practice(tmp_path)


@pytest.fixture
def reprieve(
    practice: Practice, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Run a command line on the fleet of fakes, in its virtual time."""
    for name in ("STATE", "CONFIG", "CACHE", "DATA"):
        (practice.directory / "xdg" / name).mkdir(parents=True)
        monkeypatch.setenv(f"XDG_{name}_HOME", str(practice.directory / "xdg" / name))
    state = practice.directory / "state"
    (practice.directory / "xdg" / "STATE" / "reprieve").symlink_to(state)

    def opened(context: Any, clock: Any, role: str, *, version: str) -> Any:
        fleet = practice.fleet(role)
        fleet.context = type(fleet.context)(
            **{**fleet.context.__dict__, "read_only": context.read_only, "state": state}
        )
        return fleet

    class Loop:
        @staticmethod
        def run(main: Coroutine[Any, Any, Any]) -> Any:
            return fake_clock.run(practice.clock, main)

    monkeypatch.setattr(session, "open_fleet", opened)
    monkeypatch.setattr(session, "asyncio", Loop)
    monkeypatch.setattr(command_line, "SystemClock", lambda: practice.clock)

    def call(*words: str) -> Result:
        code = command_line.run(list(words))
        out, err = capsys.readouterr()
        return code, out, err

    return call


def document(result: Result, code: int = 0) -> dict[str, Any]:
    assert result[0] == code, result
    found: dict[str, Any] = json.loads(result[1])
    return found


def test_the_risk_of_a_silent_source_is_marked(practice: Practice, reprieve: Command) -> None:
    practice.running_job("train", "n0")
    practice.running_job("other", "n1")
    reprieve("jobs", "list")
    practice.nodes["n0"].partitioned = True
    rows = {line.split()[0]: line for line in reprieve("jobs", "list")[1].splitlines()}
    assert " ~" in rows["train"]
    assert "~" not in rows["other"]


def test_jobs_and_nodes_are_listed_with_units_and_null_for_unknown(
    practice: Practice, reprieve: Command
) -> None:
    practice.running_job("train", "n0")
    listing = document(reprieve("jobs", "list", "-o", "json"))
    assert listing["schema"] == "reprieve/job-list/v1"
    job = listing["items"][0]
    assert (job["name"], job["state"], job["epoch"], job["checkpoint"]) == ("train", "unrehearsed", 1, "1.1")
    assert job["progress"] is None
    assert job["work_at_risk_s"] >= 0
    nodes = document(reprieve("fleet", "list", "-o", "json"))["items"]
    assert [(node["name"], node["state"]) for node in nodes] == [(f"n{n}", "ok") for n in range(4)]
    assert nodes[0]["jobs"] == ["train"]
    assert reprieve("jobs", "list", "-o", "name")[1] == "train\n"
    assert reprieve("jobs", "list", "--state", "paused", "-o", "name")[1].strip() == ""


def test_silence_is_shown_and_never_called_lost(practice: Practice, reprieve: Command) -> None:
    practice.running_job("train", "n0")
    reprieve("jobs", "list")
    practice.nodes["n0"].partitioned = True
    practice.clock.advance(600)
    node = document(reprieve("fleet", "list", "-o", "json"))["items"][0]
    assert node["state"] == "unreachable"
    assert node["reason"]
    job = document(reprieve("jobs", "list", "-o", "json"))["items"][0]
    assert job["state"] == "waiting_proof"
    assert job["stale"] is True
    assert job["work_at_risk_s"] >= 600


def test_restore_without_proof_exits_10_and_says_so_in_json(practice: Practice, reprieve: Command) -> None:
    practice.running_job("train", "n0")
    practice.nodes["n0"].partitioned = True
    code, out, err = reprieve("jobs", "restore", "train", "--yes", "-o", "json")
    assert (code, out) == (10, "")
    error = json.loads(err.splitlines()[-1])
    assert (error["code"], error["kind"]) == (10, "no_proof_of_death")
    assert "n0" in error["message"]


def test_restore_after_a_reclaim(practice: Practice, reprieve: Command) -> None:
    practice.running_job("train", "n0")
    practice.reclaim("n0")
    made = document(reprieve("jobs", "restore", "train", "--yes", "-o", "json"))
    assert made["schema"] == "reprieve/restore/v1"
    assert (made["epoch"], made["state"]) == (2, "restored")
    assert made["lost_work_s"] >= 0


def test_consent_is_needed_and_dry_run_changes_nothing(practice: Practice, reprieve: Command) -> None:
    job = practice.running_job("train", "n0")
    practice.reclaim("n0")
    assert reprieve("jobs", "restore", "train", "-o", "json")[0] == 9
    code, _, err = reprieve("jobs", "restore", "train", "--dry-run")
    assert code == 0
    assert "1.1" in err
    assert practice.side.newest_epoch(job.uid) == 1
    assert reprieve("jobs", "stop", "train", "--now", "--yes", "--no-input")[0] == 9
    assert reprieve("jobs", "save", "train", "--yes", "--read-only")[0] == 2


def test_batch_prints_a_line_an_item_and_a_last_one(
    practice: Practice, reprieve: Command, tmp_path: Path
) -> None:
    for number in range(3):
        practice.running_job(f"j{number}", "n0")
    bad = practice.records.jobs()["j1"].uid
    practice.book.damaged.add((bad, "1.1"))
    practice.reclaim("n0")
    file = tmp_path / "lost.csv"
    file.write_text("job\nj0\nj1\nj2\n")
    plan = document(reprieve("batch", "restore", str(file), "--dry-run", "-o", "json"))
    assert [row["job"] for row in plan["items"]] == ["j0", "j1", "j2"]
    code, out, _ = reprieve("batch", "restore", str(file), "--yes", "-o", "ndjson")
    assert code == 3
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["schema"] for line in lines] == ["reprieve/batch-item/v1"] * 3 + ["reprieve/batch-run/v1"]
    assert {line["job"]: line["state"] for line in lines[:3]} == {
        "j0": "restored",
        "j1": "failed",
        "j2": "restored",
    }
    run = lines[-1]["run"]
    assert reprieve("batch", "resume", run, "--yes", "-o", "ndjson")[0] == 3
    shown = document(reprieve("batch", "show", run, "-o", "json"))
    assert shown["state"] == "partial"
    assert reprieve("batch", "list", "-o", "name")[1].strip() == run
    steps = document(reprieve("operations", "show", run, "-o", "json"))["items"][0]["steps"]
    assert [step["step"] for step in steps][:2] == ["begin", "claim"]
    assert "nonce" not in json.dumps(steps)


def test_watch_once_report_and_events(practice: Practice, reprieve: Command) -> None:
    practice.running_job("train", "n0")
    reprieve("jobs", "list")
    practice.clock.advance(25)
    practice.reclaim("n0")
    looked = document(reprieve("watch", "--once", "--dry-run", "-o", "json"))
    assert [action["action"] for action in looked["actions"]] == ["restore"]
    assert practice.side.newest_epoch(practice.records.jobs()["train"].uid) == 1
    document(reprieve("watch", "--once", "-o", "json"))
    report = document(reprieve("report", "--discount", "70%", "-o", "json"))
    assert report["schema"] == "reprieve/report/v1"
    reclaim = report["reclaims"][0]
    assert (reclaim["job"], reclaim["from_node"], reclaim["cause"], reclaim["notice"]) == (
        "train",
        "n0",
        "reclaim",
        None,
    )
    assert reclaim["lost_work_s"] >= 25
    assert report["totals"]["reclaims"] == 1
    assert report["break_even_ratio"] == pytest.approx(7 / 3)
    assert "rL/H" in reprieve("report")[1]
    kinds = [event["kind"] for event in document(reprieve("events", "list", "-o", "json"))["items"]]
    assert "node.lost" in kinds
    assert "restore.done" in kinds
    assert reprieve("events", "list", "--kind", "restore", "-o", "ndjson")[1].count("\n") >= 1


def test_checkpoints(practice: Practice, reprieve: Command) -> None:
    practice.running_job("train", "n0", saves=2)
    items = document(reprieve("checkpoints", "list", "train", "-o", "json"))["items"]
    assert [item["checkpoint"] for item in items] == ["1.2", "1.1"]
    assert items[0]["size_bytes"] == 1000
    assert document(reprieve("checkpoints", "show", "train", "1.1", "-o", "json"))["node"] == "n0"
    assert reprieve("checkpoints", "show", "train", "9.9")[0] == 2
    assert reprieve("checkpoints", "verify", "train", "-o", "json")[0] == 0


def test_store_check_and_doctor(reprieve: Command, practice: Practice) -> None:
    url = f"file://{practice.directory}/objects"
    code, out, err = reprieve("store", "check", f"{url}-nowhere", "--yes")
    assert (code, out, err.splitlines()[0]) == (
        2, "", f"error: store {url}-nowhere: there is no directory {practice.directory}/objects-nowhere on this machine"
    )  # fmt: skip
    assert not (practice.directory / "objects-nowhere").exists()
    (practice.directory / "objects").mkdir(exist_ok=True)
    checked = document(reprieve("store", "check", url, "--yes", "-o", "json"))
    assert checked["ok"] is True
    assert [row["check"] for row in checked["checks"]][1] == "create if absent"
    assert not list((practice.directory / "objects" / "probes").glob("*"))
    found = document(reprieve("doctor", "-o", "json"))
    assert found["ok"] is True


def test_values_without_sense_are_refused(reprieve: Command) -> None:
    for words, expected in (
        (("watch", "--every", "0s"), "error: --every is 0 s; at least 1 s is needed"),
        (("watch", "--once", "--every", "0.5s"), "error: --every is 0.5 s; at least 1 s is needed"),
        (
            ("report", "--discount", "2"),
            "error: --discount is 2; less than 1 is expected, such as 0.7 or 70%",
        ),
    ):
        assert reprieve(*words) == (2, "", expected + "\n"), words


def test_unknown_names_are_one_line(reprieve: Command, practice: Practice) -> None:
    for words in (
        ("jobs", "show", "ghost"),
        ("fleet", "show", "ghost"),
        ("operations", "show", "x"),
        ("batch", "resume", "x", "--yes"),
    ):
        code, out, err = reprieve(*words)
        assert (code, out) == (2, ""), words
        assert "Traceback" not in err
    assert isinstance(practice.clock, FakeClock)

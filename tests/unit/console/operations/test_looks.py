"""Looks: what the screens beside the snapshot are made from, and the audit log."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from backends.errors import ReprieveError, UsageError
from backends.fakes.clock import run
from console.operations import audit
from console.operations.looks.api import LOOKS, look
from console.tui.wiring import OperationsSource
from tests.support.operations import Practice

LOST = "n0"


def asked(practice: Practice, words: str, **arguments: Any) -> dict[str, Any]:
    answer: dict[str, Any] = run(practice.clock, look(practice.fleet(), words, arguments))
    json.dumps(answer, allow_nan=False)  # plain data, whatever it tells
    return answer


def by_name(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in answer["items"]}


def test_checkpoints_of_all_and_of_one(tmp_path: Path) -> None:
    practice = Practice(tmp_path)
    practice.running_job("a", "n0", saves=2)
    practice.running_job("b", "n1")
    assert sorted(by_name(asked(practice, "checkpoints"))) == ["a/1.1", "a/1.2", "b/1.1"]
    one = asked(practice, "checkpoints", name="b", fingerprint=True)["items"]
    assert [item["fingerprint"] for item in one] == [{"arch": "x86_64"}]


def test_a_store_that_is_away_is_a_problem_not_an_empty_list(tmp_path: Path) -> None:
    practice = Practice(tmp_path)
    practice.running_job("a", "n0")
    practice.book.away = True
    answer = asked(practice, "checkpoints")
    assert answer["items"] == []
    assert answer["problems"] == ["job a: the store does not answer"]


def test_every_place_has_a_reason_and_the_best_is_named(tmp_path: Path) -> None:
    practice = Practice(tmp_path)
    practice.running_job("a", LOST)
    practice.running_job("b", "n1")
    practice.reclaim(LOST)
    practice.nodes["n3"].facts["arch"] = "aarch64"
    answer = asked(practice, "places", name="a")
    places = by_name(answer)
    assert answer["checkpoint"] == "1.1"
    assert answer["best"] == "n2", "the least loaded that fits"
    assert places["n2"]["fits"] is True
    assert places[LOST]["fits"] is False
    assert places["n3"]["fits"] is False
    assert places["n3"]["reasons"] == ["arch: image x86_64, node aarch64"]
    pool = places[practice.pool]
    assert pool["kind"] == "pool"
    assert pool["reasons"][0] == "2 of its 4 nodes fit: n1, n2"
    for name, place in places.items():
        assert place["fits"] or place["reasons"], f"{name} says nothing"


def test_a_checkpoint_that_is_not_there_has_no_best_place(tmp_path: Path) -> None:
    practice = Practice(tmp_path)
    practice.running_job("a", LOST)
    answer = asked(practice, "places", name="a", checkpoint="7.7")
    assert (answer["checkpoint"], answer["best"]) == (None, None)


def test_pools_without_figures_and_unknown_words_are_told(tmp_path: Path) -> None:
    practice = Practice(tmp_path)
    with pytest.raises(UsageError, match="no published figures were pulled yet"):
        asked(practice, "pools")
    with pytest.raises(UsageError, match="known: batches, checkpoints"):
        asked(practice, "nosuch")
    assert set(LOOKS) >= {"checkpoints", "places", "pools", "plan", "batches", "operation", "log"}


@pytest.mark.parametrize(
    ("context", "words", "arguments", "line"),
    [
        ("default", "jobs save", {"name": "a"}, "reprieve jobs save a"),
        ("ml", "jobs restore", {"name": "a", "to": "n 1", "checkpoint": "1.2"}, "reprieve --context ml jobs restore a --to 'n 1' --checkpoint 1.2"),
        ("default", "jobs stop", {"name": "a", "now": True, "no_wait": False}, "reprieve jobs stop a --now"),
        ("default", "jobs set", {"name": "a", "changes": ["interval=5m"]}, "reprieve jobs set a interval=5m"),
        ("default", "checkpoints verify", {"name": "a", "checkpoint": "1.2", "full": True}, "reprieve checkpoints verify a 1.2 --full"),
    ],
)  # fmt: skip
def test_the_command_line_that_does_the_same(
    context: str, words: str, arguments: dict[str, Any], line: str
) -> None:
    assert audit.command_line(context, words, arguments) == line


def test_the_log_tells_what_was_done_and_what_came_of_it(tmp_path: Path) -> None:
    practice = Practice(tmp_path)
    practice.running_job("a", "n1")
    fleet = practice.fleet()
    source = OperationsSource(fleet, None, audit.Audit(fleet.context, practice.clock, "console"))
    run(practice.clock, source.perform("jobs pause", {"name": "a"}, lambda _: None))
    with pytest.raises(ReprieveError):
        run(practice.clock, source.perform("jobs pause", {"name": "nosuch"}, lambda _: None))
    entries = run(practice.clock, source.ask("log", {}))["items"]
    assert [(entry["command"], entry["state"], entry["exit"]) for entry in entries] == [
        ("reprieve --context test jobs pause nosuch", "failed", 2),
        ("reprieve --context test jobs pause nosuch", "started", None),
        ("reprieve --context test jobs pause a", "done", 0),
        ("reprieve --context test jobs pause a", "started", None),
    ]
    file = fleet.context.state / audit.FILE
    assert file.stat().st_mode & 0o777 == 0o600
    with file.open("a") as stream:
        stream.write('{"torn')
    assert len(run(practice.clock, source.ask("log", {"limit": 2}))["items"]) == 2


def test_what_cannot_be_written_down_is_not_begun(tmp_path: Path) -> None:
    practice = Practice(tmp_path)
    practice.running_job("a", "n1")
    fleet = practice.fleet()
    (fleet.context.state / audit.FILE).mkdir()
    source = OperationsSource(fleet, None, audit.Audit(fleet.context, practice.clock, "console"))
    with pytest.raises(ReprieveError, match="audit log"):
        run(practice.clock, source.perform("jobs pause", {"name": "a"}, lambda _: None))
    assert not fleet.job("a").paused


def test_one_given_up_is_written_down(tmp_path: Path) -> None:
    practice = Practice(tmp_path)
    fleet = practice.fleet()
    log = audit.Audit(fleet.context, practice.clock, "console")

    async def given_up() -> None:
        task = asyncio.ensure_future(
            OperationsSource(fleet, None, log).perform("jobs save", {"name": "a"}, lambda _: None)
        )
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    practice.running_job("a", "n1")
    asyncio.run(given_up())
    assert all(entry["state"] in ("started", "cancelled") for entry in log.tail())

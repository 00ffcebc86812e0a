"""Waiting for a node: what is wrong is said at once, and giving up has a limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from backends.errors import UnreachableError
from backends.fakes.clock import run
from console.operations import api
from tests.support.operations import Practice


def test_a_guard_that_is_down_is_said_within_seconds_and_given_up_after_a_minute(tmp_path: Path) -> None:
    practice = Practice(tmp_path)
    practice.running_job("train", "n0")
    node = practice.nodes["n0"]
    told: list[tuple[float, str]] = []

    def down(document: dict[str, Any]) -> dict[str, Any]:
        raise UnreachableError("node n0: the call save did not happen: exit 5, the guard does not answer")

    node.on_verb["save"] = down
    began = practice.clock.monotonic()

    def hear(text: str) -> None:
        told.append((practice.clock.monotonic() - began, text))

    with pytest.raises(UnreachableError, match="the guard does not answer"):
        run(practice.clock, api.perform(practice.fleet(), "jobs save", {"name": "train"}, hear))
    at, text = next((at, text) for at, text in told if "the guard does not answer" in text)
    assert at <= 5.0
    assert "trying again for a minute" in text
    assert 55 <= practice.clock.monotonic() - began <= 70


def test_a_guard_that_comes_back_is_waited_for(tmp_path: Path) -> None:
    practice = Practice(tmp_path)
    practice.running_job("train", "n0")
    node, calls = practice.nodes["n0"], []

    def twice(document: dict[str, Any]) -> dict[str, Any]:
        calls.append(document)
        if len(calls) < 3:
            raise UnreachableError("node n0: no guard yet")
        return {"state": "saved", "checkpoint": "1.2"}

    node.on_verb["save"] = twice
    outcome = run(
        practice.clock, api.perform(practice.fleet(), "jobs save", {"name": "train"}, lambda text: None)
    )
    assert outcome.document["checkpoint"] == "1.2"
    assert len({each["request"] for each in calls}) == 1, "the same request: a save is never made twice"

"""`jobs restore` looks for proof before it asks anybody for a yes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backends.errors import ConfirmationError, NoProofError, UsageError
from backends.fakes.clock import run
from console.cli.commands import jobs_act
from console.cli.exits import DryRunEnd
from console.cli.invocation import Invocation
from tests.support.cli import invocation
from tests.support.operations import Practice


@pytest.fixture
def practice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Practice:
    practice = Practice(tmp_path)
    practice.running_job("train", "n0")

    def on_fleet(given: Any, work: Callable[[Any], Any]) -> Any:
        return run(practice.clock, work(practice.fleet()))

    monkeypatch.setattr(jobs_act, "on_fleet", on_fleet)
    return practice


def asked(**options: Any) -> tuple[Invocation, dict[str, Any]]:
    arguments = options.pop("arguments", {})
    return invocation(None, {"name": "train", **arguments}, words="jobs restore", **options), arguments


def test_without_proof_nobody_is_asked(practice: Practice) -> None:
    practice.nodes["n0"].partitioned = True
    given, _ = asked(arguments={"to": "n2"}, answer="y\n")
    began = practice.clock.monotonic()
    with pytest.raises(NoProofError) as error:
        jobs_act.restore(given)
    assert "Go on?" not in given.narrator.stream.getvalue()  # type: ignore[attr-defined]  # StringIO
    assert "--to n2 --i-know-it-is-dead train" in (error.value.hint or "")
    assert practice.clock.monotonic() - began <= 18, (
        "the silent node is asked twice, with patience the second time"
    )


def test_with_the_operators_word_or_proof_the_plan_is_shown_and_asked(practice: Practice) -> None:
    practice.nodes["n0"].partitioned = True
    given, _ = asked(arguments={"i_know_it_is_dead": "train"}, answer="n\n")
    with pytest.raises(ConfirmationError):
        jobs_act.restore(given)
    assert "Go on?" in given.narrator.stream.getvalue()  # type: ignore[attr-defined]  # StringIO
    practice.reclaim("n0")
    given, _ = asked(answer="n\n")
    with pytest.raises(ConfirmationError):
        jobs_act.restore(given)


def test_a_dry_run_shows_what_is_missing(practice: Practice) -> None:
    practice.nodes["n0"].partitioned = True
    given, _ = asked(dry_run=True)
    with pytest.raises(DryRunEnd):
        jobs_act.restore(given)
    assert "no proof of death yet" in given.narrator.stream.getvalue()  # type: ignore[attr-defined]  # StringIO


def test_a_place_that_is_none_is_said_first(practice: Practice) -> None:
    given, _ = asked(arguments={"to": "nope"})
    with pytest.raises(UsageError, match="no node or pool"):
        jobs_act.restore(given)

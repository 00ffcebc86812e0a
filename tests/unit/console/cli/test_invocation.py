"""Questions: who is asked, what is enough, and that nothing happens without it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from backends.errors import ConfirmationError, UsageError
from console.cli.exits import DryRunEnd
from console.cli.invocation import Invocation
from console.operations.context import Context
from tests.support.cli import invocation

_CONTEXT = Context("default", Path("/f"), Path("/s"), Path("/c"))


def told(made: Invocation) -> str:
    stream = made.narrator.stream
    assert isinstance(stream, io.StringIO)
    return stream.getvalue()


@pytest.mark.parametrize("tier", [1, 2])
@pytest.mark.parametrize("answer", ["y\n", "Y\n", "yes\n"])
def test_tiers_one_and_two_take_y(tier: int, answer: str) -> None:
    made = invocation(answer=answer)
    made.confirm(tier, ["save llama-ft", "pause 1.2 s"], "llama-ft")
    assert told(made) == "save llama-ft\npause 1.2 s\nGo on? [y/N] "


@pytest.mark.parametrize("tier", [1, 2, 3])
@pytest.mark.parametrize("answer", ["", "\n", "n\n", "yep\n", "llama\n"])
def test_anything_else_is_no(tier: int, answer: str) -> None:
    with pytest.raises(ConfirmationError, match="not confirmed, nothing was changed"):
        invocation(answer=answer).confirm(tier, [], "llama-ft")


def test_tier_three_takes_the_name_typed_in_full() -> None:
    made = invocation(answer="llama-ft\n")
    made.confirm(3, ["delete 4 checkpoints"], "llama-ft")
    assert "Type llama-ft to go on" in told(made)
    with pytest.raises(ConfirmationError):
        invocation(answer="y\n").confirm(3, [], "llama-ft")


def test_options_answer_instead() -> None:
    invocation(yes=True, no_input=True).confirm(2, [], "x")
    invocation(yes=True, confirmation="4", no_input=True).confirm(3, [], "4")
    with pytest.raises(ConfirmationError, match="add --yes --confirm x"):
        invocation(yes=True).confirm(3, [], "x")
    with pytest.raises(ConfirmationError, match="--confirm names 'y', but this concerns 'x'"):
        invocation(yes=True, confirmation="y").confirm(3, [], "x")


def test_confirm_alone_is_not_consent() -> None:
    with pytest.raises(ConfirmationError, match="add --yes --confirm x"):
        invocation(confirmation="x", no_input=True).confirm(3, [], "x")


@pytest.mark.parametrize(("tier", "flag"), [(1, "--yes"), (2, "--yes"), (3, "--yes --confirm x")])
def test_without_input_the_flag_is_named_and_nothing_is_asked(tier: int, flag: str) -> None:
    made = invocation(no_input=True, answer="y\n")
    with pytest.raises(ConfirmationError) as caught:
        made.confirm(tier, ["question"], "x")
    assert caught.value.exit_code == 9
    assert caught.value.message.endswith(f"add {flag}")
    assert told(made) == ""


def test_production_lifts_every_tier_by_one() -> None:
    with pytest.raises(ConfirmationError, match="--confirm x"):
        invocation(production=True, yes=True).confirm(2, [], "x")
    invocation(production=True, yes=True).confirm(1, [], "x")
    invocation(production=True, yes=True, confirmation="x").confirm(3, [], "x")
    invocation(production=True, no_input=True).confirm(0, [], "x")


def test_a_dry_run_ends_at_the_question_even_with_yes() -> None:
    made = invocation(dry_run=True, yes=True, read_only=True)
    with pytest.raises(DryRunEnd):
        made.confirm(1, ["restore x on gpu-b"], "x")
    assert told(made) == "restore x on gpu-b\ndry run: nothing was changed\n"


def test_a_read_only_context_refuses_before_it_asks() -> None:
    made = invocation(read_only=True, yes=True, confirmation="x")
    for tier in (1, 2, 3):
        with pytest.raises(UsageError, match="read-only"):
            made.confirm(tier, [], "x")
    assert told(made) == ""


def test_the_context_is_opened_once_and_only_when_asked_for() -> None:
    opened = []

    def open_context() -> Context:
        opened.append(1)
        return _CONTEXT

    made = invocation()
    made = made._replace(open_context=open_context)
    assert not opened
    assert made.context is made.context
    assert len(opened) == 1


def test_labels_filter_listings() -> None:
    made = invocation(output="json", labels={"team": "ml"})
    made.emit_listing(
        "node",
        [{"name": "a", "labels": {"team": "ml"}}, {"name": "b", "labels": {}}, {"name": "c"}],
        ["name"],
    )
    stream = made.renderer.stream
    assert isinstance(stream, io.StringIO)
    assert [item["name"] for item in json.loads(stream.getvalue())["items"]] == ["a"]

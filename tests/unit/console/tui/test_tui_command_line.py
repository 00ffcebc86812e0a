"""The `:` line: words, actions, completions; no line can raise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.registry.model import Command
from console.tui.model.command_line import Typed, complete, read

COMMANDS = tuple(
    Command(noun, verb, "summary", "module:function")
    for noun, verb in (("jobs", "save"), ("jobs", "list"), ("jobs", "doctor"), ("pools", "list"), ("plan", ""), ("fleet", "list"), ("events", "tail"))
)  # fmt: skip


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        ("jobs", Typed(mode="jobs")),
        (":fleet state=ok gpu", Typed(mode="fleet", text="state=ok gpu")),
        ("nodes", Typed(mode="fleet")),
        ("jobs list owner=ml", Typed(mode="jobs", text="owner=ml")),
        ("reprieve jobs save a b", Typed(action="save", names=("a", "b"))),
        ("save", Typed(action="save")),
        ("restore a --to b", Typed(action="restore", names=("a",), options={"to": "b"})),
        ("jobs move a --to=b", Typed(action="move", names=("a",), options={"to": "b"})),
        ("ops", Typed(local="operations")),
        ("theme night", Typed(local="theme", text="night")),
        ("q", Typed(local="quit")),
    ],
)
def test_what_is_understood(line: str, typed: Typed) -> None:
    assert read(line, COMMANDS) == typed


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "nothing typed"), ("jbos", "did you mean 'jobs'"), ("zzzz", "? lists them"), ('save "a', "cannot read the line"),
        ("jobs doctor a", "run it in a shell"),
        ("save a --to b", "for restore and move"), ("restore a --to", "--to names a node"), ("restore a b", "batch restore"),
        ("restore a --force", "option --force"),
    ],
)  # fmt: skip
def test_what_is_not(line: str, words: str) -> None:
    typed = read(line, COMMANDS)
    assert words in typed.error
    assert (typed.action, typed.mode, typed.local) == ("", "", "")


@pytest.mark.parametrize(
    ("line", "choices"),
    [
        ("mo", ["move"]), ("jobs do", ["jobs doctor"]), ("save l", ["save llama"]), ("restore llama --to g", ["restore llama --to gpu-a"]),
        ("restore llama -", ["restore llama --to"]), ("save llama -", []), ("jobs save f", ["jobs save fold"]), ("zz", []),
    ],
)  # fmt: skip
def test_completion(line: str, choices: list[str]) -> None:
    assert complete(line, COMMANDS, ["llama", "fold"], ["gpu-a", "host"]) == choices


@given(st.text(max_size=60))
def test_no_line_raises(line: str) -> None:
    typed = read(line, COMMANDS)
    assert sum(map(bool, (typed.mode, typed.action, typed.local, typed.error))) == 1
    assert all(choice.startswith(line) for choice in complete(line, COMMANDS, ["llama"], ["gpu-a"]))

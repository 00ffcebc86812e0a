"""Help: whole for every command, and the shipped text is the generated one."""

from __future__ import annotations

import pytest

from console.cli import completion, helptext
from console.cli.exits import MEANINGS
from console.cli.options import options_of
from console.cli.static_help import TOP
from console.registry.index import all_commands, words
from console.registry.model import Command
from tests.support.static_help import TARGET, render

_COMMANDS = all_commands()


def test_the_static_texts_are_up_to_date() -> None:
    assert TARGET.read_text("utf-8") == render(), "run: python -m tests.support.static_help"


@pytest.mark.parametrize("command", _COMMANDS, ids=lambda command: command.words)
def test_the_help_of_a_command_names_everything_it_takes(command: Command) -> None:
    text = helptext.of_command(command)
    assert command.summary in text
    assert "Examples" in text
    for argument in options_of(command):
        if argument.name not in ("dry-run", "yes", "confirm") or command.tier:
            assert f"--{argument.name}" in text
    for argument in command.arguments:
        assert argument.help.split(" ", maxsplit=1)[0] in text
    examples = {f"  {example.line}" for example in command.examples}
    assert max(len(line) for line in text.splitlines() if line not in examples) <= 110


@pytest.mark.parametrize("word", words())
def test_the_help_of_a_noun_lists_its_commands(word: str) -> None:
    text = helptext.of_noun(word)
    assert all(command.words in text for command in _COMMANDS if command.noun == word)
    assert f"  {word}" in TOP


def test_topics() -> None:
    codes = helptext.topic("exit-codes")
    assert all(str(code) in codes and meaning in codes for code, meaning in MEANINGS)
    environment = helptext.topic("environment")
    for name in ("REPRIEVE_CONTEXT", "REPRIEVE_INTERVAL", "REPRIEVE_FLEET", "REPRIEVE_DRY_RUN"):
        assert f"\n{name} " in environment
    for name in ("REPRIEVE_YES", "REPRIEVE_CONFIRM", "REPRIEVE_FORCE", "REPRIEVE_I_KNOW"):
        assert name not in environment
    assert "ndjson" in helptext.topic("formats")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command(shell: str) -> None:
    text = completion.script(shell)
    for command in _COMMANDS:
        assert command.noun in text
        assert command.verb in text
    assert "--i-know-it-is-dead" in text or "i-know-it-is-dead" in text

"""Every command is described whole, once, and by the contract's names."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from console.cli.options import CHANGING, COMMON, LISTING, options_of
from console.registry.index import NOUNS, all_commands, commands_of, find, words
from console.registry.model import Command

_COMMANDS = all_commands()
_CONTRACT = (
    "demo fleet:list|show|add|remove|install|uninstall|cordon|uncordon|doctor "
    "jobs:list|show|run|protect|unprotect|doctor|save|restore|move|rehearse|set|pause|resume|stop|remove "
    "checkpoints:list|show|verify|prune store:init|check batch:restore|resume|list|show watch "
    "operations:list|show events:list|tail replay report doctor config:path|show|validate|schema completion version help"
)


def names(command: Command) -> str:
    return command.words


def test_every_command_of_the_contract_is_there() -> None:
    for part in _CONTRACT.split():
        noun, _, verbs = part.partition(":")
        for verb in verbs.split("|"):
            assert find(noun, verb) is not None, f"{noun} {verb} is missing"


def test_words_are_unique_and_every_noun_is_listed() -> None:
    assert max(Counter(command.words for command in _COMMANDS).values()) == 1
    assert len(set(words())) == len(words())
    assert {command.noun for command in _COMMANDS} <= set(words())
    assert commands_of("nothing") == ()
    assert find("jobs", "nothing") is None


def test_groups_of_the_help_are_not_torn_apart() -> None:
    groups = [noun.group for noun in NOUNS]
    starts = [
        group for position, group in enumerate(groups) if position == 0 or groups[position - 1] != group
    ]
    assert len(starts) == len(set(starts))


@pytest.mark.parametrize("command", _COMMANDS, ids=names)
def test_a_command_is_described_whole(command: Command) -> None:
    assert command.summary
    assert not command.summary.endswith(".")
    assert command.examples, "at least one example"
    for example in command.examples:
        assert f"reprieve {command.words}" in example.line
        assert example.does
    assert re.fullmatch(r"console\.cli\.commands(\.[a-z_]+)+:[a-z_]+", command.handler)
    for argument in command.arguments:
        assert argument.help
        assert not argument.help.endswith(".")
        assert re.fullmatch(r"[a-z][a-z0-9-]*", argument.name)
        assert (argument.kind == "choice") <= bool(argument.choices)
        if argument.default is not None and argument.kind == "choice":
            assert argument.default in argument.choices


@pytest.mark.parametrize("command", _COMMANDS, ids=names)
def test_options_do_not_collide(command: Command) -> None:
    options = options_of(command)
    assert max(Counter(option.name for option in options).values()) == 1
    assert max(Counter(option.short for option in options if option.short).values()) == 1
    operands = [argument for argument in command.arguments if argument.operand]
    assert all(not argument.many for argument in operands[:-1]), (
        "only the last operand takes all that is left"
    )
    required = [argument.required for argument in operands]
    assert required == sorted(required, reverse=True), "required operands come first"


def test_what_cannot_be_undone_is_of_the_highest_tier() -> None:
    tiers = {command.words: command.tier for command in _COMMANDS}
    assert tiers["checkpoints prune"] == 3
    assert (tiers["jobs move"], tiers["jobs restore"], tiers["jobs stop"]) == (2, 2, 2)
    assert (tiers["jobs save"], tiers["jobs set"], tiers["jobs list"]) == (1, 1, 0)


def test_common_options_are_those_of_the_contract() -> None:
    known = {argument.name for argument in (*COMMON, *CHANGING, *LISTING)}
    assert known == {
        "config", "context", "color", "quiet", "verbose", "yes", "no-input", "read-only", "dry-run", "output",
        "confirm", "label", "watch",
    }  # fmt: skip
    assert {argument.short for argument in (*COMMON, *CHANGING)} >= {"o", "q", "v"}

"""From typed words to a Command: only the noun that was typed is loaded."""

from __future__ import annotations

import importlib
from typing import NamedTuple

from console.registry.model import Command


class Noun(NamedTuple):
    """The first word of a command, as the top-level help lists it."""

    word: str
    group: str  # heading in the help
    summary: str
    module: str  # `console.registry.<module>`


NOUNS: tuple[Noun, ...] = (
    Noun(
        "demo",
        "Start here",
        "a practice fleet on this machine: a job loses its node and comes back",
        "practice",
    ),
    Noun("practice", "Start here", "a practice fleet to play with, one step at a time", "practice"),
    Noun("doctor", "Start here", "checks this machine, the fleet and the store", "upkeep"),
    Noun("plan", "Does spot pay?", "what reclaims cost a job, and every break-even", "plan"),
    Noun("pools", "Does spot pay?", "pools with discount, interruption figure and break-even", "pools"),
    Noun("report", "Does spot pay?", "what reclaims did cost: lost work, restore, wait", "history"),
    Noun("fleet", "Keep jobs alive", "nodes: list, add, install the guard, cordon", "fleet"),
    Noun("jobs", "Keep jobs alive", "jobs: protect, save, restore, move, rehearse, stop", "jobs"),
    Noun("checkpoints", "Keep jobs alive", "what a job can come back to: list, verify, prune", "saved"),
    Noun("store", "Keep jobs alive", "where checkpoints live: make ready, check", "saved"),
    Noun("watch", "Keep jobs alive", "the controller: detects losses and restores by policy", "runs"),
    Noun("batch", "Keep jobs alive", "restore many jobs from a file", "runs"),
    Noun("operations", "Look back", "what is under way, step by step", "runs"),
    Noun("events", "Look back", "what happened, in order", "history"),
    Noun("replay", "Look back", "a recorded console session, at any moment", "history"),
    Noun("config", "This program", "paths, settings and their origin, schema", "upkeep"),
    Noun("completion", "This program", "completion script for bash, zsh or fish", "upkeep"),
    Noun("version", "This program", "the version", "upkeep"),
    Noun("help", "This program", "help on a command or a topic", "upkeep"),
)


def words() -> tuple[str, ...]:
    """Every noun, in the order of the help."""
    return tuple(noun.word for noun in NOUNS)


def commands_of(word: str) -> tuple[Command, ...]:
    """The commands of one noun; empty when the noun is unknown or its module is not part of this build."""
    for noun in NOUNS:
        if noun.word == word:
            return tuple(command for command in _module(noun.module) if command.noun == word)
    return ()


def all_commands() -> tuple[Command, ...]:
    """Every command of every noun, in the order of the help. Loads all registry modules."""
    return tuple(command for word in words() for command in commands_of(word))


def find(noun: str, verb: str = "") -> Command | None:
    """The command that these words name, or None."""
    return next((command for command in commands_of(noun) if command.verb == verb), None)


def _module(name: str) -> tuple[Command, ...]:
    path = f"console.registry.{name}"
    try:
        loaded = importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        return ()
    commands: tuple[Command, ...] = loaded.COMMANDS
    return commands

"""`help`, `version`, `completion`: the program about itself."""

from __future__ import annotations

import platform
from typing import Any

from console.cli import completion as scripts
from console.cli import helptext
from console.cli.exits import usage
from console.cli.invocation import Invocation
from console.cli.options import options_of, variable
from console.cli.static_help import VERSION
from console.registry.index import all_commands, find, words
from console.registry.model import Command


def version(invocation: Invocation) -> int:
    """Print the version and the Python it runs on."""
    document = {"schema": "reprieve/version/v1", "version": VERSION, "python": platform.python_version()}
    invocation.emit(document, lambda made: f"reprieve {made['version']}")
    return 0


def completion(invocation: Invocation) -> int:
    """Print the completion script of a shell."""
    made = scripts.script(invocation.arguments["shell"])
    invocation.emit({"script": made}, lambda document: str(document["script"]))
    return 0


def help_(invocation: Invocation) -> int:
    """Print help on words or a topic; as one document with --json or a machine format."""
    asked: list[str] = invocation.arguments["words"]
    text = _text(asked)
    if invocation.arguments["json"] and not invocation.machine:
        invocation.renderer.output = "json"
    document = {"schema": "reprieve/help/v1", "commands": [_described(item) for item in _chosen(asked)]}
    invocation.emit(document, lambda _document: text)
    return 0


def _text(asked: list[str]) -> str:
    if not asked:
        return helptext.top()
    if len(asked) == 1 and asked[0] in helptext.TOPICS:
        return helptext.topic(asked[0])
    if asked[0] not in words():
        raise usage(
            f"no help on {' '.join(asked)!r}: a command, or one of {', '.join(helptext.TOPICS)} expected"
        )
    command = find(asked[0], " ".join(asked[1:]))
    if command is None and len(asked) > 1:
        raise usage(
            f"reprieve {asked[0]} has no command {' '.join(asked[1:])!r}; reprieve help {asked[0]} lists them"
        )
    return helptext.of_noun(asked[0]) if command is None else helptext.of_command(command)


def _chosen(asked: list[str]) -> list[Command]:
    return [
        command for command in all_commands() if command.words.split()[: len(asked)] == asked or not asked
    ]


def _described(command: Command) -> dict[str, Any]:
    options = [{**item._asdict(), "variable": variable(item)} for item in options_of(command)]
    operands = [item._asdict() for item in command.arguments if item.operand]
    return {
        "words": command.words,
        "summary": command.summary,
        "details": command.details,
        "tier": command.tier,
        "usage": helptext.usage_line(command),
        "operands": operands,
        "options": options,
        "formats": list(command.formats),
        "examples": [example._asdict() for example in command.examples],
    }

"""Help as text, made from the registry: top level, one noun, one command, topics."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from console.cli import exits
from console.cli.options import CHANGING, COMMON, LISTING, takes_value, variable
from console.config.model import SETTINGS
from console.registry.index import NOUNS, all_commands, commands_of
from console.registry.model import Argument, Command

WIDTH = 96
TAGLINE = "reprieve brings long jobs back after a spot reclaim, and says what it costs"
TOPICS = ("environment", "exit-codes", "formats")
_FORMATS = """\
table    aligned columns for people (the default)
wide     more columns
json     one document; listings as {"schema": "reprieve/<noun>-list/v1", "items": [...]}
ndjson   one document a line, as it comes
csv      a header and one row an item
yaml     the document of json as YAML
name     names only, one a line

Machine formats put nothing but data on stdout, without colour and without questions; an error is also
one JSON object on stderr: {"code", "kind", "message", "hint"}. Times are RFC 3339 UTC, keys carry their
unit, unknown is null.
Durations: 90s, 10m, 1h30m, 2.5h, P1DT2H; a bare number only where a unit is fixed (--hours, --notice).
Sizes: 670GiB, 32GB, bytes when bare. Rates: 10GB/s, 400MiB/s. Fractions: 0.7 or 70%."""


def top() -> str:
    """The text of `reprieve --help`."""
    lines = [
        TAGLINE,
        "",
        "Usage: reprieve [OPTIONS] COMMAND ...",
        "       reprieve    (on a terminal: the console)",
    ]
    group = ""
    for noun in NOUNS:
        if noun.group != group:
            group = noun.group
            lines += ["", group]
        lines.append(f"  {noun.word:<13}{noun.summary}")
    lines += ["", "Options of every command", *_arguments((*COMMON, *CHANGING), defaults=False)]
    lines += ["", "More: reprieve COMMAND --help, reprieve help environment, reprieve help exit-codes"]
    return "\n".join(lines) + "\n"


def short() -> str:
    """What `reprieve` without a terminal and without words prints on stderr."""
    return (
        f"{TAGLINE}\n"
        "Usage: reprieve COMMAND ...; the console needs a terminal\n"
        "Start with: reprieve demo, reprieve plan --help, reprieve --help\n"
    )


def of_noun(word: str) -> str:
    """Help on one noun: its commands."""
    noun = next(noun for noun in NOUNS if noun.word == word)
    commands = commands_of(word)
    space = max((len(command.words) for command in commands), default=0) + 2
    lines = [
        f"reprieve {noun.summary}"
        if noun.summary.startswith(f"{word}:")
        else f"reprieve {word}: {noun.summary}"
    ]
    lines += ["", "Commands"]
    lines += [f"  {command.words:<{space}}{command.summary}" for command in commands]
    return "\n".join([*lines, "", f"More: reprieve {word} VERB --help"]) + "\n"


def of_command(command: Command) -> str:
    """Help on one command: usage, arguments, options, examples."""
    lines = [f"reprieve {command.words}: {command.summary}", "", f"Usage: {usage_line(command)}"]
    if command.details:
        lines += ["", *textwrap.wrap(command.details, WIDTH)]
    operands = [argument for argument in command.arguments if argument.operand]
    own = [argument for argument in command.arguments if not argument.operand]
    listing = LISTING if command.listing else ()
    changing = CHANGING if command.tier else ()
    if operands:
        lines += ["", "Arguments", *_arguments(operands)]
    if own:
        lines += ["", "Options", *_arguments(own)]
    lines += ["", "Options of every command", *_arguments((*listing, *changing, *COMMON))]
    lines[-1:] = [lines[-1], "  formats here: " + ", ".join(command.formats)]
    lines += ["", "Examples"]
    for example in command.examples:
        lines += [f"  {example.line}", f"      {example.does}"]
    return "\n".join(lines) + "\n"


def usage_line(command: Command) -> str:
    """`reprieve jobs move NAME --to NODE [OPTIONS]`."""
    parts = ["reprieve", command.words]
    for argument in command.arguments:
        if argument.operand:
            word = operand_word(argument) + ("..." if argument.many else "")
            parts.append(word if argument.required else f"[{word}]")
        elif argument.required:
            parts.append(f"--{argument.name} {placeholder(argument)}")
    return " ".join([*parts, "[OPTIONS]"])


def operand_word(argument: Argument) -> str:
    """An operand as usage lines show it."""
    return argument.name.upper().replace("-", "_")


def placeholder(argument: Argument) -> str:
    """What stands for an option's value."""
    if argument.kind == "choice":
        return "|".join(argument.choices) if len(argument.choices) <= 4 else "WORD"
    extra = "".join(f"{choice}|" for choice in argument.choices)
    return extra + (argument.kind.upper() if argument.kind != "text" else "TEXT")


def topic(name: str) -> str:
    """Help on a topic of TOPICS."""
    if name == "formats":
        return _FORMATS + "\n"
    if name == "exit-codes":
        return "".join(f"{code:>4}  {meaning}\n" for code, meaning in exits.MEANINGS)
    return _environment()


def _environment() -> str:
    common = {variable(argument): argument.name for argument in (*COMMON, *CHANGING, *LISTING)}
    known = {setting.variable: setting.help for setting in SETTINGS}
    known |= {name: f"--{option} of every command" for name, option in common.items() if name}
    users: dict[str, list[str]] = {}
    for command in all_commands():
        for argument in command.arguments:
            name = variable(argument)
            if name and name not in common:
                users.setdefault(name, []).append(f"{command.words} --{argument.name}")
    known |= {name: ", ".join(places) for name, places in users.items() if name not in known}
    lines = [
        "Every option has a variable, except --yes, --confirm, --force and --i-know-it-is-dead. A flag is 1",
        "or 0; several values are separated by commas. An option on the line wins over its variable, which",
        "wins over the files. NO_COLOR and TERM=dumb switch colour off; XDG_CONFIG_HOME, XDG_STATE_HOME and",
        "XDG_CACHE_HOME move the files.",
        "",
    ]
    space = max(map(len, known)) + 2
    for name, text in sorted(known.items()):
        lines += _hanging(f"{name:<{space}}", text)
    return "\n".join(lines) + "\n"


def _arguments(arguments: Iterable[Argument], *, defaults: bool = True) -> list[str]:
    lines: list[str] = []
    for argument in arguments:
        text = argument.help
        if argument.choices and argument.kind == "choice" and len(argument.choices) > 4:
            text += f": {', '.join(argument.choices)}"
        if defaults and argument.default is not None:
            text += f" (default {argument.default})"
        lines += _hanging(f"  {_typed(argument):<32}", text)
    return lines


def _typed(argument: Argument) -> str:
    if argument.operand:
        return operand_word(argument)
    name = f"-{argument.short}, --{argument.name}" if argument.short else f"    --{argument.name}"
    return f"{name} {placeholder(argument)}" if takes_value(argument) else name


def _hanging(head: str, text: str) -> list[str]:
    indent = " " * min(len(head), 34)
    lines = textwrap.wrap(text, WIDTH - len(indent)) or [""]
    if len(head) > len(indent) or head.rstrip() == head:
        return [head, *(indent + line for line in lines)]
    return [head + lines[0], *(indent + line for line in lines[1:])]

"""From typed words to a command and its values; `line` reads the options, the registry says which there are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from backends.clean import clean
from backends.errors import UsageError
from console.cli.exits import usage
from console.cli.line import is_negative, read_line
from console.cli.options import CHANGING, COMMON, LISTING, SETTLED, options_of, takes_value, variable
from console.registry.index import commands_of, words
from console.registry.model import Argument, Command
from planner import quantities

_TAKE_VALUE = {
    spelling
    for argument in (*COMMON, *CHANGING, *LISTING)
    if takes_value(argument)
    for spelling in (f"--{argument.name}", f"-{argument.short}")
}
_QUANTITIES = {
    "duration": quantities.parse_duration,
    "hours": quantities.parse_hours,
    "seconds": quantities.parse_seconds,
    "size": quantities.parse_size,
    "rate": quantities.parse_rate,
    "fraction": quantities.parse_fraction,
    "float": quantities.parse_number,
}


class Typed(NamedTuple):
    """The words found on the line, and the rest to parse."""

    noun: str  # empty: none was typed
    verb: str | None  # None: the noun needs a verb and none was typed
    rest: tuple[str, ...]
    help: bool  # -h or --help stands on the line


def split(argv: list[str]) -> Typed:
    """Find noun and verb among the options; UsageError for words that name no command."""
    noun, verb, rest = "", None, list[str]()
    wants_help = False
    position = 0
    while position < len(argv):
        token = argv[position]
        position += 1
        if token == "--":
            rest += ["--", *argv[position:]]
            break
        if token in ("-h", "--help"):
            wants_help = True
        elif token.startswith("-") and token != "-":
            rest.append(token)
            if token in _TAKE_VALUE and position < len(argv):
                rest.append(argv[position])
                position += 1
        elif not noun:
            noun = _noun(token)
        elif verb is None:
            verb = _verb(noun, token)
            if not verb:
                rest.append(token)
        else:
            rest.append(token)
    if noun and verb is None and any(not command.verb for command in commands_of(noun)):
        verb = ""
    return Typed(noun, verb, tuple(rest), wants_help)


def _noun(token: str) -> str:
    if token not in words():
        from backends.inventory.document import nearest

        raise usage(
            f"{token!r} is no command of reprieve{nearest(token, words())}; reprieve --help lists them"
        )
    return token


def _verb(noun: str, token: str) -> str:
    verbs = [command.verb for command in commands_of(noun)]
    if token in verbs:
        return token
    if "" in verbs:
        return ""
    from backends.inventory.document import nearest

    raise usage(
        f"{token!r} is no command of reprieve {noun}{nearest(token, verbs)} (reprieve {noun} --help lists them)"
    )


def parse(command: Command, rest: tuple[str, ...], environ: Mapping[str, str]) -> dict[str, Any]:
    """Every argument of `command` and every common option, by name with `-` as `_`, converted by kind.

    Raises:
        UsageError: one line that names the option, the value and the allowed form.
    """
    line, tail = _cut(rest)
    options = options_of(command)
    found, others = read_line(line, options, f"reprieve {command.words}")
    values: dict[str, Any] = {}
    for argument in options:
        typed = found.get(argument.name)
        values[argument.name.replace("-", "_")] = _option(command, argument, typed, environ)
    operands, named = _named_checkpoint(command, _operands(command, others))
    values |= _place(command, operands, tail)
    return _one_job(command, values, named)


def _named_checkpoint(command: Command, operands: list[str]) -> tuple[list[str], str | None]:
    """`JOB/1.14`, as listings name a checkpoint, in the place of `JOB`: the operands with the job alone, and the `1.14`."""
    takes = [argument.kind for argument in command.arguments]
    first = next((argument.kind for argument in command.arguments if argument.operand), None)
    found = re.fullmatch(r"([^/]*)/(\d+\.\d+)", operands[0], re.ASCII) if operands else None
    if found is None or first != "job" or "checkpoint" not in takes:
        return operands, None
    name, checkpoint = found.groups()
    return [name, *operands[1:]], _word("checkpoint", checkpoint, "checkpoint")


def _one_job(command: Command, values: dict[str, Any], named: str | None) -> dict[str, Any]:
    """Checkpoints named as `JOB/1.14` as `1.14`; UsageError when they are of another job, or when two are named."""
    kinds = {argument.name.replace("-", "_"): argument.kind for argument in command.arguments}
    job = next((values[name] for name, kind in kinds.items() if kind == "job" and values.get(name)), None)
    for name, kind in kinds.items():
        if kind != "checkpoint":
            continue
        owner, slash, checkpoint = str(values[name] or "").rpartition("/")
        if slash and owner != job:
            raise usage(f"checkpoint {values[name]} is not one of job {job}")
        if named is not None and checkpoint not in ("", named):
            raise usage(f"two checkpoints are named: {named} and {checkpoint}")
        values[name] = named or checkpoint or None
    return values


def _cut(rest: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The tokens before and after `--`."""
    if "--" not in rest:
        return list(rest), []
    at = rest.index("--")
    return list(rest[:at]), list(rest[at + 1 :])


def _operands(command: Command, others: list[str]) -> list[str]:
    for token in others:
        if token.startswith("-") and token != "-" and not is_negative(token):
            from backends.inventory.document import nearest

            name = token.split("=", 1)[0]
            known = [argument.name for argument in options_of(command)]  # dashes alone make nothing alike
            close = nearest(name.lstrip("-"), known, 0.7).split("; known here")[0].replace("'", "'--", 1)
            raise usage(f"reprieve {command.words} has no option {name!r}{close} (add --help to see them)")
    return others


def _option(command: Command, argument: Argument, typed: Any, environ: Mapping[str, str]) -> Any:
    source = f"--{argument.name}"
    if typed is None:
        name = None if argument.name in SETTLED else variable(argument)
        text = environ.get(name, "") if name else ""
        if text and name:
            source = name
            typed = text.split(",") if argument.many else text
    if typed is None:
        typed = [argument.default] if argument.many and argument.default is not None else argument.default
    if typed is None:
        if argument.required:
            from console.cli.helptext import placeholder

            raise usage(
                f"reprieve {command.words} needs --{argument.name} {placeholder(argument)}: {argument.help}"
            )
        return [] if argument.many else False if argument.kind == "flag" else None
    if argument.many:
        return [convert(argument, text, source) for text in typed]
    return typed if isinstance(typed, (bool, int)) else convert(argument, typed, source)


def _place(command: Command, operands: list[str], tail: list[str]) -> dict[str, Any]:
    """Operands by name; what follows `--` belongs to the last one, when that takes many."""
    values: dict[str, Any] = {}
    left = list(operands)
    if not any(argument.many for argument in command.arguments if argument.operand):
        left, tail = left + tail, []
    for argument in command.arguments:
        if not argument.operand:
            continue
        from console.cli.helptext import operand_word

        word = operand_word(argument)
        taken, left = (left + tail, []) if argument.many else (left[:1], left[1:])
        if not taken and argument.required:
            raise usage(f"reprieve {command.words} needs {word}: {argument.help}")
        if not taken and argument.default is not None:
            taken = [argument.default]
        converted = [convert(argument, text, word) for text in taken]
        values[argument.name.replace("-", "_")] = (
            converted if argument.many else converted[0] if converted else None
        )
    if left:
        raise usage(
            f"reprieve {command.words}: {left[0]!r} is one word too many; add --help to see the usage"
        )
    return values


def convert(argument: Argument, text: str, source: str) -> Any:
    """The value of an argument as typed; UsageError naming `source` (option, operand or variable) otherwise."""
    kind = argument.kind
    if kind == "choice" and text not in argument.choices:
        raise usage(f"{source} is {text!r}; one of {', '.join(argument.choices)} expected")
    if kind == "choice" or text in argument.choices:
        return text
    if kind == "flag":
        if text.lower() not in ("0", "1", "true", "false", "yes", "no"):
            raise usage(f"{source} is {text!r}; 1 or 0 expected")
        return text.lower() in ("1", "true", "yes")
    if kind == "int":
        if not re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII):
            raise usage(f"{source} is {text!r}; a whole number expected")
        return int(text)
    if kind in _QUANTITIES:
        try:
            return _QUANTITIES[kind](text)
        except ValueError as error:
            words_ = f", or {', '.join(argument.choices)}" if argument.choices else ""
            allowed = f" ({argument.allowed})" if argument.allowed else ""
            raise usage(f"{source}: {error}{words_}{allowed}") from None
    return _word(kind, text, source)


def _word(kind: str, text: str, source: str) -> str:
    if "\0" in text or (not text and kind != "text"):
        raise usage(f"{source} is {clean(text)!r}; a {kind} expected")
    if kind not in ("checkpoint", "job", "url"):
        return text
    from backends.ids import CheckpointId, check_name
    from backends.inventory.values import url

    try:
        if kind == "checkpoint" and text != "latest":
            owner, slash, checkpoint = text.rpartition("/")
            return f"{check_name('job', owner) if slash else ''}{slash}{CheckpointId.parse(checkpoint)}"
        if kind == "job":
            return check_name("job", text)
        if kind == "url":
            return url(text)
    except (UsageError, ValueError) as error:
        raise usage(f"{source}: {error}") from None
    return text

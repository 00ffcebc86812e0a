"""The options and operands that stand on a line, as typed: the rules people know from argparse, without its start-up cost.

`--name value`, `--name=value`, `-n value`, `-nvalue`, joined letters (`-qv`); names are never abbreviated. A word that
begins with `-` is a value only when it is `-` itself, a negative number (`-5%`) or holds a blank and names no option.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from console.cli.exits import usage
from console.cli.options import takes_value
from console.registry.model import Argument

_NEGATIVE = r"-\.?\d"  # compiled when first needed


def read_line(line: list[str], options: Iterable[Argument], prog: str) -> tuple[dict[str, Any], list[str]]:
    """Values by option name and all other words, in order.

    A value is text, a list of texts for an option that may be repeated, True for a flag, a count for `verbose`.
    Unknown options are among the other words. UsageError for a value that is missing or one too many.
    """
    known = {f"--{option.name}": option for option in options}
    letters = {f"-{option.short}": option for option in known.values() if option.short}
    found: dict[str, Any] = {}
    others: list[str] = []
    words = iter(line)
    ahead = next(words, None)
    while ahead is not None:
        token, ahead = ahead, next(words, None)
        name, equals, value = token.partition("=")
        if name not in known and token[:2] in letters:
            name, token = token[:2], token[2:]
            while token and not takes_value(letters[name]) and f"-{token[0]}" in letters:  # joined letters
                _set(found, letters[name], None)
                name, token = f"-{token[0]}", token[1:]
            equals, value = token[:1], token.removeprefix("=")
        option = known.get(name) or letters.get(name)
        if option is None:
            others.append(token)
        elif not takes_value(option):
            if equals:
                raise usage(f"{prog}: option --{option.name}: ignored explicit argument {value!r}")
            _set(found, option, None)
        elif equals:
            _set(found, option, value)
        elif ahead is None or ahead[:2] in letters or not _is_value(ahead):
            raise usage(f"{prog}: option --{option.name}: expected one argument")
        else:
            _set(found, option, ahead)
            ahead = next(words, None)
    return found, others


def _is_value(token: str) -> bool:
    """Whether a word can follow an option as its value, or stand as an operand."""
    return token[:1] != "-" or token == "-" or " " in token or is_negative(token)


def is_negative(token: str) -> bool:
    """Whether a word begins like a negative number."""
    return token[:1] == "-" and re.match(_NEGATIVE, token) is not None


def _set(found: dict[str, Any], option: Argument, text: str | None) -> None:
    if text is None:
        found[option.name] = found.get(option.name, 0) + 1 if option.name == "verbose" else True
    elif option.many:
        found.setdefault(option.name, []).append(text)
    else:
        found[option.name] = text

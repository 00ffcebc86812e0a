"""Where each key of a TOML text stands: `tomllib` keeps no positions, and messages must name the line."""

from __future__ import annotations

import re

Path = tuple[str, ...]

_PART = re.compile(r"""\s*(?:([A-Za-z0-9_-]+)|"((?:[^"\\]|\\.)*)"|'([^']*)')\s*""")
_ESCAPE = re.compile(r'\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([btnfr"\\]))')
_CONTROL = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}


def key_lines(text: str) -> dict[Path, int]:
    """Line number (from 1) of every table and key of a valid TOML `text`; keys of inline tables are left out.

    Tables of an array share the line of the first. Text that TOML does not allow gives a shorter answer,
    never an exception.
    """
    found: dict[Path, int] = {}
    table: Path = ()
    position, line = 0, 1
    while position < len(text):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        stripped = text[position:end].strip()
        if not stripped or stripped.startswith("#"):
            position, line = end + 1, line + 1
            continue
        if stripped.startswith("["):
            table = _header(stripped)
            _note(found, table, line, depth=0)
            position, line = end + 1, line + 1
            continue
        key, after = _key(text, position)
        if key:
            _note(found, table + key, line, depth=len(table))
        stop = _end_of_value(text, after)
        line += text.count("\n", position, stop) + 1
        position = stop + 1
    return found


def _note(found: dict[Path, int], path: Path, line: int, *, depth: int) -> None:
    for length in range(depth + 1, len(path) + 1):
        found.setdefault(path[:length], line)


def _header(stripped: str) -> Path:
    inner = stripped.removeprefix("[").removeprefix("[")
    return _key(inner, 0)[0]


def _key(text: str, position: int) -> tuple[Path, int]:
    """The dotted key that starts at `position`, and where it ends."""
    parts: list[str] = []
    while match := _PART.match(text, position):
        bare, basic, literal = match.groups()
        parts.append(bare if bare is not None else literal if literal is not None else _unescape(basic))
        position = match.end()
        if text[position : position + 1] != ".":
            break
        position += 1
    return tuple(parts), position


def _unescape(text: str) -> str:
    def value(match: re.Match[str]) -> str:
        short, long, control = match.groups()
        return _CONTROL[control] if control else chr(min(int(short or long, 16), 0x10FFFF))

    return _ESCAPE.sub(value, text)


def _end_of_value(text: str, position: int) -> int:
    """Index of the line end that closes the value started at `position` (or the end of the text)."""
    depth = 0
    while position < len(text):
        char = text[position]
        if char == "\n" and depth <= 0:
            return position
        if char == "#":
            position = text.find("\n", position)
            if position < 0:
                return len(text)
            continue
        if char in "\"'":
            position = _end_of_string(text, position)
            continue
        depth += (char in "[{") - (char in "]}")
        position += 1
    return len(text)


def _end_of_string(text: str, position: int) -> int:
    """Index after the string that starts at `position`."""
    quote = text[position]
    closing = quote * 3 if text.startswith(quote * 3, position) else quote
    position += len(closing)
    while position < len(text):
        if quote == '"' and text[position] == "\\":
            position += 2
            continue
        if text.startswith(closing, position):
            position += len(closing)
            while len(closing) == 3 and text.startswith(quote, position):
                position += 1  # up to two quotes may stand right before the closing three
            return position
        if text[position] == "\n" and len(closing) == 1:
            return position
        position += 1
    return len(text)

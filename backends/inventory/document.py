"""TOML files as read by this program: capped, with line numbers, and errors that name file and line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from backends.clean import clean
from backends.errors import UsageError
from backends.inventory.lines import key_lines

FILE_LIMIT = 16 << 20  # bytes of one file
DEPTH_LIMIT = 16  # nested tables and arrays


@dataclass(frozen=True)
class Document:
    """One parsed file."""

    path: Path
    text: str
    data: dict[str, Any]

    @cached_property
    def _lines(self) -> dict[tuple[str, ...], int]:
        return key_lines(self.text)

    def line(self, *keys: str) -> int | None:
        """Line of the key at this path, or of the nearest key above it that has one."""
        for length in range(len(keys), 0, -1):
            found = self._lines.get(tuple(keys[:length]))
            if found is not None:
                return found
        return None

    def where(self, *keys: str) -> str:
        """`file:line` of a key, for messages."""
        line = self.line(*keys)
        return f"{self.path}:{line}" if line else str(self.path)

    def error(self, message: str, *keys: str) -> UsageError:
        """An error about the key at this path: `file:line: message`, one line."""
        return UsageError(clean(f"{self.where(*keys)}: {message}", limit=600))

    def unknown(self, keys: tuple[str, ...], known: Iterable[str]) -> UsageError:
        """The error for a key that is not known here, with the nearest known one."""
        where = f" in [{'.'.join(keys[:-1])}]" if len(keys) > 1 else ""
        return self.error(f"unknown key {keys[-1]!r}{where}{nearest(keys[-1], known)}", *keys)

    def table(self, *keys: str) -> dict[str, Any]:
        """The table at this path, empty when absent; an error when it is no table."""
        value: Any = self.data
        for index, key in enumerate(keys):
            value = value.get(key, {})
            if not isinstance(value, dict):
                raise self.error(f"[{'.'.join(keys[: index + 1])}] must be a table", *keys[: index + 1])
        return dict(value)


def nearest(word: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """`; did you mean 'x'?` with the nearest known word of at least this likeness (0 to 1), else the known words."""
    import difflib

    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=likeness)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known here: {', '.join(names)}" if names else ""


def read_document(path: Path) -> Document:
    """Parse one TOML file; UsageError naming file and line for anything that cannot be read."""
    try:
        with path.open("rb") as handle:
            data = handle.read(FILE_LIMIT + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {clean(error.strerror or error)}") from None
    if len(data) > FILE_LIMIT:
        raise UsageError(f"{path}: more than {FILE_LIMIT >> 20} MiB, which is the most that is read")
    return parse_document(path, data)


def parse_document(path: Path, data: bytes) -> Document:
    """Parse the bytes of a TOML file named `path`; same errors as `read_document`."""
    try:
        text = data.decode("utf-8")
        parsed = tomllib.loads(text)
        _check_depth(parsed, 0)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8 text") from None
    except (ValueError, RecursionError, OverflowError) as error:
        raise UsageError(clean(f"{path}: not the TOML expected: {error}", limit=600)) from None
    return Document(path, text.replace("\r\n", "\n"), parsed)


def _check_depth(value: object, depth: int) -> None:
    if depth > DEPTH_LIMIT:
        raise ValueError(f"nested deeper than {DEPTH_LIMIT}")
    if isinstance(value, dict):
        for item in value.values():
            _check_depth(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check_depth(item, depth + 1)

"""Plain data as TOML text: tables, lists, text, numbers, booleans. Reads back equal with `tomllib`."""

from __future__ import annotations

import math
import re
from typing import Any

from backends.clean import clean
from backends.errors import UsageError

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def table(path: tuple[str, ...], data: dict[str, Any]) -> str:
    """The text of one table `[path]`; nested tables are written inline. None values are left out.

    Raises UsageError for a value that TOML cannot hold.
    """
    lines = [f"[{'.'.join(_key(part) for part in path)}]"]
    lines += [f"{_key(key)} = {_value(value)}" for key, value in data.items() if value is not None]
    return "\n".join(lines) + "\n"


def _key(key: str) -> str:
    return key if _BARE.match(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UsageError(f"{value} cannot be written into a fleet file: a finite number is expected")
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    raise TypeError(f"TOML holds no {type(value).__name__}")


def _text(value: str) -> str:
    parts = []
    for char in value:
        code = ord(char)
        if 0xD800 <= code < 0xE000:
            raise UsageError(
                f"{clean(value, limit=80)!r} is not valid text and cannot be written into a fleet file"
            )
        if char in _SHORT:
            parts.append(_SHORT[char])
        elif code < 0x20 or 0x7F <= code < 0xA0:
            parts.append(f"\\u{code:04x}")
        else:
            parts.append(char)
    return f'"{"".join(parts)}"'

"""Values as people read them in a table: by the unit in the key's name. Unknown is `–`."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any, NamedTuple

from backends.clean import clean
from planner.quantities import format_duration, format_fraction, format_size

UNKNOWN = "–"
CELL_LIMIT = 4096


class Column(NamedTuple):
    """One column of a listing."""

    key: str  # key of the item; `a.b` looks into a nested object
    header: str = ""  # default: the key without its unit, in capitals
    wide: bool = False  # only with -o wide
    doubt: str = ""  # key of a flag: `~` before the value of an item that has it set

    @property
    def title(self) -> str:
        """The header as printed."""
        if self.header:
            return self.header
        stem = self.key
        for unit in ("_bytes", "_s", "_hours", "_fraction"):
            stem = stem.removesuffix(unit)
        return stem.replace("_", " ").replace(".", " ").upper()


def look_up(item: dict[str, Any], key: str) -> Any:
    """The value at `key` or at the dotted path `key`; None when there is none."""
    if key in item:
        return item[key]
    value: Any = item
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value


def cell(key: str, value: Any) -> str:
    """`value` as text, chosen by the unit that `key` ends with; control characters made visible."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return _number(key, value)
    if isinstance(value, (list, tuple)):
        return ", ".join(cell("", item) for item in value) if value else UNKNOWN
    if isinstance(value, dict):
        return " ".join(f"{clean(name)}={cell('', item)}" for name, item in value.items()) or UNKNOWN
    return clean(value, limit=CELL_LIMIT)


def _number(key: str, value: float) -> str:
    if key.endswith("_s"):
        return format_duration(value)
    if key.endswith("_bytes"):
        return format_size(value)
    if key.endswith("_fraction"):
        return format_fraction(value)
    if key == "p_finish":
        return format_fraction(value, digits=2)
    if isinstance(value, int):
        return str(value)
    return f"{value:.6g}"


def width(text: str) -> int:
    """Terminal columns that `text` takes: wide characters count two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def grid(
    headers: list[str],
    rows: list[list[str]],
    *,
    right: list[bool],
    paint: Callable[[str], str] = str,
) -> list[str]:
    """Rows under their headers, columns aligned; `right`: columns of numbers; `paint` colours a row's cell."""
    table = [headers, *rows]
    widths = [max(width(row[index]) for row in table) for index in range(len(headers))]
    lines = []
    for number, row in enumerate(table):
        cells = []
        for index, text in enumerate(row):
            pad = " " * (widths[index] - width(text))
            drawn = paint(text) if number else text
            cells.append(pad + drawn if right[index] else drawn + pad)
        lines.append("  ".join(cells).rstrip())
    return lines

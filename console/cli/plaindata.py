"""Plain data as YAML and CSV text: written by hand because a safe subset is all that is needed."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

# Words and shapes that some YAML reader takes for something else than text are always quoted.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*( [A-Za-z][A-Za-z0-9_./-]*)*\Z")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}


def to_yaml(value: Any) -> str:
    """`value` (dicts, lists, text, numbers, booleans, None) as YAML 1.1 and 1.2 text that reads back equal."""
    if isinstance(value, (dict, list, tuple)) and value:
        return "".join(line + "\n" for line in _block(value))
    return _scalar(value) + "\n"


def _block(value: Any) -> list[str]:
    lines: list[str] = []
    if isinstance(value, dict):
        for key, item in value.items():
            head = f"{_scalar(str(key))}:"
            if _nested(item):
                lines.append(head)
                lines.extend("  " + line for line in _block(item))
            else:
                lines.append(f"{head} {_scalar(item)}")
        return lines
    for item in value:
        if _nested(item):
            inner = _block(item)
            lines.append("- " + inner[0])
            lines.extend("  " + line for line in inner[1:])
        else:
            lines.append(f"- {_scalar(item)}")
    return lines


def _nested(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple)) and bool(value)


def _scalar(value: Any) -> str:
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, (list, tuple)):
        return "[]"
    if isinstance(value, str) and _PLAIN.match(value) and value.lower() not in _WORDS:
        return value
    if isinstance(value, float):
        # YAML 1.1 takes 1e+20 for text: it wants a dot before the exponent.
        text = json.dumps(value, allow_nan=False)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def to_csv(rows: list[dict[str, Any]]) -> str:
    """Rows as CSV with a header of all keys in order of appearance; nested values are JSON, unknown is empty."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    lines = [names, *([_field(row.get(name)) for name in names] for row in rows)] if names else []
    return "".join(_csv_line(line) + "\n" for line in lines)


def _csv_line(fields: list[str]) -> str:
    out = io.StringIO()
    # Written with CR LF so that fields with either character are quoted, then ended the Unix way.
    csv.writer(out, lineterminator="\r\n").writerow(fields)
    return out.getvalue().removesuffix("\r\n")


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=True, allow_nan=False)

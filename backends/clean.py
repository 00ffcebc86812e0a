"""The one cleaning function for text from nodes, jobs, feeds and files.

Foreign text may hold control sequences, bidirectional marks, zero-width characters or lone surrogates that
take over a terminal or forge a line. `clean` makes each of them visible and caps the length; it is applied
once, where the text enters the program.
"""

from __future__ import annotations

import functools
import re

FIELD_LIMIT = 256
BLOB_LIMIT = 64 * 1024

# Bidirectional controls, zero-width and invisible format characters, line and paragraph separators.
_UNSAFE = (
    r"[\x00-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


@functools.cache
def _unsafe() -> re.Pattern[str]:
    """Compiled when the first foreign text comes: many commands meet none."""
    return re.compile(_UNSAFE)


def _visible(match: re.Match[str]) -> str:
    return _code(ord(match.group()))


def _shown(char: str) -> str:
    return char if char.isprintable() or char == "\n" else _code(ord(char))


def _code(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def clean(text: object, *, limit: int = FIELD_LIMIT, lines: bool = False) -> str:
    """Return `text` safe to store and draw: unsafe characters escaped visibly, at most `limit` characters.

    Args:
        text: anything; bytes are decoded as UTF-8 with replacement, other values through `str`.
        limit: longest result in characters; a cut is marked with `…`.
        lines: keep newlines (for logs); tabs become spaces. Otherwise both are escaped.
    """
    value = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    value = value[: limit + 1]
    if lines:
        value = value.replace("\r\n", "\n").replace("\t", "    ")
        value = "\n".join(_unsafe().sub(_visible, line) for line in value.split("\n"))
    else:
        value = _unsafe().sub(_visible, value)
    import unicodedata

    value = unicodedata.normalize("NFC", value)
    if (
        not value.isprintable()
    ):  # unassigned and private characters, odd blanks: nobody knows how they are drawn
        value = "".join(_shown(char) for char in value)
    return value if len(value) <= limit else value[: limit - 1] + "…"

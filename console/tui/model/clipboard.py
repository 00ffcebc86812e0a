"""Copying through the terminal by OSC 52, also from inside tmux and screen, which must be asked to pass it on."""

from __future__ import annotations

import base64
from collections.abc import Mapping

LIMIT = 74_994  # base64 characters that common terminals take
_PIECE = 76  # bytes that screen passes on at a time


def sequence(text: str, environ: Mapping[str, str]) -> str | None:
    """What to write to the terminal; None when the text is too long for terminals to take."""
    data = base64.b64encode(text.encode()).decode("ascii")
    if len(data) > LIMIT:
        return None
    plain = f"\x1b]52;c;{data}\x07"
    if environ.get("TMUX"):
        return "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if environ.get("TERM", "").startswith("screen"):
        return "".join(f"\x1bP{plain[at : at + _PIECE]}\x1b\\" for at in range(0, len(plain), _PIECE))
    return plain

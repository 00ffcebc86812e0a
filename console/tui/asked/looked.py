"""Reading answers to looks: what is missing or of another kind than expected is unknown, never 0."""

from __future__ import annotations

import math

from console.tui.looks import Looked
from console.tui.model import text
from console.tui.model.cells import Cell


def number(value: object) -> float | None:
    """A finite number, else None."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def whole(value: object) -> int | None:
    """A whole number, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def word_or_none(value: object) -> str | None:
    """A text that is not empty, else None."""
    return value if isinstance(value, str) and value else None


def told(question: Looked, now: float, usual_s: float) -> Cell:
    """How good an answer is, for the edge of a pane: `asked 4s ago`, `STALE 3m: …`, `asking…`."""
    age = question.age_s(now)
    if question.failure is not None:
        since = "no answer yet" if age is None else f"STALE {text.brief(age)}"
        return Cell(f"{since}: {question.failure}", "bad")
    if age is None:
        return Cell("asking…", "warn")
    if age > 3 * usual_s:
        return Cell(f"STALE {text.brief(age)}", "bad")
    return Cell(f"asked {text.brief(age)} ago" + (" · asking…" if question.asking else ""), "muted")

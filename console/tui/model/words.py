"""States as word, glyph and tone; word and glyph alone tell them apart, so no colour is needed.

A tone is a role, not a colour: themes decide how each is drawn (`console.tui.themes`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Tone = Literal["plain", "muted", "ok", "info", "warn", "bad", "alarm", "accent", "strong", "title"]
TONES: tuple[Tone, ...] = get_args(Tone)


@dataclass(frozen=True)
class Word:
    """One state as it is drawn."""

    glyph: str  # one cell wide
    word: str
    tone: Tone

    def __str__(self) -> str:
        return f"{self.glyph} {self.word}"


JOB: dict[str, Word] = {
    "unprotected": Word("○", "unprotected", "bad"),
    "trial": Word("◔", "trial save", "info"),
    "unrehearsed": Word("◐", "unrehearsed", "warn"),
    "protected": Word("●", "protected", "ok"),
    "overdue": Word("▲", "overdue", "warn"),
    "noticed": Word("◆", "NOTICE", "alarm"),
    "unreachable": Word("?", "unreachable", "warn"),
    "waiting_proof": Word("…", "waits: proof", "warn"),
    "waiting_capacity": Word("⋯", "waits: node", "warn"),
    "restoring": Word("↻", "restoring", "info"),
    "cold_start": Word("↺", "cold start", "bad"),
    "isolated": Word("⊘", "isolated", "bad"),
    "zombie": Word("✖", "ZOMBIE", "alarm"),
    "paused": Word("‖", "paused", "warn"),
    "stopped": Word("■", "stopped", "muted"),
    "finished": Word("✓", "finished", "muted"),
    "failed": Word("✗", "FAILED", "bad"),
    "ended_unknown": Word("¿", "ended, why?", "bad"),
}

# `waiting_capacity` by what is awaited: no machine, or only whoever restores it.
AWAITED: dict[str, Word] = {
    "node": Word("⋯", "waits: node", "warn"),
    "controller": Word("⋯", "waits: watch", "warn"),
    "operator": Word("⋯", "waits: you", "bad"),
}

NODE: dict[str, Word] = {
    "ok": Word("●", "ok", "ok"),
    "late": Word("◑", "late", "warn"),
    "unreachable": Word("?", "unreachable", "bad"),
    "lost": Word("✗", "LOST", "alarm"),
    "not_ready": Word("○", "not ready", "warn"),
    "cordoned": Word("‖", "cordoned", "muted"),
}

NOTICE: dict[str, Word] = {
    "none": Word("·", "none", "muted"),
    "hint": Word("◇", "hint", "warn"),
    "notice": Word("◆", "NOTICE", "alarm"),
    "unreadable": Word("!", "unreadable", "warn"),
}

OPERATION: dict[str, Word] = {
    "running": Word("▸", "running", "info"),
    "done": Word("✓", "done", "ok"),
    "failed": Word("✗", "failed", "bad"),
    "cancelled": Word("■", "cancelled", "muted"),
}

CHECKPOINT: dict[str, Word] = {
    "saved": Word("◐", "saved", "plain"),
    "verified": Word("●", "verified", "ok"),
    "rehearsed": Word("◉", "rehearsed", "ok"),
    "damaged": Word("✗", "damaged", "bad"),
    "orphan": Word("○", "orphan", "muted"),
}

ITEM: dict[str, Word] = {
    "planned": Word("·", "planned", "muted"),
    "running": Word("▸", "running", "info"),
    "restored": Word("✓", "restored", "ok"),
    "already_restored": Word("✓", "runs already", "ok"),
    "failed": Word("✗", "failed", "bad"),
    "refused": Word("⊘", "refused", "bad"),
    "cancelled": Word("■", "cancelled", "muted"),
}

# First match wins; the kind of an event is dotted lower case.
_EVENTS: tuple[tuple[str, Word], ...] = (
    ("notice.", Word("◆", "", "bad")),
    ("job.zombie", Word("✖", "", "bad")),
    ("node.lost", Word("✗", "", "bad")),
    ("job.isolated", Word("⊘", "", "bad")),
    ("restore.done", Word("✓", "", "ok")),
    ("restore.", Word("↻", "", "info")),
    ("move.", Word("→", "", "info")),
    ("save.committed", Word("●", "", "ok")),
    ("save.", Word("◔", "", "info")),
    ("proof.", Word("†", "", "warn")),
    ("node.", Word("▪", "", "info")),
)


def of(table: dict[str, Word], state: str | None) -> Word:
    """The word of `state`; a state this version does not know is shown as it came, marked `?`."""
    if state is None:
        return Word("–", "unknown", "muted")
    return table.get(state) or Word("?", state, "warn")


def of_event(kind: str) -> Word:
    """Glyph and tone of an event, its kind as the word; whatever failed is drawn as bad."""
    if kind.endswith((".failed", ".refused", ".damaged")):
        return Word("✗", kind, "bad")
    for prefix, word in _EVENTS:
        if kind.startswith(prefix):
            return Word(word.glyph, kind, word.tone)
    return Word("·", kind, "plain")

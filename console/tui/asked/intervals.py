"""Intervals to choose from for a job: the planner's advice first, when enough is known of the job."""

from __future__ import annotations

from dataclasses import dataclass

from console.operations.view import JobRow
from console.pictures.figures import hours
from console.tui.asked import planner
from console.tui.looks import Looked
from console.tui.model.cells import Cell
from planner.quantities import parse_duration

_STEPS = ("1m", "2m", "5m", "10m", "15m", "30m", "1h", "2h")


@dataclass(frozen=True)
class Offer:
    """One interval as typed, and what speaks for it."""

    words: str
    note: Cell


def offers(job: JobRow, asked: Looked) -> tuple[Offer, ...]:
    """The advice with its reason (or why there is none), `auto`, then the usual steps; the present one is named."""
    found: list[Offer] = []
    advice, why = _advice(asked)
    if advice is not None:
        found.append(Offer(advice, Cell(f"advised: {why}", "accent")))
    found.append(Offer("auto", Cell(
        "the guard chooses from measured costs" + ("" if advice is not None else f"; no advice here: {why}"), "muted"
    )))  # fmt: skip
    note = Cell("at most so much work is at risk", "muted")
    found += [Offer(step, note) for step in _STEPS if step != advice]
    now = "" if job.interval_s is None else f"{job.interval_s:g}s"
    return tuple(
        Offer(offer.words, Cell(f"as it is now · {offer.note.text}", offer.note.tone))
        if _same(offer.words, now)
        else offer
        for offer in found
    )


def _same(words: str, now: str) -> bool:
    if not now or words == "auto":
        return False
    return abs(parse_duration(words) - parse_duration(now)) < 0.5


def _advice(asked: Looked) -> tuple[str | None, str]:
    if asked.document is None:
        return None, asked.failure or "nothing is known of the job yet"
    values = asked.document.get("values")
    texts = planner.typed_of(values if isinstance(values, dict) else {})
    texts.setdefault("hours", "24")
    texts.setdefault("discount", "0.5")  # the advice does not depend on it
    texts.setdefault("restore", "0s")  # nor on this
    texts["interval"] = "auto"
    answer = planner.answer(texts)
    if answer.document is None:
        return None, answer.error.replace("--", "")
    part = answer.document["interval"]
    if part is None or part["recommended_hours"] is None:
        return None, "too little is known of its saves and of reclaims"
    seconds = round(part["recommended_hours"] * 3600.0)
    safe = f"{hours(part['safe_low_hours'])} to {hours(part['safe_high_hours'])} are within 1 % of the best"
    return (f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"), safe

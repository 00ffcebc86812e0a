"""The Batch table: scripted runs, and what became of each item."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from console.tui.asked.looked import number, word_or_none
from console.tui.model import text, words
from console.tui.model.cells import NOTHING, Cell, Column
from console.tui.model.columns import plain
from console.tui.model.detail import Line, Section

Document = dict[str, Any]
BAD = ("failed", "refused", "cancelled")
OPEN = ("planned", "running")


@dataclass(frozen=True)
class BatchRow:
    """One run with its items."""

    run: str
    state: str
    created_at: float | None
    finished_at: float | None
    file: str | None
    detail: str
    items: tuple[Document, ...]

    @property
    def counts(self) -> Counter[str]:
        """Items by state."""
        return Counter(str(item.get("state")) for item in self.items)


def row(document: Document) -> BatchRow:
    """A row from a batch's document."""
    items = document.get("items")
    return BatchRow(
        str(document.get("name") or ""),
        str(document.get("state") or "unknown"),
        text.seconds_of(str(document.get("created_at") or "")),
        text.seconds_of(str(document.get("finished_at") or "")),
        word_or_none(document.get("file")),
        str(document.get("detail") or ""),
        tuple(item for item in items if isinstance(item, dict)) if isinstance(items, list) else (),
    )


def _state(each: BatchRow) -> Cell:
    word = words.of(words.OPERATION, each.state)
    return Cell(str(word), word.tone)


def _lasted(each: BatchRow, now: float) -> float | None:
    if each.created_at is None:
        return None
    if each.finished_at is None and each.state != "running":
        return None
    return max(0.0, (each.finished_at if each.finished_at is not None else now) - each.created_at)


def _done(each: BatchRow) -> Cell:
    ended = sum(count for state, count in each.counts.items() if state not in OPEN)
    return Cell(f"{ended}/{len(each.items)}", "plain")


def _bad(each: BatchRow) -> int:
    return sum(each.counts[state] for state in BAD)


COLUMNS: tuple[Column[BatchRow], ...] = (
    Column("run", "RUN", lambda b, _: Cell(b.run, "strong"), lambda b, _: b.run, 22, grow=6),
    Column("state", "STATE", lambda b, _: _state(b), lambda b, _: b.state, 12, priority=1, worded=True),
    Column("ended", "ENDED", lambda b, _: _done(b), lambda b, _: float(len(b.items)), 8, right=True, priority=2),
    Column("failed", "NOT DONE", lambda b, _: Cell(str(_bad(b)), "bad" if _bad(b) else "muted"), lambda b, _: float(_bad(b)), 8, right=True, priority=3),
    Column("began", "BEGAN", lambda b, now: plain(text.time_of_day(b.created_at, now), "muted"), lambda b, _: b.created_at, 11, right=True, priority=4),
    Column("took", "TOOK", lambda b, now: plain(_worded(_lasted(b, now))), _lasted, 8, right=True, priority=5, ticks=True),
    Column("file", "FILE", lambda b, _: plain(b.file), lambda b, _: b.file, 16, grow=30, priority=6),
    Column("detail", "DETAIL", lambda b, _: Cell(b.detail, "muted"), lambda b, _: b.detail, 12, grow=200, priority=7),
)  # fmt: skip


def _worded(seconds: float | None) -> str | None:
    return None if seconds is None else text.duration(seconds)


def sections(each: BatchRow, now: float) -> tuple[Section, ...]:
    """Counts, items with their reasons, and how to go on."""
    counts = ", ".join(f"{count} {state}" for state, count in sorted(each.counts.items())) or "no items"
    head: list[Line] = [
        ("state", (_state(each),)),
        ("items", (Cell(counts),)),
        ("began", (Cell(text.time_of_day(each.created_at, now)), Cell("  took ", "muted"), plain(_worded(_lasted(each, now))))),
        ("file", (plain(each.file),)),
    ]  # fmt: skip
    left = sum(each.counts[state] for state in OPEN)
    more: list[Line] = []
    if left and each.state == "running":
        more = [
            (
                "",
                (
                    Cell(
                        f"{text.count(left, 'item')} have no end yet. If no console works on them, go on with:"
                    ),
                ),
            ),
            ("", (Cell(f"$ reprieve batch resume {each.run}", "accent"),)),
        ]
    lines = [line for item in each.items for line in _item(item)]
    return (
        Section("run", tuple(head)),
        *([Section("unfinished", tuple(more))] if more else []),
        Section("items", tuple(lines) or (("", (NOTHING,)),)),
    )


def _item(item: Document) -> list[Line]:
    word = words.of(words.ITEM, str(item.get("state")))
    node = word_or_none(item.get("node"))
    cells = [Cell(f"{word} ", word.tone)]
    if node:
        cells.append(Cell(f"on {node} from {item.get('checkpoint') or text.UNKNOWN}  "))
    lost = number(item.get("lost_work_s"))
    if lost is not None:
        cells.append(Cell(f"lost {text.duration(lost)}  ", "muted"))
    lines: list[Line] = [(str(item.get("job") or text.UNKNOWN), tuple(cells))]
    reason = word_or_none(item.get("reason"))
    if reason:
        lines.append(("", (Cell(f"  {reason}", "bad" if item.get("state") in BAD else "muted"),)))
    return lines

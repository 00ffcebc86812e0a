"""The Checkpoints table: what a job can come back to, and what each save needs of a node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from console.operations.view import FleetView
from console.tui.asked.looked import number, whole, word_or_none
from console.tui.model import columns, text, words
from console.tui.model.cells import NOTHING, Cell, Column
from console.tui.model.columns import plain
from console.tui.model.detail import Line, Section, facts_of

Document = dict[str, Any]


@dataclass(frozen=True)
class CheckpointRow:
    """One checkpoint as its store has it."""

    job: str
    uid: str
    checkpoint: str
    state: str  # saved | verified | rehearsed | damaged | orphan
    frozen_at: float | None  # wall
    size_bytes: int | None
    node: str | None
    engine: str | None
    freeze_s: float | None
    upload_s: float | None
    verified: bool
    rehearsed_on: str | None
    reason: str
    store: str
    fingerprint: Document = field(default_factory=dict)

    @property
    def key(self) -> str:
        """What it is known by."""
        return f"{self.uid or self.job}/{self.checkpoint}"

    @property
    def usable(self) -> bool:
        """Whether a job can come back from it."""
        return self.state not in ("damaged", "orphan")


def row(document: Document) -> CheckpointRow:
    """A row from a checkpoint's document; what is missing or of another kind is unknown."""
    frozen = document.get("frozen_at")
    fingerprint = document.get("fingerprint")
    return CheckpointRow(
        str(document.get("job") or ""),
        str(document.get("uid") or ""),
        str(document.get("checkpoint") or ""),
        str(document.get("state") or "unknown"),
        text.seconds_of(frozen) if isinstance(frozen, str) else None,
        whole(document.get("size_bytes")),
        word_or_none(document.get("node")),
        word_or_none(document.get("engine")),
        number(document.get("freeze_s")),
        number(document.get("upload_s")),
        document.get("verified") is True,
        word_or_none(document.get("rehearsed_on")),
        str(document.get("reason") or ""),
        str(document.get("store") or ""),
        fingerprint if isinstance(fingerprint, dict) else {},
    )


def order(checkpoint: str) -> float | None:
    """(epoch, seq) as one number that sorts as they do; None for a name that is none."""
    epoch, _, seq = checkpoint.partition(".")
    return int(epoch) * 1e9 + int(seq) if epoch.isdecimal() and seq.isdecimal() else None


def _state(each: CheckpointRow) -> Cell:
    word = words.of(words.CHECKPOINT, each.state)
    return Cell(str(word), word.tone)


def _age(each: CheckpointRow, now: float) -> float | None:
    return None if each.frozen_at is None else max(0.0, now - each.frozen_at)


COLUMNS: tuple[Column[CheckpointRow], ...] = (
    Column("job", "JOB", lambda c, _: Cell(c.job, "strong" if c.usable else "muted"), lambda c, _: c.job, 14, grow=20),
    Column("checkpoint", "CKPT", lambda c, _: plain(c.checkpoint), lambda c, _: order(c.checkpoint), 7, right=True, priority=1),
    Column("state", "STATE", lambda c, _: _state(c), lambda c, _: c.state, 12, priority=2, worded=True),
    Column("age", "AGE", lambda c, now: plain(_worded(_age(c, now))), _age, 8, right=True, priority=3, ticks=True),
    Column("size", "SIZE", lambda c, _: plain(text.size(c.size_bytes), "plain"), lambda c, _: c.size_bytes, 8, right=True, priority=4),
    Column("node", "SAVED ON", lambda c, _: plain(c.node), lambda c, _: c.node, 12, grow=8, priority=5),
    Column("engine", "ENGINE", lambda c, _: plain(c.engine), lambda c, _: c.engine, 7, priority=7),
    Column("freeze", "PAUSE", lambda c, _: plain(text.pause(c.freeze_s)), lambda c, _: c.freeze_s, 7, right=True, priority=8),
    Column("upload", "UPLOAD", lambda c, _: plain(text.pause(c.upload_s)), lambda c, _: c.upload_s, 8, right=True, priority=9),
    Column("rehearsed", "RAN ON", lambda c, _: plain(c.rehearsed_on), lambda c, _: c.rehearsed_on, 10, grow=8, priority=10),
    Column("why", "WHY NOT", lambda c, _: Cell(c.reason, "bad"), lambda c, _: c.reason, 16, grow=200, priority=6),
)  # fmt: skip


def _worded(seconds: float | None) -> str | None:
    return None if seconds is None else text.duration(seconds)


def sections(view: FleetView, each: CheckpointRow, now: float) -> tuple[Section, ...]:
    """What the save is, and what it needs."""
    job = next((job for job in view.jobs if job.name == each.job), None)
    newest = job is not None and job.checkpoint == each.checkpoint
    trust = {
        "rehearsed": f"it ran on {each.rehearsed_on}: the best proof there is",
        "verified": "another party than the node has read it back",
        "saved": "its guard has read it back; nobody else has yet: V verifies it",
        "damaged": "a job cannot come back from it",
        "orphan": "it is not on the job's chain: never used",
    }.get(each.state, "")
    head: list[Line] = [
        ("state", (_state(each),)),
        *([("", (Cell(trust, "muted"),))] if trust else []),
        *([("why", (Cell(each.reason, "bad"),))] if each.reason else []),
        ("newest", (Cell("yes: a restore takes this one" if newest and each.usable else "no", "plain"),)),
    ]
    made: list[Line] = [
        ("frozen", (Cell(f"{text.time_of_day(each.frozen_at, now)}Z, {_worded(_age(each, now)) or text.UNKNOWN} ago"),)),
        ("saved on", (plain(each.node),)),
        ("engine", (plain(each.engine),)),
        ("size", (Cell(text.size(each.size_bytes)),)),
        ("pause", (Cell(text.pause(each.freeze_s)), Cell("  until durable ", "muted"), Cell(text.pause(each.upload_s)))),
        ("store", (plain(each.store or None, "muted"),)),
    ]  # fmt: skip
    needs = facts_of(each.fingerprint) or (("", (Cell("the save does not say", "muted"),)),)
    lost = [] if job is None else [("at risk now", (columns.risk(job, now),))]
    running: list[Line] = (
        [("", (NOTHING,))]
        if job is None
        else [("state", (columns.job_state(job),)), ("node", (plain(job.node),)), *lost]
    )
    return (
        Section("can it be used?", tuple(head)),
        Section("the save", tuple(made)),
        Section("the job now", tuple(running)),
        Section("what it needs of a node", tuple(needs)),
    )

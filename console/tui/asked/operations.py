"""Operations as a list: this console's own and the fleet's journal, with how far each is and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.operations.steps import step_words
from console.operations.view import FleetView, JobRow
from console.tui.looks import Looked
from console.tui.model import text, words
from console.tui.model.cells import NOTHING, Cell, Column, gauge
from console.tui.model.columns import plain
from console.tui.model.detail import Line, Section
from console.tui.model.plans import Plan, raised
from console.tui.tasks import Operation

BAR = 10


@dataclass(frozen=True)
class OperationLine:
    """One operation as the list shows it."""

    key: str
    what: str
    state: str
    step: str
    started_at: float  # wall
    ended_at: float | None
    number: int | None = None  # of this console's own
    command: str = ""
    size_bytes: int | None = None  # that it moves, by the job's last save
    usual_s: float | None = None  # how long the same took last time


def lines(own: Sequence[Operation], view: FleetView | None, now: float) -> tuple[OperationLine, ...]:
    """Running ones first, then the newest; a journalled run that this console follows is shown once."""
    del now
    jobs = {job.name: job for job in view.jobs} if view is not None else {}
    mine = [_own(item, jobs.get(item.job), own) for item in own]
    followed = {(item.kind, item.job) for item in own if item.state == "running"}
    journal = [
        OperationLine(row.id, f"{row.kind} {row.target}", row.state, " · ".join(filter(None, (row.step, row.detail))),
                      row.started_at, None, size_bytes=_size(jobs.get(row.target), row.kind))
        for row in (view.operations if view is not None else ())
        if not (row.state == "running" and (row.kind, row.target) in followed)
    ]  # fmt: skip
    return tuple(sorted([*mine, *journal], key=lambda line: (line.state != "running", -line.started_at)))


def _own(item: Operation, job: JobRow | None, others: Sequence[Operation]) -> OperationLine:
    before = [
        each.ended_at - each.started_at
        for each in others
        if each is not item and each.words == item.words and each.job == item.job
        and each.state == "done" and each.ended_at is not None
    ]  # fmt: skip
    return OperationLine(
        f"own-{item.number}", f"{item.words} {item.job}", item.state, item.step, item.started_at, item.ended_at,
        item.number, item.command, _size(job, item.kind), before[-1] if before else None,
    )  # fmt: skip


def _size(job: JobRow | None, kind: str) -> int | None:
    return job.size_bytes if job is not None and kind in ("save", "restore", "move", "rehearse") else None


def lasted(line: OperationLine, now: float) -> float | None:
    """Seconds so far, or in all; None for a journalled one that has ended (its end is in its steps)."""
    if line.ended_at is None and line.state != "running":
        return None
    return max(0.0, (line.ended_at if line.ended_at is not None else now) - line.started_at)


def _share(line: OperationLine, now: float) -> float | None:
    took = lasted(line, now)
    if line.state != "running" or took is None or not line.usual_s:
        return None
    return min(0.99, took / line.usual_s)


def left(line: OperationLine, now: float) -> Cell:
    """What is left of a running one, by how long the same took last time; unknown is –."""
    took = lasted(line, now)
    if line.state != "running" or not line.usual_s or took is None:
        return NOTHING
    more = line.usual_s - took
    return Cell(f"~{text.duration(more)}") if more > 0 else Cell(f"{text.brief(-more)} over", "warn")


def _state(line: OperationLine) -> Cell:
    word = words.of(words.OPERATION, line.state)
    return Cell(str(word), word.tone)


def _took(line: OperationLine, now: float) -> str | None:
    took = lasted(line, now)
    return None if took is None else text.duration(took)


COLUMNS: tuple[Column[OperationLine], ...] = (
    Column("what", "OPERATION", lambda o, _: Cell(o.what, "strong"), lambda o, _: o.what, 24, grow=16),
    Column("state", "STATE", lambda o, _: _state(o), lambda o, _: o.state, 11, priority=1),
    Column("began", "BEGAN", lambda o, now: Cell(text.time_of_day(o.started_at, now), "muted"), lambda o, _: o.started_at, 11, right=True, priority=4),
    Column("took", "TOOK", lambda o, now: plain(_took(o, now)), lasted, 8, right=True, priority=3, ticks=True),
    Column("share", "SO FAR", lambda o, now: Cell(gauge(_share(o, now), BAR), "info"), _share, BAR, priority=6, ticks=True),
    Column("left", "LEFT", left, lambda o, _: o.usual_s, 9, right=True, priority=5, ticks=True),
    Column("size", "SIZE", lambda o, _: plain(None if o.size_bytes is None else text.size(o.size_bytes)), lambda o, _: o.size_bytes, 8, right=True, priority=7),
    Column("step", "STEP", lambda o, _: Cell(o.step, "bad" if o.state == "failed" else "plain"), lambda o, _: o.step, 20, grow=200, priority=2),
)  # fmt: skip


def sections(
    line: OperationLine, journal: Looked | None, wall: float, monotonic: float
) -> tuple[Section, ...]:
    """The whole step, size, rate and time left with their basis, the command line, the journal's steps."""
    took = lasted(line, wall)
    head: list[Line] = [
        ("state", (_state(line), Cell(f"  {text.duration(took)}" if took is not None else "", "muted"))),
        ("step", (Cell(line.step or text.UNKNOWN, "bad" if line.state == "failed" else "plain"),)),
    ]
    if line.size_bytes is not None:
        rate = f", {text.size(int(line.size_bytes / line.usual_s))}/s" if line.usual_s else ""
        head.append(
            ("size", (Cell(text.size(line.size_bytes) + rate), Cell("  of the job's last save", "muted")))
        )
    if line.state == "running":
        basis = (
            f"  last time it took {text.duration(line.usual_s)}"
            if line.usual_s
            else "  no earlier one to compare with"
        )
        head.append(("left", (left(line, wall), Cell(basis, "muted"))))
    if line.command:
        head.append(("the same as", (Cell(f"$ {line.command}", "accent"),)))
    parts = [Section("", tuple(head))]
    if journal is not None:
        parts.append(Section("journal", _journal(journal, monotonic)))
    return tuple(parts)


def _journal(journal: Looked, monotonic: float) -> tuple[Line, ...]:
    if journal.document is None:
        return (("", (Cell(journal.failure or "asking…", "bad" if journal.failure else "muted"),)),)
    del monotonic
    lines: list[Line] = []
    for item in journal.items():
        lines.append(
            (str(item.get("job") or ""), (Cell(f"{item.get('state')} {item.get('reason') or ''}".strip()),))
        )
        steps = item.get("steps")
        for step in steps if isinstance(steps, list) else ():
            at = text.time_of_day(text.seconds_of(str(step.get("at"))))
            lines.append(
                (at, (Cell(f"{step.get('phase')} ", "muted"), Cell(step_words(str(step.get("step"))))))
            )
    return tuple(lines) or (("", (Cell("no steps", "muted"),)),)


def why_not_cancel(line: OperationLine | None, view: FleetView | None) -> str | None:
    """Why an operation cannot be given up here."""
    if line is None or view is None:
        return "cancel: no operation is under the cursor"
    if line.state != "running":
        return f"cancel: {line.what} has ended ({line.state})"
    if line.number is None:
        return f"cancel: {line.what} belongs to another console or to the controller"
    return None


def cancellation(line: OperationLine, view: FleetView) -> Plan:
    """What giving up means."""
    return Plan(
        title=f"Give up {line.what}",
        verb="Give up",
        tier=raised(2, view),
        steps=(),
        facts=(("operation", Cell(line.what, "strong")), ("step", Cell(line.step or text.UNKNOWN))),
        notes=(
            Cell("This console stops here. What a node has begun it ends by itself; a claimed epoch stays claimed.", "warn"),
            Cell("Nothing is lost: the same command can be given again, it looks before it acts.", "muted"),
        ),
    )  # fmt: skip

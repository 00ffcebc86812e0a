"""The detail pane: sections of labelled facts about one node, job or event."""

from __future__ import annotations

import math
from dataclasses import dataclass

from backends.records.event import Event
from console.operations.view import FleetView, JobRow, NodeRow, risk_now
from console.tui.model import columns, text, words
from console.tui.model.cells import NOTHING, Cell, gauge
from console.tui.model.columns import plain

Line = tuple[str, tuple[Cell, ...]]  # label (may be empty) and what follows it


@dataclass(frozen=True)
class Section:
    """A titled group of lines."""

    title: str
    lines: tuple[Line, ...]


def _line(label: str, *cells: Cell) -> Line:
    return label, cells


def risk_sentence(job: JobRow, now: float) -> Cell:
    """What a reclaim this second would cost, in one sentence."""
    lost = risk_now(job, now)
    if job.state in ("finished", "stopped"):
        return Cell("Nothing at risk: the job does not run.", "muted")
    if lost is None:
        return Cell("Unknown what a reclaim this second would cost: nothing is saved yet.", "bad")
    if job.state in ("failed", "ended_unknown"):
        return Cell(f"The job does not run; {text.duration(lost)} of work is not saved.", "bad")
    last = " at least" if job.stale else ""
    return Cell(f"A reclaim this second would cost{last} {text.duration(lost)}.", columns.risk_tone(job, now))


def job(view: FleetView, row: JobRow, now: float) -> tuple[Section, ...]:
    """Everything known about a job."""
    return (
        Section("work at risk", _risk_lines(row, now)),
        Section("protection", _protection_lines(row, now)),
        Section("process", _process_lines(view, row, now)),
        Section("history", history(view, now, job=row.name)),
        Section("checkpoints", _checkpoints(view, row, now)),
    )


def _risk_lines(row: JobRow, now: float) -> tuple[Line, ...]:
    share = columns.risk_share(row, now)
    tone = columns.risk_tone(row, now)
    meter = Cell("of the interval: unknown", "muted")
    if share is not None:
        times = f"{share:.0%} of the interval" if share <= 2 else f"{share:.1f} times the interval"
        meter = Cell(f"{gauge(share, 20)} {times}, {text.duration(row.interval_s)}", tone)
    state = columns.job_state(row)
    words_why = columns.why(row, now)
    why = (Cell(words_why, "muted" if state.tone in ("ok", "muted") else "plain"),) if words_why else ()
    lines = [_line("", risk_sentence(row, now)), _line("", meter), _line("state", state)]
    lines += [_line("why", *why)] if why else []
    if row.stale and row.observed_at is not None:
        lines.append(
            _line(
                "", Cell(f"~ last known {text.brief(now - row.observed_at)} ago: the node is silent", "warn")
            )
        )
    return tuple(lines)


def _protection_lines(row: JobRow, now: float) -> tuple[Line, ...]:
    saved = NOTHING if row.frozen_at is None else Cell(
        f"{row.checkpoint or text.UNKNOWN} · frozen {text.time_of_day(row.frozen_at, now)}, {text.brief(now - row.frozen_at)} ago"
    )  # fmt: skip
    upcoming = columns.next_save(row, now)
    return (
        _line("last save", saved),
        _line("pause, size", Cell(f"{text.pause(row.freeze_s)}, {text.size(row.size_bytes)}")),
        _line(
            "interval",
            Cell(text.duration(row.interval_s)),
            Cell("  next " if upcoming.text.startswith("late") else "  next in ", "muted"),
            upcoming,
        ),
        _line("store", plain(row.store or None)),
    )


def _process_lines(view: FleetView, row: JobRow, now: float) -> tuple[Line, ...]:
    node = next((node for node in view.nodes if node.name == row.node), None)
    where = [plain(row.node)]
    if node is not None:
        where += [Cell("  "), columns.node_state(node)]
        if node.notice == "notice":
            where += [Cell("  "), columns.notice(node, view.taken_at, now)]
    return (
        _line("node", *where),
        _line("engine", plain(row.engine)),
        _line("pid, epoch", Cell(f"{_text(row.pid)}, {_text(row.epoch)}")),
        _line("uid", plain(row.uid, "muted")),
        _line("progress", plain(row.progress)),
    )


def _checkpoints(view: FleetView, row: JobRow, now: float) -> tuple[Line, ...]:
    saves = [event for event in view.events if event.job == row.name and event.kind == "save.committed"][-6:]
    lines = []
    for event in reversed(saves):
        name = event.data.get("checkpoint")
        size = event.data.get("size_bytes")
        freeze = event.data.get("freeze_s")
        lines.append(_line(
            str(name) if name else text.UNKNOWN,
            Cell(text.time_of_day(text.seconds_of(event.time), now), "muted"),
            Cell(f"  {text.size(size) if isinstance(size, int) else text.UNKNOWN:>8}"),
            Cell(f"  pause {text.pause(float(freeze)) if isinstance(freeze, (int, float)) else text.UNKNOWN}"),
        ))  # fmt: skip
    return tuple(lines) or (_line("", Cell("none seen by this console yet", "muted")),)


def history(
    view: FleetView, now: float, *, job: str | None = None, node: str | None = None, limit: int = 8
) -> tuple[Line, ...]:
    """The newest events of a job, a node, or the whole fleet, newest first."""
    chosen = [
        event
        for event in view.events
        if (job is None or event.job == job) and (node is None or event.node == node)
    ][-limit:]
    return tuple(event_line(event, now) for event in reversed(chosen)) or (
        _line("", Cell("no events", "muted")),
    )


def event_line(event: Event, now: float) -> Line:
    """One event on one line: time, glyph, sentence."""
    word = words.of_event(event.kind)
    return _line(
        text.time_of_day(text.seconds_of(event.time), now),
        Cell(f"{word.glyph} ", word.tone),
        Cell(event.text or event.kind, word.tone if word.tone in ("bad", "alarm", "warn") else "plain"),
    )


def node(view: FleetView, row: NodeRow, now: float) -> tuple[Section, ...]:
    """Everything known about a node."""
    seen = columns.age(row, view.taken_at, now)
    head = [
        _line("state", columns.node_state(row)),
        *([_line("why", plain(row.reason))] if row.reason else []),
        _line("last answer", Cell(f"{text.duration(seen)} ago" if seen is not None else "never")),
        _line("notice", columns.notice(row, view.taken_at, now)),
    ]
    if row.notice == "unreadable":
        head.append(
            _line("", Cell("the provider's notices cannot be read there: only saves protect", "warn"))
        )
    return (
        Section("now", tuple(head)),
        Section("jobs", _jobs_on(view, row, now)),
        Section("machine", _machine(row)),
        Section("history", history(view, now, node=row.name)),
    )


def _jobs_on(view: FleetView, row: NodeRow, now: float) -> tuple[Line, ...]:
    known = {item.name: item for item in view.jobs}
    lines: list[Line] = []
    for name in row.jobs:
        item = known.get(name)
        cells = (
            (NOTHING,)
            if item is None
            else (columns.job_state(item), Cell("  at risk ", "muted"), columns.risk(item, now))
        )
        lines.append(_line(name, *cells))
    return tuple(lines) or (_line("", Cell("none", "muted")),)


def _machine(row: NodeRow) -> tuple[Line, ...]:
    facts: list[Line] = [
        _line("address", plain(row.address)),
        _line("cloud", plain(row.provider)),
        _line("pool", plain(row.pool)),
        _line("guard", plain(row.guard)),
    ]
    facts += [_line(name, plain(value)) for name, value in sorted(row.facts.items())]
    return tuple(facts)


def event(view: FleetView, row: Event, now: float) -> tuple[Section, ...]:
    """One event with its data, and what else happened to its job or node."""
    word = words.of_event(row.kind)
    when = text.seconds_of(row.time)
    ago = "" if when is None else f", {text.brief(now - when)} ago"
    head = (
        _line("", Cell(row.text or row.kind, "strong")),
        _line("what", Cell(str(word), word.tone)),
        _line("when", Cell(f"{row.time}{ago}")),
        _line("job", plain(row.job)),
        _line("node", plain(row.node)),
        _line("id", plain(row.id, "muted")),
    )
    data = tuple(_line(name, Cell(_value(name, value))) for name, value in sorted(row.data.items()))
    around = history(view, now, job=row.job, node=None if row.job else row.node)
    return (
        Section("event", head),
        Section("data", data or (_line("", Cell("none", "muted")),)),
        Section(f"history of {row.job or row.node or 'the fleet'}", around),
    )


def _value(name: str, value: object) -> str:
    if value is None:
        return text.UNKNOWN
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if name.endswith("_s"):
            return text.duration(value) if abs(value) >= 60 else f"{value:.1f}s"
        if name.endswith("_bytes") and math.isfinite(value):
            return text.size(int(value))
    return str(value)


def _text(value: object) -> str:
    return text.UNKNOWN if value is None else str(value)


def facts_of(document: dict[str, object], *, limit: int = 60) -> tuple[Line, ...]:
    """The plain facts of a document, one a line in the order of their names; lists are counted or joined, unknown left out."""
    lines: list[Line] = []
    for name, value in sorted(document.items()):
        if isinstance(value, dict):
            shown = ", ".join(f"{key} {item}" for key, item in list(value.items())[:6])
        elif isinstance(value, list):
            plain_items = all(isinstance(item, (str, int, float)) for item in value)
            shown = ", ".join(map(str, value)) if plain_items and len(value) <= 6 else f"{len(value)} of them"
        else:
            shown = "" if value is None else str(value)
        if shown:
            lines.append(_line(name.replace("_", " "), Cell(shown)))
    return tuple(lines[:limit])

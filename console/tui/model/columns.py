"""The columns of the Fleet, Jobs and Events tables, most important first; at most 14 each."""

from __future__ import annotations

import functools

from backends.records.event import Event
from console.operations.view import JobRow, NodeRow, risk_now
from console.tui.model import text, words
from console.tui.model.cells import NOTHING, Cell, Column, Value, gauge
from console.tui.model.words import Tone

GAUGE_WIDTH = 10
QUIET = (
    "paused",
    "finished",
    "stopped",
    "failed",
    "ended_unknown",
    "zombie",
    "restoring",
    "waiting_proof",
    "waiting_capacity",
)
IN_TIME = ("protected", "unrehearsed")  # its guard's word for a job whose save is not late
ENDED = ("finished", "stopped", "failed", "ended_unknown")


def plain(value: str | None, tone: Tone = "plain") -> Cell:
    """Text, or `–` where there is none."""
    return Cell(value, tone) if value else NOTHING


def job_state(job: JobRow) -> Cell:
    """The job's state as glyph, word and tone."""
    word = words.of(words.JOB, job.state)
    if job.state == "waiting_capacity":
        word = words.AWAITED.get(job.awaits, word)
    return Cell(str(word), word.tone)


def _why(reason: str, state: Cell) -> Cell:
    """The reason in its state's tone; quiet states and alarms are toned down so that the words can be read."""
    if not reason:
        return Cell("")
    return Cell(reason, "bad" if state.tone == "alarm" else "muted" if state.tone == "ok" else state.tone)


def risk_share(job: JobRow, now: float) -> float | None:
    """Work at risk as a share of the interval; None when either is unknown."""
    risk = risk_now(job, now)
    return None if risk is None or not job.interval_s else risk / job.interval_s


def risk_tone(job: JobRow, now: float) -> Tone:
    """How worrying the work at risk is: within the interval, a little late, or far beyond."""
    share = risk_share(job, now)
    if job.state in ENDED or share is None:
        return "muted" if job.state in ENDED else "plain"
    if job.state in IN_TIME and not job.stale:  # its guard counts what a save takes: not late yet
        return "ok" if share <= 1.0 else "warn"
    return "ok" if share <= 1.0 else "warn" if share <= 1.5 else "bad"


def why(job: JobRow, now: float) -> str:
    """Why the job is in its state, and why more than an interval is at risk while the state is a good one."""
    share = risk_share(job, now)
    if job.state not in IN_TIME or job.stale or share is None or share <= 1.0:
        return job.reason
    due = "a save is due and not late yet: taking and storing one has its time too"
    return f"{job.reason}; {due}" if job.reason else due


def risk(job: JobRow, now: float) -> Cell:
    """Work that a loss this second would take; `~` before a value from a silent node."""
    value = risk_now(job, now)
    if value is None:
        return Cell(text.UNKNOWN, "bad" if job.state == "unprotected" else "muted")
    return Cell(("~" if job.stale else "") + text.duration(value), risk_tone(job, now))


def _risk_gauge(job: JobRow, now: float) -> Cell:
    return Cell(gauge(risk_share(job, now), GAUGE_WIDTH), risk_tone(job, now))


def next_save(job: JobRow, now: float) -> Cell:
    """Time to the next save, or how late it is."""
    if job.next_save_at is None or job.state in QUIET:
        return NOTHING
    left = job.next_save_at - now
    return Cell(text.duration(left)) if left > -1 else Cell(f"late {text.brief(-left)}", "warn")


def _since(value: float | None, now: float) -> float | None:
    return None if value is None else value - now


def _job_name(job: JobRow, _now: float) -> Cell:
    return Cell(("~" if job.stale else "") + job.name, "muted" if job.stale else "strong")


JOBS: tuple[Column[JobRow], ...] = (
    Column("job", "JOB", _job_name, lambda j, _: j.name, 14, grow=26),
    Column("state", "STATE", lambda j, _: job_state(j), lambda j, _: j.state, 14, priority=1, worded=True),
    Column("risk", "AT RISK", risk, risk_now, 8, right=True, priority=2, ticks=True),
    Column("share", "OF INTERVAL", _risk_gauge, risk_share, 11, priority=5, ticks=True),
    Column("saved", "LAST SAVE", lambda j, now: plain(_time(j.frozen_at, now)), lambda j, _: j.frozen_at, 11, right=True, priority=3),
    Column("node", "NODE", lambda j, _: plain(j.node), lambda j, _: j.node, 12, grow=6, priority=4),
    Column("next", "NEXT", next_save, lambda j, now: _since(j.next_save_at, now), 8, right=True, priority=6, ticks=True, spare=True),
    Column("interval", "EVERY", lambda j, _: plain(_length(j.interval_s)), lambda j, _: j.interval_s, 7, right=True, priority=7, spare=True),
    Column("engine", "ENGINE", lambda j, _: plain(j.engine), lambda j, _: j.engine, 9, priority=9),
    Column("size", "SIZE", lambda j, _: plain(_bytes(j.size_bytes)), lambda j, _: j.size_bytes, 8, right=True, priority=9),
    Column("freeze", "PAUSE", lambda j, _: plain(_pause(j.freeze_s)), lambda j, _: j.freeze_s, 7, right=True, priority=10),
    Column("checkpoint", "CHECKPOINT", lambda j, _: plain(j.checkpoint), lambda j, _: j.checkpoint, 10, right=True, priority=11),
    Column("pid", "PID", lambda j, _: plain(_number(j.pid)), lambda j, _: j.pid, 7, right=True, priority=13),
    Column("progress", "PROGRESS", lambda j, _: plain(j.progress, "muted"), lambda j, _: j.progress, 12, grow=20, priority=12),
    Column("why", "WHY", lambda j, now: _why(why(j, now), job_state(j)), lambda j, _: j.reason, 20, grow=80, priority=8, want=56),
)  # fmt: skip


def node_state(node: NodeRow) -> Cell:
    """The node's state as glyph, word and tone."""
    word = words.of(words.NODE, node.state)
    return Cell(str(word), word.tone)


def notice(node: NodeRow, taken_at: float, now: float) -> Cell:
    """The notice with its countdown; it ticks from the snapshot at `taken_at` on."""
    word = words.of(words.NOTICE, node.notice)
    if node.state == "lost":  # gone: what was announced has come
        return NOTHING
    if node.notice == "none":
        return Cell("none", "muted")
    left = notice_left(node, taken_at, now)
    if left is None:
        return Cell(str(word), word.tone)
    return Cell(f"{word} {text.duration(max(0.0, left))}", word.tone)


def notice_left(node: NodeRow, taken_at: float, now: float) -> float | None:
    """Seconds left until the provider takes the node; None without a deadline."""
    since = taken_at if node.as_of is None else node.as_of
    return None if node.notice_left_s is None else node.notice_left_s - max(0.0, now - since)


def stale(node: NodeRow) -> bool:
    """Whether what is known of the node is old."""
    return node.state in ("late", "unreachable", "lost")


def pool(name: str | None) -> str | None:
    """A pool for a narrow column, what tells pools apart first: `p5.48xlarge us-east-1`."""
    parts = (name or "").split("/")
    return f"{parts[2]} {parts[1]}" if len(parts) == 4 else name


def _node_name(node: NodeRow, _now: float) -> Cell:
    return Cell(("~" if stale(node) else "") + node.name, "muted" if stale(node) else "strong")


def age(node: NodeRow, taken_at: float, now: float) -> float | None:
    """Seconds since the node last answered, ticking; None when it never did."""
    since = taken_at if node.as_of is None else node.as_of
    return None if node.age_s is None else node.age_s + max(0.0, now - since)


@functools.lru_cache(maxsize=4)
def nodes(taken_at: float) -> tuple[Column[NodeRow], ...]:
    """The Fleet table's columns for a snapshot taken at `taken_at` (ages and countdowns tick from there)."""

    def age_cell(node: NodeRow, now: float) -> Cell:
        value = age(node, taken_at, now)
        return plain(text.brief(value), "warn" if stale(node) else "muted") if value is not None else NOTHING

    return (
        Column("node", "NODE", _node_name, lambda n, _: n.name, 13, grow=24),
        Column("state", "STATE", lambda n, _: node_state(n), lambda n, _: n.state, 13, priority=1, worded=True),
        Column("age", "SEEN", age_cell, lambda n, now: age(n, taken_at, now), 5, right=True, priority=3, ticks=True),
        Column("notice", "NOTICE", lambda n, now: notice(n, taken_at, now), lambda n, now: notice_left(n, taken_at, now), 15, priority=2, ticks=True),
        Column("jobs", "JOBS", lambda n, _: plain(", ".join(n.jobs)), lambda n, _: ", ".join(n.jobs), 14, grow=8, priority=4),
        Column("pool", "POOL", lambda n, _: plain(pool(n.pool), "muted"), lambda n, _: n.pool, 16, grow=22, priority=6, worded=True),
        Column("provider", "CLOUD", lambda n, _: plain(n.provider), lambda n, _: n.provider, 8, priority=8, spare=True),
        Column("gpus", "GPU", lambda n, _: plain(n.facts.get("gpus")), lambda n, _: n.facts.get("gpus"), 9, grow=8, priority=7, spare=True),
        Column("why", "WHY", lambda n, _: _why(n.reason, node_state(n)), lambda n, _: n.reason, 22, grow=70, priority=5, want=56),
        Column("criu", "CRIU", lambda n, _: plain(n.facts.get("criu")), lambda n, _: n.facts.get("criu"), 6, priority=9, spare=True),
        Column("kernel", "KERNEL", lambda n, _: plain(n.facts.get("kernel")), lambda n, _: n.facts.get("kernel"), 10, grow=8, priority=10, spare=True),
        Column("address", "ADDRESS", lambda n, _: plain(n.address, "muted"), lambda n, _: n.address, 16, grow=8, priority=11, spare=True),
    )  # fmt: skip


def event_lost(event: Event) -> float | None:
    """Seconds of work lost that an event tells of."""
    value = event.data.get("lost_work_s")
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _kind(event: Event, _now: float) -> Cell:
    word = words.of_event(event.kind)
    return Cell(str(word), word.tone)


EVENTS: tuple[Column[Event], ...] = (
    Column("time", "TIME", lambda e, now: Cell(text.time_of_day(text.seconds_of(e.time), now), "muted"), lambda e, _: e.time, 11),
    Column("kind", "WHAT", _kind, lambda e, _: e.kind, 18, priority=1),
    Column("job", "JOB", lambda e, _: plain(e.job), lambda e, _: e.job, 12, grow=10, priority=3),
    Column("node", "NODE", lambda e, _: plain(e.node), lambda e, _: e.node, 10, grow=8, priority=4),
    Column("lost", "LOST", lambda e, _: Cell(text.duration(event_lost(e)), "warn") if event_lost(e) is not None else Cell(""),
           lambda e, _: event_lost(e), 8, right=True, priority=5),
    Column("text", "TEXT", lambda e, _: Cell(e.text), lambda e, _: e.text, 26, grow=200, priority=2),
)  # fmt: skip


def _time(value: float | None, now: float) -> str | None:
    return None if value is None else text.time_of_day(value, now)


def _length(value: float | None) -> str | None:
    if value is None:
        return None
    whole = text.duration(value)
    return whole.removesuffix(" 00s").removesuffix(" 00m")


def _bytes(value: int | None) -> str | None:
    return None if value is None else text.size(value)


def _pause(value: float | None) -> str | None:
    return None if value is None else text.pause(value)


def _number(value: int | None) -> str | None:
    return None if value is None else str(value)


__all__ = ["ENDED", "EVENTS", "JOBS", "Value", "nodes"]

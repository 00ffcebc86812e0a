"""What an action will do, told before it is done: the content of a confirmation dialog."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from console.operations.view import FleetView, JobRow, NodeRow, risk_now
from console.tui.model import columns, text, words
from console.tui.model.cells import Cell

ANY = "any compatible node"


@dataclass(frozen=True)
class Identity:
    """What must not have changed between looking and acting."""

    uid: str
    epoch: int | None
    pid: int | None
    node: str | None


@dataclass(frozen=True)
class Step:
    """One command for one job."""

    words: str  # `jobs save`
    arguments: dict[str, Any]
    job: str
    identity: Identity
    command: str  # the equivalent command line


@dataclass(frozen=True)
class Plan:
    """What the dialog shows and what `y` performs: the same command for one job or several."""

    title: str
    verb: str  # what the confirming button says
    tier: int  # 1 adds, 2 disturbs, 3 wants the name typed
    steps: tuple[Step, ...]
    facts: tuple[tuple[str, Cell], ...]
    notes: tuple[Cell, ...] = field(default=())

    @property
    def typed(self) -> str:
        """What a tier 3 dialog wants typed: the job's name, or the number of jobs."""
        return self.steps[0].job if len(self.steps) == 1 else str(len(self.steps))


def identity_of(job: JobRow) -> Identity:
    """The identity of a job in a snapshot."""
    return Identity(job.uid, job.epoch, job.pid, job.node)


def changed(before: Identity, view: FleetView, job: str) -> str | None:
    """What is different about the job now, in words; None when it is still the one looked at."""
    row = next((row for row in view.jobs if row.name == job), None)
    if row is None:
        return f"{job} is no longer in the fleet"
    now = identity_of(row)
    for label, old, new in (
        ("it is another job of that name: uid", before.uid, now.uid),
        ("epoch", before.epoch, now.epoch),
        ("node", before.node, now.node),
        ("pid", before.pid, now.pid),
    ):
        if old != new:
            return f"{label} was {_or_none(old)}, is {_or_none(new)}"
    return None


def _or_none(value: object) -> str:
    return text.UNKNOWN if value is None or value == "" else str(value)


def raised(tier: int, view: FleetView) -> int:
    """The tier of an action in this context: production lifts it by one."""
    return min(3, tier + 1) if view.production else tier


def _step(view: FleetView, job: JobRow, verb: str, **options: str) -> Step:
    arguments: dict[str, Any] = {"name": job.name, **options}
    line = [
        "reprieve",
        *(["--context", view.context] if view.context != "default" else []),
        "jobs",
        verb,
        job.name,
    ]
    for name, value in options.items():
        line += [f"--{name}", value]
    return Step(f"jobs {verb}", arguments, job.name, identity_of(job), shlex.join(line))


def save(view: FleetView, jobs: Sequence[JobRow], now: float, hidden: int = 0) -> Plan:
    """Save now: additive."""
    facts = _who(jobs)
    if len(jobs) == 1:
        facts += (
            ("pause", Cell(f"about {text.pause(jobs[0].freeze_s)}" if jobs[0].freeze_s is not None else "unknown: no save yet")),
            ("size", Cell(text.size(jobs[0].size_bytes) if jobs[0].size_bytes is not None else "unknown: no save yet")),
            ("at risk now", columns.risk(jobs[0], now)),
        )  # fmt: skip
    return Plan(
        title=f"Save {_name(jobs)} now",
        verb="Save",
        tier=raised(1, view),
        steps=tuple(_step(view, job, "save") for job in jobs),
        facts=facts,
        notes=(*_hidden(hidden), Cell("The job stands still while it is copied, then runs on.", "muted")),
    )


def restore(view: FleetView, job: JobRow, target: str | None, now: float) -> Plan:
    """Bring the job back from its newest checkpoint; `target` None leaves the choice to the gate."""
    lost = risk_now(job, now)
    notes = [Cell("Refused without proof that the old process is gone: a time-out is no proof.", "muted")]
    if job.state in ("protected", "unrehearsed", "overdue", "paused", "trial") and not job.stale:
        notes.insert(
            0, Cell(f"{job.name} is running on {job.node}: move (M) saves first and loses nothing.", "warn")
        )
    loss = (
        Cell(f"{text.duration(lost)} and counting", columns.risk_tone(job, now))
        if lost is not None
        else Cell("unknown", "warn")
    )
    options = {} if target is None else {"to": target}
    return Plan(
        title=f"Restore {job.name}",
        verb="Restore",
        tier=raised(2, view),
        steps=(_step(view, job, "restore", **options),),
        facts=(
            *_who([job]),
            ("checkpoint", Cell(f"{job.checkpoint or text.UNKNOWN}, frozen {text.time_of_day(job.frozen_at, now)}")),
            ("work lost", loss),
            ("to fetch", Cell(text.size(job.size_bytes))),
            ("from", Cell(job.node or text.UNKNOWN)),
            ("to", Cell(target or ANY, "accent")),
            ("new epoch", Cell(str(job.epoch + 1) if job.epoch is not None else text.UNKNOWN)),
        ),
        notes=tuple(notes),
    )  # fmt: skip


def move(view: FleetView, job: JobRow, target: str, now: float) -> Plan:
    """Save, stop at the source, continue at the target."""
    return Plan(
        title=f"Move {job.name} to {target}",
        verb="Move",
        tier=raised(2, view),
        steps=(_step(view, job, "move", to=target),),
        facts=(
            *_who([job]),
            ("1 save", Cell(f"final save on {job.node or text.UNKNOWN}, {text.size(job.size_bytes)}")),
            ("2 stop", Cell("the process ends there, acknowledged by its guard")),
            ("3 restore", Cell(f"on {target}", "accent")),
            ("work lost", Cell("none if the final save succeeds", "ok")),
            ("at risk now", columns.risk(job, now)),
        ),
        notes=(Cell("If the restore fails the job starts again where it was, from the same save.", "muted"),),
    )


def suspend(view: FleetView, jobs: Sequence[JobRow], now: float, hidden: int = 0) -> Plan:
    """Pause protection, or resume it when every job named is paused."""
    resume = all(job.state == "paused" for job in jobs)
    verb = "resume" if resume else "pause"
    warning = Cell("Saving on the interval starts again; the job itself is untouched.", "muted")
    if not resume:
        warning = Cell(
            "No saves until resumed: work at risk grows without limit. The job itself is untouched.", "warn"
        )
    facts = _who(jobs)
    if len(jobs) == 1:
        facts += (("at risk now", columns.risk(jobs[0], now)),)
    return Plan(
        title=f"{verb.capitalize()} protection of {_name(jobs)}",
        verb=verb.capitalize(),
        tier=raised(2, view),
        steps=tuple(_step(view, job, verb) for job in jobs),
        facts=facts,
        notes=(*_hidden(hidden), warning),
    )


def _name(jobs: Sequence[JobRow]) -> str:
    return jobs[0].name if len(jobs) == 1 else text.count(len(jobs), "job")


def _who(jobs: Sequence[JobRow]) -> tuple[tuple[str, Cell], ...]:
    if len(jobs) > 1:
        names = [job.name for job in jobs[:20]]
        more = f" and {len(jobs) - 20} more" if len(jobs) > 20 else ""
        return (("jobs", Cell(", ".join(names) + more)),)
    job = jobs[0]
    return (
        ("job", Cell(job.name, "strong")),
        ("uid", Cell(job.uid or text.UNKNOWN)),
        ("state", columns.job_state(job)),
        ("process", Cell(f"pid {_or_none(job.pid)} on {_or_none(job.node)}, epoch {_or_none(job.epoch)}")),
    )


def _hidden(count: int) -> tuple[Cell, ...]:
    if not count:
        return ()
    return (Cell(f"{text.count(count, 'marked job')} hidden by the filter: left out.", "warn"),)


@dataclass(frozen=True)
class Target:
    """A node in the list of places a job may go."""

    name: str | None  # None: any compatible node
    label: str
    note: Cell
    fits: bool


def targets(view: FleetView, job: JobRow, *, anywhere: bool) -> tuple[Target, ...]:
    """Where `job` could go: any compatible node first when `anywhere`, then nodes that can take it, then the rest.

    Only what the snapshot knows is judged; the gate decides when the operation runs.
    """
    rows = [_target(node, job) for node in view.nodes]
    rows.sort(key=lambda row: (not row.fits, row.label))
    first = Target(
        None, ANY, Cell("the gate picks: same machine type, free, nothing else running", "muted"), fits=True
    )
    return ((first,) if anywhere else ()) + tuple(rows)


def _calm(tone: words.Tone) -> words.Tone:
    return "bad" if tone == "alarm" else tone


def _target(node: NodeRow, job: JobRow) -> Target:
    state = words.of(words.NODE, node.state)
    if node.name == job.node and node.state == "ok":
        return Target(node.name, node.name, Cell("runs here now", "muted"), fits=False)
    if node.state != "ok":
        return Target(
            node.name,
            node.name,
            Cell(f"{state}{': ' + node.reason if node.reason else ''}", _calm(state.tone)),
            fits=False,
        )
    if node.notice == "notice":
        return Target(node.name, node.name, Cell("◆ NOTICE: it is being taken", "bad"), fits=False)
    busy = f"runs {', '.join(node.jobs)}" if node.jobs else "free"
    return Target(
        node.name,
        node.name,
        Cell(f"{state} · {busy}{' · ' + node.pool if node.pool else ''}", "plain" if node.jobs else "ok"),
        fits=True,
    )

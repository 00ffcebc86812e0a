"""What an action will do, told before it is done: the content of a confirmation dialog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from console.operations.audit import command_line
from console.operations.view import FleetView, JobRow, risk_now
from console.tui.asked.checkpoints import CheckpointRow
from console.tui.model import columns, text
from console.tui.model.cells import Cell

ANY = "any compatible node"
LIVING = ("protected", "unrehearsed", "overdue", "paused", "trial")  # a process that runs and answers


@dataclass(frozen=True)
class Identity:
    """What must not have changed between looking and acting."""

    uid: str
    epoch: int | None
    pid: int | None
    node: str | None


@dataclass(frozen=True)
class NodeIdentity:
    """The same for a node."""

    guard: str | None
    address: str


@dataclass(frozen=True)
class Step:
    """One command for one job or node."""

    words: str  # `jobs save`
    arguments: dict[str, Any]
    job: str  # its name; a node's for commands on nodes
    identity: Identity | NodeIdentity
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


def changed(before: Identity | NodeIdentity, view: FleetView, job: str) -> str | None:
    """What is different about the job or node now, in words; None when it is still the one looked at."""
    if isinstance(before, NodeIdentity):
        return _node_changed(before, view, job)
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


def _node_changed(before: NodeIdentity, view: FleetView, name: str) -> str | None:
    node = next((node for node in view.nodes if node.name == name), None)
    if node is None:
        return f"{name} is no longer in the fleet"
    for label, old, new in (("guard", before.guard, node.guard), ("address", before.address, node.address)):
        if old != new:
            return f"{label} was {_or_none(old)}, is {_or_none(new)}"
    return None


def _or_none(value: object) -> str:
    return text.UNKNOWN if value is None or value == "" else str(value)


def raised(tier: int, view: FleetView) -> int:
    """The tier of an action in this context: production lifts it by one."""
    return min(3, tier + 1) if view.production else tier


def step_for(view: FleetView, job: JobRow, words: str, **arguments: Any) -> Step:
    """The command for one job, with the command line that does the same."""
    given = {"name": job.name, **arguments}
    return Step(words, given, job.name, identity_of(job), command_line(view.context, words, given))


def verify(view: FleetView, job: JobRow, checkpoint: str) -> Step:
    """Read a checkpoint back: changes nothing but the store's record that it was done."""
    return step_for(view, job, "checkpoints verify", checkpoint=checkpoint)


def save(view: FleetView, jobs: Sequence[JobRow], now: float, hidden: int = 0) -> Plan:
    """Save now: additive."""
    facts = who(jobs)
    if len(jobs) == 1:
        facts += (
            ("pause", Cell(f"about {text.pause(jobs[0].freeze_s)}" if jobs[0].freeze_s is not None else "unknown: no save yet")),
            ("size", Cell(text.size(jobs[0].size_bytes) if jobs[0].size_bytes is not None else "unknown: no save yet")),
            ("at risk now", columns.risk(jobs[0], now)),
        )  # fmt: skip
    return Plan(
        title=f"Save {name_of(jobs)} now",
        verb="Save",
        tier=raised(1, view),
        steps=tuple(step_for(view, job, "jobs save") for job in jobs),
        facts=facts,
        notes=(*hidden_note(hidden), Cell("The job stands still while it is copied, then runs on.", "muted")),
    )


def restore(
    view: FleetView, job: JobRow, target: str | None, now: float, save: CheckpointRow | None = None
) -> Plan:
    """Bring the job back; `target` None leaves the node to the gate, `save` None takes the newest checkpoint."""
    older = save is not None and save.checkpoint != job.checkpoint
    frozen = save.frozen_at if save is not None and older else job.frozen_at
    lost = risk_now(job, now)
    if older:
        lost = None if frozen is None else max(0.0, now - frozen)
    notes = [Cell("Refused without proof that the old process is gone: a time-out is no proof.", "muted")]
    if older:
        notes.insert(
            0,
            Cell(
                f"Not the newest checkpoint, which is {job.checkpoint or text.UNKNOWN}: more work is lost.",
                "warn",
            ),
        )
    if job.state in LIVING and not job.stale:
        notes.insert(
            0, Cell(f"{job.name} is running on {job.node}: move (M) saves first and loses nothing.", "warn")
        )
    loss = (
        Cell(f"{text.duration(lost)} and counting", columns.risk_tone(job, now))
        if lost is not None
        else Cell("unknown", "warn")
    )
    options = {} if target is None else {"to": target}
    if save is not None and older:
        options["checkpoint"] = save.checkpoint
    name = save.checkpoint if save is not None else job.checkpoint or text.UNKNOWN
    return Plan(
        title=f"Restore {job.name}",
        verb="Restore",
        tier=raised(2, view),
        steps=(step_for(view, job, "jobs restore", **options),),
        facts=(
            *who([job]),
            ("checkpoint", Cell(f"{name}, frozen {text.time_of_day(frozen, now)}")),
            ("work lost", loss),
            ("to fetch", Cell(text.size(save.size_bytes if save is not None else job.size_bytes))),
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
        steps=(step_for(view, job, "jobs move", to=target),),
        facts=(
            *who([job]),
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
    facts = who(jobs)
    if len(jobs) == 1:
        facts += (("at risk now", columns.risk(jobs[0], now)),)
    return Plan(
        title=f"{verb.capitalize()} protection of {name_of(jobs)}",
        verb=verb.capitalize(),
        tier=raised(2, view),
        steps=tuple(step_for(view, job, f"jobs {verb}") for job in jobs),
        facts=facts,
        notes=(*hidden_note(hidden), warning),
    )


def name_of(jobs: Sequence[JobRow]) -> str:
    """The one job, or how many."""
    return jobs[0].name if len(jobs) == 1 else text.count(len(jobs), "job")


def who(jobs: Sequence[JobRow]) -> tuple[tuple[str, Cell], ...]:
    """Which job exactly, or the first twenty names."""
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


def hidden_note(count: int) -> tuple[Cell, ...]:
    """How many marked rows are left out because the filter hides them."""
    if not count:
        return ()
    return (Cell(f"{text.count(count, 'marked job')} hidden by the filter: left out.", "warn"),)

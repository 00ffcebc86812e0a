"""What the restore wizard's steps show, and what keeps one from going on. Pure."""

from __future__ import annotations

from console.operations.view import FleetView, JobRow
from console.tui.asked import checkpoints
from console.tui.asked.checkpoints import CheckpointRow
from console.tui.asked.places import Place
from console.tui.model import columns, text, words
from console.tui.model.cells import Cell
from console.tui.model.detail import Line, Section, history
from console.tui.model.plans import LIVING, Plan
from console.tui.tasks import Operation

STEPS = ((1, "checkpoint"), (2, "where"), (3, "plan"), (4, "run"))
FIRST = "↵ takes the checkpoint under the cursor and asks where to; nothing is begun before step 4. A shows all jobs."
SAVES = tuple(
    column
    for column in checkpoints.COLUMNS
    if column.id in ("job", "checkpoint", "state", "age", "size", "why")
)


def why_not_save(row: CheckpointRow | None) -> str | None:
    """Why a checkpoint cannot be taken."""
    if row is None:
        return "restore: no checkpoint is under the cursor"
    if not row.usable:
        return f"restore: {row.job} {row.checkpoint} is {row.state}: {row.reason or 'it cannot be used'}"
    return None


def why_not_place(place: Place | None) -> str | None:
    """Why a place cannot be taken: its first reason."""
    if place is None:
        return "restore: no place is under the cursor"
    reason = place.reasons[0] if place.reasons else "it does not fit"
    if place.fits is False:
        return f"{place.name} does not fit: {reason}"
    if place.kind == "pool" and place.fits is None:
        return f"{place.name}: a pool is asked by `reprieve watch`, by the job's policy; choose any compatible node"
    return None


def plan_sections(plan: Plan | None, step: int) -> tuple[Section, ...]:
    """The plan with its command line; before it is known, what is still to be chosen."""
    if plan is None:
        missing = "a checkpoint" if step == 1 else "a place"
        return (Section("", (("", (Cell(f"choose {missing} first", "muted"),)),)),)
    notes: list[Line] = [("", (note,)) for note in plan.notes]
    how = "looks at the job again → two witnesses → proof that the old process is gone, or refuses → claims the new epoch → fetches, verifies, restores → first new save"
    return (
        Section("what", tuple((label, (cell,)) for label, cell in plan.facts)),
        Section(
            "",
            (
                *notes,
                ("", (Cell(f"$ {plan.steps[0].command}", "accent"),)),
                ("", (Cell("↵ asks once more, then begins", "strong" if step == 3 else "muted"),)),
            ),
        ),
        Section("how", (("", (Cell(how, "muted"),)),)),
    )


def run_sections(
    view: FleetView | None, job: JobRow | None, operation: Operation | None, now: float, wall: float
) -> tuple[Section, ...]:
    """How the restore goes; afterwards what proves that it worked."""
    if operation is None:
        return (Section("", (("", (Cell("nothing has been begun", "muted"),)),)),)
    word = words.of(words.OPERATION, operation.state)
    took = (operation.ended_at if operation.ended_at is not None else wall) - operation.started_at
    lines: list[Line] = [
        ("state", (Cell(str(word), word.tone), Cell(f"  {text.duration(took)}", "muted"))),
        ("step", (Cell(operation.step),)),
    ]
    if operation.state == "running":
        lines.append(("", (Cell("It goes on when you leave this screen: 0 shows it.", "muted"),)))
    sections = [Section("restore", tuple(lines))]
    if operation.state == "done" and job is not None:
        sections.append(Section("is it really back?", _proofs(job, now)))
    if view is not None and job is not None:
        sections.append(Section("history", history(view, now, job=job.name, limit=6)))
    if operation.state != "running":
        sections.append(Section("", (("", (Cell("↵ begins another one", "muted"),)),)))
    return tuple(sections)


def _proofs(job: JobRow, now: float) -> tuple[Line, ...]:
    runs = job.state in LIVING and not job.stale
    saved = job.epoch is not None and (job.checkpoint or "").startswith(f"{job.epoch}.")
    return (
        ("process", (Cell(f"pid {job.pid} on {job.node}" if runs and job.pid is not None else "not seen yet", "ok" if runs else "warn"),)),
        ("state", (columns.job_state(job),)),
        ("epoch", (Cell(text.UNKNOWN if job.epoch is None else str(job.epoch)),)),
        ("saved again", (Cell(f"{job.checkpoint}" if saved else "not yet: the first new save is under way", "ok" if saved else "warn"),)),
        ("at risk now", (columns.risk(job, now),)),
    )  # fmt: skip


def summary(step: int, save: CheckpointRow | None, place: Place | None) -> str:
    """One line for the smallest terminals."""
    chosen = [
        f"{save.job} {save.checkpoint}" if save is not None else "",
        place.name if place is not None else "",
    ]
    return f"restore {step}/4 " + " → ".join(part for part in chosen if part)

"""Plans beside saving and restoring: stop, end without a save, rehearse, another interval, drain a node, give up waiting."""

from __future__ import annotations

from collections.abc import Sequence

from console.operations.audit import command_line
from console.operations.view import FleetView, JobRow, NodeRow, risk_now
from console.tui.model import columns, text
from console.tui.model.cells import Cell
from console.tui.model.plans import (
    NodeIdentity,
    Plan,
    Step,
    hidden_note,
    name_of,
    raised,
    step_for,
    who,
)


def _risks(jobs: Sequence[JobRow], now: float) -> tuple[tuple[str, Cell], ...]:
    if len(jobs) == 1:
        return (("at risk now", columns.risk(jobs[0], now)),)
    known = [risk for job in jobs if (risk := risk_now(job, now)) is not None]
    unknown = len(jobs) - len(known)
    more = f", {unknown} unknown" if unknown else ""
    return (("at risk now", Cell(f"{text.duration(sum(known))} in all{more}")),)


def stop(view: FleetView, jobs: Sequence[JobRow], now: float, hidden: int = 0) -> Plan:
    """Save, then end the process: disturbs, loses nothing."""
    return Plan(
        title=f"Stop {name_of(jobs)}",
        verb="Stop",
        tier=raised(2, view),
        steps=tuple(step_for(view, job, "jobs stop") for job in jobs),
        facts=(*who(jobs), *_risks(jobs, now)),
        notes=(*hidden_note(hidden), Cell("A last save first, then the process ends; it can be restored from that save.", "muted")),
    )  # fmt: skip


def kill(view: FleetView, jobs: Sequence[JobRow], now: float, hidden: int = 0) -> Plan:
    """End the process without a save: irreversible, the name must be typed."""
    return Plan(
        title=f"End {name_of(jobs)} without a save",
        verb="End it",
        tier=3,
        steps=tuple(step_for(view, job, "jobs stop", now=True) for job in jobs),
        facts=(*who(jobs), *_risks(jobs, now)),
        notes=(*hidden_note(hidden), Cell("The work since the last save is lost for good. X stops with a save.", "bad")),
    )  # fmt: skip


def rehearse(view: FleetView, job: JobRow) -> Plan:
    """Run the newest checkpoint on another host and end it there: adds a proof."""
    return Plan(
        title=f"Rehearse {job.name}",
        verb="Rehearse",
        tier=raised(1, view),
        steps=(step_for(view, job, "jobs rehearse"),),
        facts=(*who([job]), ("checkpoint", Cell(job.checkpoint or text.UNKNOWN)), ("to fetch", Cell(text.size(job.size_bytes)))),
        notes=(Cell("On another node, without network and on copies of its files; the job itself is not touched.", "muted"),),
    )  # fmt: skip


def interval(view: FleetView, job: JobRow, wanted: str, advice: str = "") -> Plan:
    """Another work time between two saves; `wanted` is a duration as typed, or `auto`."""
    facts = (
        *who([job]),
        ("interval now", Cell(text.duration(job.interval_s))),
        ("then", Cell(wanted, "accent")),
    )
    return Plan(
        title=f"Interval of {job.name}: {wanted}",
        verb="Set",
        tier=raised(1, view),
        steps=(step_for(view, job, "jobs set", changes=[f"interval={wanted}"]),),
        facts=facts,
        notes=(Cell(advice, "muted"),) if advice else (),
    )


def _on_node(view: FleetView, node: NodeRow, words: str) -> Step:
    given = {"name": node.name}
    return Step(
        words,
        given,
        node.name,
        NodeIdentity(node.guard, node.address),
        command_line(view.context, words, given),
    )


def drain(view: FleetView, node: NodeRow, jobs: Sequence[JobRow], now: float) -> Plan:
    """Place nothing more on a node and save what runs there."""
    cordoned = node.state == "cordoned"
    steps = [] if cordoned else [_on_node(view, node, "fleet cordon")]
    steps += [step_for(view, job, "jobs save") for job in jobs]
    return Plan(
        title=f"Drain {node.name}",
        verb="Drain",
        tier=raised(2, view),
        steps=tuple(steps),
        facts=(
            ("node", Cell(node.name, "strong")),
            ("guard", Cell(node.guard or text.UNKNOWN)),
            ("jobs there", Cell(", ".join(job.name for job in jobs) or "none")),
            *(_risks(jobs, now) if jobs else ()),
        ),
        notes=(
            Cell(
                "No job is placed there any more; each one there is saved and runs on. Move them with M.",
                "muted",
            ),
        ),
    )


def uncordon(view: FleetView, node: NodeRow) -> Plan:
    """Let jobs be placed on a node again."""
    return Plan(
        title=f"Use {node.name} again",
        verb="Uncordon",
        tier=raised(1, view),
        steps=(_on_node(view, node, "fleet uncordon"),),
        facts=(("node", Cell(node.name, "strong")), ("guard", Cell(node.guard or text.UNKNOWN))),
        notes=(Cell("Restores and moves may place jobs there.", "muted"),),
    )

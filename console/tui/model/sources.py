"""Where each figure comes from, how old it is, and what it rests on: one key away from the figure itself."""

from __future__ import annotations

from console.operations.view import FleetView, JobRow, NodeRow
from console.tui.model import columns, text
from console.tui.model.cells import Cell
from console.tui.model.detail import Line, Section


def _line(label: str, value: Cell, basis: str) -> Line:
    return label, (value, Cell(f"  {basis}", "muted"))


def job(view: FleetView, row: JobRow, now: float) -> tuple[Section, ...]:
    """The figures of a job."""
    seen = "never" if row.observed_at is None else f"{text.brief(max(0.0, now - row.observed_at))} ago"
    guard = f"its guard on {row.node or text.UNKNOWN}, asked {seen}"
    silent = row.stale or row.observed_at is None
    ledger = "this machine's ledger: its node does not answer" if silent else guard
    ticking = "; counted on by this machine's steady clock since" if row.risk_base_s is not None else ""
    lines = (
        _line("state", columns.job_state(row), f"{ledger}; rehearsals and epochs from the store"),
        _line("at risk", columns.risk(row, now), f"freeze instant of {row.checkpoint or 'no save'} to now, by {ledger}{ticking}; never below the truth"),
        _line("last save", Cell(row.checkpoint or text.UNKNOWN), "the newest manifest in the store that its guard read back"),
        _line("frozen", Cell(text.time_of_day(row.frozen_at, now)), "the node's clock, corrected by its measured offset"),
        _line("next", columns.next_save(row, now), "its guard's plan when asked, counted down"),
        _line("interval", Cell(text.duration(row.interval_s)), "the job's record, as its guard has it"),
        _line("pause, size", Cell(f"{text.pause(row.freeze_s)}, {text.size(row.size_bytes)}"), "measured by the guard at the last save"),
        _line("pid, epoch", Cell(f"{row.pid if row.pid is not None else text.UNKNOWN}, {row.epoch if row.epoch is not None else text.UNKNOWN}"), ledger),
        _line("progress", Cell(row.progress or text.UNKNOWN), "what the program itself says; nobody checks it"),
    )  # fmt: skip
    return (Section(f"figures of {row.name}", lines), *_sources(view))


def node(view: FleetView, row: NodeRow, now: float) -> tuple[Section, ...]:
    """The figures of a node."""
    age = columns.age(row, view.taken_at, now)
    seen = "it never answered" if age is None else f"its guard's last answer, {text.brief(age)} ago"
    proof = (
        "said only with proof: the provider's word, or the fence's"
        if row.state == "lost"
        else "its answers; silence alone proves no death"
    )
    lines = (
        _line("state", columns.node_state(row), proof),
        _line("seen", Cell(text.UNKNOWN if age is None else text.duration(age)), "this machine's steady clock since its last answer"),
        _line("notice", columns.notice(row, view.taken_at, now), f"the provider's metadata as its guard reads it: {seen}; counted down"),
        _line("jobs", Cell(", ".join(row.jobs) or "none"), "records of this fleet"),
        _line("pool", Cell(row.pool or text.UNKNOWN), "the fleet file"),
        *(_line(name, Cell(value), "facts it told about itself") for name, value in sorted(row.facts.items())),
    )  # fmt: skip
    return (Section(f"figures of {row.name}", lines), *_sources(view))


def _sources(view: FleetView) -> tuple[Section, ...]:
    lines: list[Line] = [
        (
            name,
            (
                Cell(
                    text.UNKNOWN if age is None else f"{text.duration(age)} old when this snapshot was taken",
                    "plain",
                ),
            ),
        )
        for name, age in view.source_ages_s.items()
    ]
    return (Section("sources", tuple(lines) or (("", (Cell("none told", "muted"),)),)),)

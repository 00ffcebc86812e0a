"""Runs and their items: opening, remembering, closing; the journal is written before and after each act."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from backends.errors import ReprieveError, UsageError
from backends.ids import new_nonce
from backends.ledger.records import Item, ItemState, Run, RunState, Step
from console.operations.fleet import Fleet

DONE_STATES = ("restored", "already_restored", "done")


@dataclass
class Notebook:
    """The journal of one item: what was intended and observed, kept over a crash of this program."""

    fleet: Fleet
    run: str
    item: str
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.steps = self.fleet.ledger.steps(self.run, self.item)

    def intend(self, step: str, **data: Any) -> None:
        """Record an act before it is done."""
        self.fleet.ledger.intend(self.run, self.item, step, data, self.fleet.clock.wall())
        self.steps = self.fleet.ledger.steps(self.run, self.item)

    def observe(self, step: str, **data: Any) -> None:
        """Record what came of it."""
        self.fleet.ledger.observe(self.run, self.item, step, data, self.fleet.clock.wall())
        self.steps = self.fleet.ledger.steps(self.run, self.item)

    def first(self, step: str) -> Step | None:
        """The first record of `step`."""
        return next((each for each in self.steps if each.step == step), None)

    def intended(self, step: str) -> list[dict[str, Any]]:
        """Data of all acts of this name that were begun."""
        return [each.data for each in self.steps if each.step == step and each.phase == "intended"]

    def observed(self, step: str) -> list[dict[str, Any]]:
        """Data of all outcomes of this name."""
        return [each.data for each in self.steps if each.step == step and each.phase == "observed"]


def new_run_id() -> str:
    """A run's id: 12 hex digits."""
    return new_nonce()[:12]


def open_run(fleet: Fleet, kind: str, items: list[tuple[str, str, dict[str, Any]]], **arguments: Any) -> Run:
    """Journal a run with its items, given as (item, job, arguments)."""
    run = Run(new_run_id(), kind, fleet.clock.wall(), arguments)
    fleet.ledger.open_run(run, [Item(run.id, item, job, data) for item, job, data in items])
    return run


def unfinished(fleet: Fleet, kind: str, job: str) -> Run | None:
    """The newest run of this kind for this job alone, if it was left in the middle: the same command goes on with it.

    Only restores and moves are journalled so that they can be gone on with. A run that somebody works on right now is
    kept from us by its lock.
    """
    if kind not in ("restore", "move"):
        return None
    for run in fleet.ledger.runs(200):
        items = fleet.ledger.items(run.id) if run.kind in ("restore", "move", "batch", "watch") else []
        if not any(item.job == job for item in items):
            continue
        begun = run.kind == kind and run.state == "running" and bool(fleet.ledger.steps(run.id, "1"))
        return run if begun else None
    return None


def find_run(fleet: Fleet, run_id: str) -> Run:
    """The run of this id, or UsageError."""
    run = fleet.ledger.find_run(run_id)
    if run is None:
        raise UsageError(f"no operation {run_id!r} in the journal", hint="see `reprieve operations list`")
    return run


def close(fleet: Fleet, run: str) -> RunState:
    """Set the run's state from its items' and return it."""
    items = fleet.ledger.items(run)
    counts: dict[str, int] = {}
    for item in items:
        counts[item.state] = counts.get(item.state, 0) + 1
    good = sum(counts.get(state, 0) for state in DONE_STATES)
    state: RunState = "running"
    if all(item.state not in ("planned", "running") for item in items):
        state = "done" if good == len(items) else "partial" if good else "failed"
        if not good and counts.get("cancelled", 0) == len(items):
            state = "cancelled"
    detail = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
    fleet.ledger.close_run(run, state, detail, fleet.clock.wall())
    return state


def item_state_of(error: ReprieveError) -> ItemState:
    """A refusal (no proof, usage) is told apart from a failure."""
    return "refused" if error.exit_code in (2, 9, 10) else "failed"

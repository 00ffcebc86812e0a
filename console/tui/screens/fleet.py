"""Fleet: what is up, and what is about to go?"""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from console.operations.view import FleetView, JobRow, NodeRow
from console.tui.model import columns, detail, plans, text
from console.tui.model.detail import Section
from console.tui.screens.board import Board
from console.tui.widgets.table import RowTable


class Fleet(Board[NodeRow]):
    """The nodes with state, age and notice."""

    MODE = "fleet"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("S", "save", "save its jobs", id="node.save")]

    def make_table(self) -> RowTable[NodeRow]:
        """Nodes by name."""
        return RowTable(
            self.title_of, columns.nodes(0.0), "node", lambda: self.desk.feed.now,
            empty="no nodes yet: reprieve fleet add NAME --ssh USER@HOST", dim=columns.stale, id="table",
        )  # fmt: skip

    def load(self, view: FleetView) -> None:
        """Ages and countdowns tick from the snapshot's time."""
        self.table.load(((node.name, node) for node in view.nodes), columns.nodes(view.taken_at))

    def sections(self, view: FleetView, record: NodeRow, now: float) -> tuple[Section, ...]:
        """State and notice first."""
        return detail.node(view, record, now)

    def name_of(self, record: NodeRow) -> str:
        """The node's name."""
        return record.name

    def summary(self, view: FleetView) -> str:
        """How many are up, how many are about to go."""
        up = sum(1 for node in view.nodes if node.state == "ok")
        going = sum(1 for node in view.nodes if node.notice == "notice")
        return f"{up}/{len(view.nodes)} nodes ok" + (f" · ◆ {text.count(going, 'notice')}" if going else "")

    def _jobs(self) -> list[JobRow]:
        view = self.desk.feed.view
        keys, _ = self.table.rows.targets()
        return [job for job in view.jobs if job.node in keys] if view is not None else []

    def why_not(self, action: str) -> str | None:
        """Read-only, no data, no job there."""
        if action != "save":
            return None
        view = self.desk.feed.view
        if view is None:
            return "save: nothing is known of the fleet yet"
        if view.read_only:
            return f"save: this console is read-only (context {view.context})"
        return None if self._jobs() else "save: no job runs there"

    def action_save(self) -> None:
        """Save every job of the node under the cursor, or of the marked nodes."""
        view = self.desk.feed.view
        jobs = self._jobs()
        if view is not None and jobs:
            self.confirm(plans.save(view, jobs, self.desk.feed.now, 0))

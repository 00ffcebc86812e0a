"""Fleet: what is up, and what is about to go?"""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from console.operations.view import FleetView, JobRow, NodeRow
from console.tui import shell
from console.tui.model import columns, detail, plans, policy_plans, sources, text
from console.tui.model.command_line import Typed
from console.tui.model.detail import Section
from console.tui.screens.board import Board
from console.tui.widgets.table import RowTable


class Fleet(Board[NodeRow]):
    """The nodes with state, age and notice."""

    MODE = "fleet"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("S", "save", "save its jobs", id="node.save"),
        Binding("N", "drain", "drain", id="node.drain"),
        Binding("U", "uncordon", "use again", show=False, id="node.uncordon"),
        Binding("s", "shell", "shell", id="row.shell"),
    ]

    def make_table(self) -> RowTable[NodeRow]:
        """Nodes by name."""
        return RowTable(
            self.title_of, columns.nodes(0.0), "node", lambda: self.desk.feed.now,
            empty="no nodes yet: reprieve fleet add NAME --ssh USER@HOST", dim=columns.stale, id="table",
        )  # fmt: skip

    def load(self, view: FleetView) -> None:
        """Ages and countdowns tick from the snapshot's time."""
        dated = all(node.as_of is not None for node in view.nodes)  # then the columns stay the same ones
        shown = columns.nodes(0.0 if dated else view.taken_at)
        self.table.load(((node.name, node) for node in view.nodes), shown)

    def sections(self, view: FleetView, record: NodeRow, now: float) -> tuple[Section, ...]:
        """State and notice first."""
        return detail.node(view, record, now)

    def figures(self, record: NodeRow) -> tuple[Section, ...]:
        """The node's own word, or this machine's."""
        view = self.desk.feed.view
        return () if view is None else sources.node(view, record, self.desk.feed.now)

    def name_of(self, record: NodeRow) -> str:
        """The node's name."""
        return record.name

    def caption(self, record: NodeRow, now: float) -> str:
        """Why the node is in its state."""
        del now
        return f"{record.name}: {record.reason}" if record.reason else ""

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
        if action not in ("save", "drain", "uncordon", "shell"):
            return None
        closed = self.read_only(action)
        node = self.table.record
        if closed is not None:
            return closed
        if node is None:
            return f"{action}: no node is under the cursor"
        if action == "uncordon" and node.state != "cordoned":
            return f"uncordon: {node.name} is in use"
        if action == "shell":
            return shell.why_not(node.address, suspends=not self.app.is_headless and not self.app.is_web)
        return "save: no job runs there" if action == "save" and not self._jobs() else None

    def action_shell(self) -> None:
        """Leave the console for a shell on the node; it comes back afterwards."""
        node = self.table.record
        if node is not None:
            with self.app.suspend():
                shell.open_shell(node.address)
            self.app.refresh()

    def perform_typed(self, typed: Typed) -> None:
        """`drain NODE`, `uncordon NODE`: the same dialogs as the keys."""
        view = self.desk.feed.view
        closed = self.read_only(typed.action)
        if closed is not None or view is None:
            self.refuse(closed or "")
            return
        name = typed.names[0] if typed.names else (self.table.record.name if self.table.record else "")
        node = next((node for node in view.nodes if node.name == name), None)
        if node is None:
            self.refuse(f"{typed.action}: no node {name!r} in this fleet")
        elif typed.action == "drain":
            self._drain(node)
        else:
            self.confirm(policy_plans.uncordon(view, node))

    def _drain(self, node: NodeRow) -> None:
        view = self.desk.feed.view
        if view is not None:
            jobs = [job for job in view.jobs if job.node == node.name and job.state in plans.LIVING]
            self.confirm(policy_plans.drain(view, node, jobs, self.desk.feed.now))

    def action_drain(self) -> None:
        """Place nothing more there and save what runs."""
        if self.table.record is not None:
            self._drain(self.table.record)

    def action_uncordon(self) -> None:
        """Let jobs be placed there again."""
        view, node = self.desk.feed.view, self.table.record
        if view is not None and node is not None:
            self.confirm(policy_plans.uncordon(view, node))

    def action_save(self) -> None:
        """Save every job of the node under the cursor, or of the marked nodes."""
        view = self.desk.feed.view
        jobs = self._jobs()
        if view is not None and jobs:
            self.confirm(plans.save(view, jobs, self.desk.feed.now, 0))

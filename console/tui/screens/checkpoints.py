"""Checkpoints: what can I come back to?"""

from __future__ import annotations

from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from console.operations.view import FleetView
from console.tui.asked import checkpoints
from console.tui.asked.checkpoints import CheckpointRow
from console.tui.model import plans, text
from console.tui.model.detail import Section
from console.tui.screens.looked import LookedBoard
from console.tui.widgets.table import RowTable


class Checkpoints(LookedBoard[CheckpointRow]):
    """Every save of every job, the newest first; restore from one, verify one."""

    MODE = "checkpoints"
    LOOK = "checkpoints"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("R", "restore", "restore", id="ckpt.restore"),
        Binding("V", "verify", "verify", id="ckpt.verify"),
    ]

    def make_table(self) -> RowTable[CheckpointRow]:
        """By age, the youngest first."""
        return RowTable(
            self.title_of, checkpoints.COLUMNS, "age", lambda: self.desk.feed.now,
            empty="no checkpoints: the first save of a job makes one", dim=lambda row: not row.usable, id="table",
        )  # fmt: skip

    def arguments(self) -> dict[str, Any]:
        """All jobs, with what each save needs."""
        return {"fingerprint": True}

    def row(self, document: dict[str, Any]) -> tuple[str, CheckpointRow]:
        """Known by uid and number."""
        made = checkpoints.row(document)
        return made.key, made

    def sections(self, view: FleetView, record: CheckpointRow, now: float) -> tuple[Section, ...]:
        """Whether it can be used first."""
        return checkpoints.sections(view, record, now)

    def name_of(self, record: CheckpointRow) -> str:
        """Job and number."""
        return f"{record.job}/{record.checkpoint}"

    def caption(self, record: CheckpointRow, now: float) -> str:
        """Why it cannot be used, or where it has run: the columns that a narrow terminal leaves out."""
        del now
        told = [record.reason] if record.reason else []
        told += [f"has run on {record.rehearsed_on}"] if record.rehearsed_on else []
        told += [f"saved on {record.node}"] if record.node else []
        return f"{record.job} {record.checkpoint}: {'; '.join(told)}" if told else ""

    def summary(self, view: FleetView) -> str:
        """How many there are, how many were tried."""
        del view
        rows = [row for key in self.table.rows.order if (row := self.table.rows.get(key)) is not None]
        tried = sum(1 for row in rows if row.state in ("verified", "rehearsed"))
        return f"{text.count(len(rows), 'checkpoint')} · {tried} verified or rehearsed"

    def why_not(self, action: str) -> str | None:
        """Read-only, nothing there, or a save that cannot be used."""
        if action not in ("restore", "verify"):
            return None
        record = self.table.record
        if record is None:
            return f"{action}: no checkpoint is under the cursor"
        if action == "restore" and not record.usable:
            return f"restore: {record.job} {record.checkpoint} is {record.state}: {record.reason or 'it cannot be used'}"
        return self.read_only(action) if action == "restore" else None

    def action_restore(self) -> None:
        """Open the wizard with this checkpoint."""
        record = self.table.record
        if record is not None:
            self.desk.wish.begin(record.job, record.checkpoint)
            self.post_message(self.Wanted("restore"))

    def action_verify(self) -> None:
        """Read it back and check every digest."""
        view, record = self.desk.feed.view, self.table.record
        if view is not None and record is not None:
            job = next((job for job in view.jobs if job.name == record.job), None)
            if job is None:
                self.refuse(f"verify: {record.job} is no longer in the fleet")
            else:
                self.desk.tasks.start(plans.verify(view, job, record.checkpoint))
                self.tick()

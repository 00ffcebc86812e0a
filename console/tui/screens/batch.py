"""Batch: how are the scripted runs doing?"""

from __future__ import annotations

from typing import Any

from console.operations.view import FleetView
from console.tui.asked import batches
from console.tui.asked.batches import BatchRow
from console.tui.model import text
from console.tui.model.detail import Section
from console.tui.screens.looked import LookedBoard
from console.tui.widgets.table import RowTable


class Batch(LookedBoard[BatchRow]):
    """The runs with their items."""

    MODE = "batch"
    LOOK = "batches"
    EVERY_S = 3.0

    def make_table(self) -> RowTable[BatchRow]:
        """The newest first."""
        return RowTable(
            self.title_of, batches.COLUMNS, "began", lambda: self.desk.feed.now, descending=True,
            empty="no batch runs yet: reprieve batch restore FILE", id="table",
        )  # fmt: skip

    def arguments(self) -> dict[str, Any]:
        """With every item."""
        return {"items": True}

    def row(self, document: dict[str, Any]) -> tuple[str, BatchRow]:
        """Known by run."""
        made = batches.row(document)
        return made.run, made

    def sections(self, view: FleetView, record: BatchRow, now: float) -> tuple[Section, ...]:
        """Counts, then each item."""
        del view
        return batches.sections(record, now)

    def name_of(self, record: BatchRow) -> str:
        """The run's id."""
        return record.run

    def summary(self, view: FleetView) -> str:
        """How many runs, how many under way."""
        del view
        rows = [row for key in self.table.rows.order if (row := self.table.rows.get(key)) is not None]
        running = sum(1 for row in rows if row.state == "running")
        return f"{text.count(len(rows), 'batch run')} · {running} under way"

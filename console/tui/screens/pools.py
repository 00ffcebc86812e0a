"""Pools: where should it run?"""

from __future__ import annotations

from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from console.operations.view import FleetView
from console.tui.asked import pools
from console.tui.asked.pools import PoolRow
from console.tui.model.detail import Section
from console.tui.screens.looked import LookedBoard
from console.tui.widgets.table import RowTable


class Pools(LookedBoard[PoolRow]):
    """Published discounts and interruption figures; our own nodes' pools are marked."""

    MODE = "pools"
    LOOK = "pools"
    EVERY_S = 600.0
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "plan", "plan with it", id="pool.plan"),
    ]

    def make_table(self) -> RowTable[PoolRow]:
        """The largest discount first."""
        return RowTable(
            self.title_of, pools.COLUMNS, "discount", lambda: self.desk.feed.now, descending=True,
            empty="no figures yet: reprieve pools pull", id="table",
        )  # fmt: skip

    def row(self, document: dict[str, Any]) -> tuple[str, PoolRow]:
        """Known by pool id."""
        made = pools.row(document)
        return made.pool, made

    def sections(self, view: FleetView, record: PoolRow, now: float) -> tuple[Section, ...]:
        """The figures first."""
        del now
        return pools.sections(view, record)

    def name_of(self, record: PoolRow) -> str:
        """The pool's id."""
        return record.pool

    def summary(self, view: FleetView) -> str:
        """How many are known."""
        del view
        return f"{self.table.rows.total} pools"

    def why_not(self, action: str) -> str | None:
        """A pool without figures cannot be planned with."""
        record = self.table.record
        if action != "plan":
            return None
        if record is None:
            return "plan: no pool is under the cursor"
        return f"plan: the discount of {record.pool} is unknown" if record.discount is None else None

    def action_plan(self) -> None:
        """Take its band and discount to the planner."""
        record = self.table.record
        if record is not None and record.discount is not None:
            self.desk.wish.pool = {"discount": f"{record.discount:g}", "band": record.band or ""}
            self.post_message(self.Wanted("planner"))

"""Events: what happened, in order?"""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from backends.records.event import Event
from console.operations.view import FleetView
from console.tui.model import columns, detail, text
from console.tui.model.detail import Section
from console.tui.screens.board import Board
from console.tui.widgets.table import RowTable


class Events(Board[Event]):
    """The history, newest first."""

    MODE = "events"
    WIDE_EVENTS = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("f", "follow", "follow", id="view.follow")]

    def make_table(self) -> RowTable[Event]:
        """Events by time, newest first."""
        return RowTable(
            self.title_of, columns.EVENTS, "time", lambda: self.desk.feed.now, descending=True,
            empty="nothing has happened yet", id="table",
        )  # fmt: skip

    def load(self, view: FleetView) -> None:
        """Events are known by id."""
        self.table.load((event.id, event) for event in view.events)

    def sections(self, view: FleetView, record: Event, now: float) -> tuple[Section, ...]:
        """The sentence first."""
        return detail.event(view, record, now)

    def name_of(self, record: Event) -> str:
        """The event's id."""
        return record.id

    def caption(self, record: Event, now: float) -> str:
        """The whole sentence."""
        del now
        return record.text

    def summary(self, view: FleetView) -> str:
        """The newest event."""
        if not view.events:
            return "no events"
        last = view.events[-1]
        return f"{text.time_of_day(text.seconds_of(last.time))} {last.text or last.kind}"

    def action_follow(self) -> None:
        """Keep the cursor on the newest event, or stop."""
        self.table.follow = not self.table.follow
        self.table.rows.set_sort("time", self.desk.feed.now, descending=True)
        if self.table.follow:
            self.table.action_top()
        else:
            self.table.action_step(0)

"""Operations: what runs and what ran, with progress, bytes, time left; those of this console can be given up."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from console.tui.asked import operations
from console.tui.asked.operations import OperationLine
from console.tui.desk import Desk
from console.tui.screens.dialog import Confirm
from console.tui.screens.live import Live
from console.tui.widgets.bars import Under
from console.tui.widgets.detail import DetailPane
from console.tui.widgets.table import RowTable


class Operations(Live, ModalScreen[None]):
    """A table over the screen below; the operations themselves belong to the application and outlive it."""

    AUTO_FOCUS = "#operations"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,0", "leave", "back", id="panel.leave"),
        Binding("X", "give_up", "cancel it", id="operation.cancel"),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._desk = desk
        self.table: RowTable[OperationLine] = RowTable(
            Text, operations.COLUMNS, "", desk.clock.wall, empty="nothing runs, nothing ran", id="operations",
        )  # fmt: skip

    def compose(self) -> ComposeResult:
        """The list above, the one under the cursor below."""
        with Vertical(id="panel", classes="full") as box:
            box.border_title = Content("Operations")
            box.border_subtitle = Content("X cancels one of this console · esc closes")
            yield self.table
            yield DetailPane(id="steps")
        yield Under()

    def on_mount(self) -> None:
        """First picture, once the panel has its size."""
        self.call_after_refresh(self.show)

    def show(self) -> None:
        """Draw again."""
        if not self.is_mounted:
            return
        lines = operations.lines(self._desk.tasks.operations, self._desk.feed.view, self._desk.clock.wall())
        self.table.load((line.key, line) for line in lines)
        self.table.tick()
        self._show_steps()

    def _show_steps(self) -> None:
        line = self.table.record
        pane = self.query_one("#steps", DetailPane)
        if line is None:
            pane.show("", ())
            return
        journal = None
        if line.number is None:
            journal = self._desk.looks.want("operation", 5.0, id=line.key)
        pane.show(
            line.what,
            operations.sections(line, journal, self._desk.clock.wall(), self._desk.clock.monotonic()),
        )

    def on_row_table_moved(self, event: RowTable.Moved) -> None:
        """Another operation: its steps."""
        event.stop()
        self._show_steps()

    def on_row_table_opened(self, event: RowTable.Opened) -> None:
        """Enter: scroll its steps."""
        event.stop()
        self.query_one("#steps").focus()

    def action_leave(self) -> None:
        """Back to the table, then close."""
        if self.focused is not self.table:
            self.table.focus()
        else:
            self.dismiss(None)

    def action_give_up(self) -> None:
        """Stop waiting for the operation under the cursor."""
        line, view = self.table.record, self._desk.feed.view
        reason = operations.why_not_cancel(line, view)
        if reason is not None:
            self.app.notify(reason, severity="warning", markup=False, timeout=6)
            return
        assert line is not None  # noqa: S101 - why_not_cancel has looked
        assert view is not None  # noqa: S101 - the same
        number = line.number

        def answered(yes: bool | None) -> None:
            if yes and number is not None:
                self._desk.tasks.cancel(number)
                self.show()

        self.app.push_screen(Confirm(operations.cancellation(line, view), self._desk.clock), answered)

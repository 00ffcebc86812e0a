"""What the screens with a table share: the table, a detail pane, filter, sort, marks, export."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget

from backends.clock import format_utc
from console.operations.view import FleetView
from console.tui.desk import Desk
from console.tui.model import columns, command_line, detail, filters
from console.tui.model.detail import Section
from console.tui.screens.frame import Frame
from console.tui.widgets.bars import Quiet
from console.tui.widgets.caption import Caption
from console.tui.widgets.detail import DetailPane
from console.tui.widgets.prompt import Prompt
from console.tui.widgets.table import RowTable

R = TypeVar("R")


class Board(Frame, Generic[R]):
    """A screen around one table of records of type R."""

    AUTO_FOCUS = "#table"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "prompt('/')", "filter", key_display="/", id="nav.filter"),
        Binding("o", "sort", "sort", show=False, id="view.sort"),
        Binding("z", "zoom", "zoom", show=False, id="view.zoom"),
        Binding("d", "zoom", "detail", show=False, id="row.describe"),
        Binding("c", "copy", "copy id", show=False, id="row.copy"),
        Binding("i", "sources", "where from", show=False, id="row.sources"),
        Binding("x", "export", "export", show=False, id="view.export"),
    ]
    WIDE_EVENTS = True  # a third pane with the fleet's newest events in wide terminals

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.table: RowTable[R] = self.make_table()
        self._shown: str | None = None
        self._before = ""  # the filter before the prompt was opened

    # -- for each screen to say

    def make_table(self) -> RowTable[R]:
        """The screen's table."""
        raise NotImplementedError

    def load(self, view: FleetView) -> None:
        """Give the table a snapshot."""
        raise NotImplementedError

    def sections(self, view: FleetView, record: R, now: float) -> tuple[Section, ...]:
        """The detail pane of a record."""
        raise NotImplementedError

    def name_of(self, record: R) -> str:
        """What a record is called: the pane's title and what `c` copies."""
        raise NotImplementedError

    def caption(self, record: R, now: float) -> str:
        """What a narrow table cuts off of a record; empty when nothing is missing."""
        del record, now
        return ""

    def summary(self, view: FleetView) -> str:
        """The one line for a terminal too small for anything else."""
        raise NotImplementedError

    # -- drawing

    def body(self) -> ComposeResult:
        """The table and its panes."""
        yield self.table
        yield Caption()
        with Vertical(id="side"):
            yield DetailPane(id="detail")
            if self.WIDE_EVENTS:
                yield DetailPane(id="recent")

    def home(self) -> Widget:
        """The table."""
        return self.table

    def show(self) -> None:
        """A new snapshot, or the state of the feed changed."""
        if not self.is_mounted:
            return
        view = self.desk.feed.view
        if view is not None:
            self.load(view)
        super().show()

    def tick(self) -> None:
        """A second went by: ages, countdowns and work at risk."""
        if not self.is_mounted:
            return
        super().tick()
        self.table.tick()
        self._show_detail()

    def on_resize(self) -> None:
        """Another size may show what was hidden."""
        self.call_after_refresh(self._show_detail)

    def _show_detail(self, *, moved: bool = False) -> None:
        """Draw the panes; those that do not depend on the row stay when only the cursor `moved`."""
        view = self.desk.feed.view
        pane, caption = self.query_one("#detail", DetailPane), self.query_one(Caption)
        record = self.table.record
        if view is None or record is None:
            pane.show("", ())
            caption.say("")
            return
        now = self.desk.feed.now
        caption.say(self.caption(record, now))
        if self.query_one("#side").display:
            self._fill(view, record, pane, now)
            if not moved:
                self._show_recent(view, now)
        quiet = self.query_one(Quiet)
        if quiet.display:
            quiet.say(self.summary(view))

    def _fill(self, view: FleetView, record: R, pane: DetailPane, now: float) -> None:
        """Draw the pane of the row under the cursor."""
        pane.show(
            self.name_of(record), self.sections(view, record, now), top=self._shown != self.table.rows.cursor
        )
        self._shown = self.table.rows.cursor

    def _show_recent(self, view: FleetView, now: float) -> None:
        """Draw the fleet's newest events."""
        if self.WIDE_EVENTS and self.query_one("#recent").display:
            latest = Section("", detail.history(view, now, limit=40))
            self.query_one("#recent", DetailPane).show("Latest events", (latest,))

    def on_row_table_moved(self, event: RowTable.Moved) -> None:
        """Another row: its detail, and which keys work now."""
        event.stop()
        self._show_detail(moved=True)
        self.refresh_bindings()

    def on_row_table_opened(self, event: RowTable.Opened) -> None:
        """Enter: the detail, full screen where there is no room beside the table."""
        event.stop()
        if self.has_class("-narrow") or self.has_class("-tiny") or self.has_class("-micro"):
            self.add_class("-zoomed")
            self._show_detail()
        self.query_one("#detail").focus()

    # -- keys

    def action_zoom(self) -> None:
        """The detail pane alone, or back."""
        self.toggle_class("-zoomed")
        self._show_detail()
        self.query_one("#detail" if self.has_class("-zoomed") else "#table").focus()

    def _away(self) -> bool:
        rows = self.table.rows
        return (
            self.focused is not self.table
            or self.has_class("-zoomed")
            or bool(rows.filter.source or rows.marks)
        )

    def action_back(self) -> None:
        """One step back: from the detail to the table, then out of the filter, then out of the marks."""
        if self.focused is not self.table or self.has_class("-zoomed"):
            self.remove_class("-zoomed")
            self.table.focus()
        elif self.table.rows.filter.source:
            self.set_filter("")
        elif self.table.rows.marks:
            self.table.action_clear_marks()

    def action_sort(self) -> None:
        """Choose the column to sort by; the present one again turns the order round."""
        from console.tui.screens.choose import Choice, Choose

        rows = self.table.rows
        shown = list(rows.columns)
        choices = []
        for column in shown:
            here = column.id == rows.sort
            note = (
                ("sorted, high to low" if rows.descending else "sorted, low to high") if here else column.id
            )
            choices.append(Choice(column.title, columns.plain(note, "accent" if here else "muted")))
        start = next((place for place, column in enumerate(shown) if column.id == rows.sort), 0)

        def chosen(number: int | None) -> None:
            if number is not None:
                self.table.sort_by(shown[number].id)

        self.app.push_screen(Choose("Sort by", choices, start), chosen)

    def action_copy(self) -> None:
        """Copy the name under the cursor to the terminal's clipboard, and show it in case there is none."""
        record = self.table.record
        if record is not None:
            name = self.name_of(record)
            self.app.copy_to_clipboard(name)

    def action_export(self, form: str = "csv") -> None:
        """Write what the table shows into a new file of the present directory."""
        from console.tui.model import export

        moment = format_utc(self.desk.clock.wall())
        place = Path.cwd() / export.file_name(self.MODE, moment, form)
        try:
            handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(export.text(self.table.rows, self.MODE, self.desk.feed.now, form))
        except OSError as error:
            self.refuse(f"export: {place}: {error.strerror}")
            return
        self.app.notify(f"{len(self.table.rows)} rows in {place}", title="exported", markup=False, timeout=8)

    def figures(self, record: R) -> tuple[Section, ...]:
        """Where the figures of a record come from; empty on screens whose figures have one source, which they name."""
        del record
        return ()

    def action_sources(self) -> None:
        """Where each figure of the row under the cursor comes from."""
        record = self.table.record
        found = () if record is None else self.figures(record)
        if found:
            from console.tui.screens.overlays import Sources

            self.app.push_screen(Sources(found))
        else:
            self.refuse("sources: the edge of this table says how old its one answer is")

    def perform_typed(self, typed: command_line.Typed) -> None:
        """What the `:` line asked for with a word that acts."""
        self.refuse(f"{typed.action}: not on this screen")

    # -- prompt and filter

    def action_prompt(self, sign: str) -> None:
        """Open the prompt line; `/` starts with the filter there is."""
        self._before = self.table.rows.filter.source
        if sign == "/":
            self.table.prepare()
            self.query_one(Prompt).open(sign, self._before, self._columns_like)
        else:
            super().action_prompt(sign)

    def _columns_like(self, line: str) -> list[str]:
        head, blank, last = line.rpartition(" ")
        ids = [column.id for column in self.table.rows.columns]
        return [f"{head}{blank}{name}=" for name in ids if last and name.startswith(last) and "=" not in last]

    def set_filter(self, line: str) -> str:
        """Filter the table; returns what was not understood, or nothing."""
        wanted = filters.parse(line, tuple(column.id for column in self.table.rows.columns))
        self.table.set_filter(wanted)
        return wanted.error

    def tell(self, word: str, text: str) -> str:
        """A word of the `:` line that is about this table; returns what is wrong with it, or nothing."""
        if word == "filter":
            return self.set_filter(text)
        if word == "export":
            from console.tui.model import export

            if (text or "csv") not in export.FORMATS:
                return f"export: {text!r} is no format: {', '.join(export.FORMATS)}"
            self.action_export(text or "csv")
            return ""
        if word == "sort":
            ids = [column.id for column in self.table.rows.columns]
            if text not in ids:
                return f"sort: no column {text!r}: {', '.join(ids)}"
            self.table.sort_by(text)
            return ""
        return f"{word}: not on this screen"

    def on_prompt_typing(self, event: Prompt.Typing) -> None:
        """Filter as it is typed."""
        event.stop()
        if event.sign == "/":
            self.query_one(Prompt).hint(self.set_filter(event.line))

    def left_prompt(self) -> None:
        """The filter is as it was."""
        if self.query_one(Prompt).sign == "/":
            self.set_filter(self._before)
        super().left_prompt()

    def entered(self, event: Prompt.Entered) -> None:
        """Keep the filter, or do what was typed (the application reads the words)."""
        if event.sign == "/":
            event.stop()
            problem = self.set_filter(event.line)
            if problem:
                self.query_one(Prompt).hint(problem)
                return
        super().entered(event)

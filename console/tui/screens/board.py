"""What the Fleet, Jobs and Events screens share: a table, a detail pane, the bars, the prompt."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.screen import Screen

from console.operations.view import FleetView
from console.tui.desk import Desk
from console.tui.model import columns, command_line, detail, filters
from console.tui.model.detail import Section
from console.tui.model.plans import Plan
from console.tui.screens.choose import Choice, Choose
from console.tui.screens.dialog import Confirm
from console.tui.widgets.bars import TABS, ContextBar, GuideStrip, KeyFooter, Quiet
from console.tui.widgets.detail import DetailPane
from console.tui.widgets.prompt import Prompt
from console.tui.widgets.table import RowTable
from console.tui.widgets.tones import tone

R = TypeVar("R")
TAB_LINE = 34  # lines from which the context bar has a line of tabs (the style sheet's `-high`)


class Board(Screen[None], Generic[R]):
    """One screen of the console. Layouts by size are in the style sheet."""

    AUTO_FOCUS = "#table"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("colon", "prompt(':')", "words", key_display=":", id="nav.command"),
        Binding("slash", "prompt('/')", "filter", key_display="/", id="nav.filter"),
        Binding("escape", "back", "back", key_display="esc", id="nav.back"),
        Binding("o", "sort", "sort", show=False, id="view.sort"),
        Binding("z", "zoom", "zoom", show=False, id="view.zoom"),
        Binding("d", "zoom", "detail", show=False, id="row.describe"),
        Binding("c", "copy", "copy id", show=False, id="row.copy"),
    ]
    MODE = ""
    WIDE_EVENTS = True  # a third pane with the fleet's newest events in wide terminals

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self.table: RowTable[R] = self.make_table()
        self._shown: str | None = None
        self._before = ""  # the filter before the prompt was opened

    # -- for the three screens to say

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

    def summary(self, view: FleetView) -> str:
        """The one line for a terminal too small for anything else."""
        raise NotImplementedError

    def why_not(self, action: str) -> str | None:
        """Why an action cannot be taken now, in one sentence; None when it can, or is none of this screen's."""
        del action
        return None

    # -- drawing

    def title_of(self, number: str) -> Text:
        """The table's title with its row count; in low terminals, which have no tab line, all three screens."""
        here = Text(f"{self.MODE.capitalize()} {number}", tone(self, "strong"))
        if self.size.height >= TAB_LINE:
            return here
        muted = tone(self, "muted") + Style(bold=False)
        parts = []
        for place, (mode, name) in enumerate(TABS, 1):
            one = (
                Text.assemble((f"{place} ", muted), here)
                if mode == self.MODE
                else Text(f"{place} {name}", muted)
            )
            parts.append(one)
        return Text("  ").join(parts)

    def compose(self) -> ComposeResult:
        """Bars, table, panes, prompt."""
        yield ContextBar(self.MODE)
        yield Quiet()
        with Container(id="body"):
            yield self.table
            with Vertical(id="side"):
                yield DetailPane(id="detail")
                if self.WIDE_EVENTS:
                    yield DetailPane(id="recent")
        yield GuideStrip()
        yield Prompt()
        yield KeyFooter()

    def on_mount(self) -> None:
        """First picture."""
        self.show()

    def on_screen_resume(self) -> None:
        """Another mode was shown meanwhile: catch up."""
        self.show()

    def show(self) -> None:
        """A new snapshot, or the state of the feed changed."""
        if not self.is_mounted:
            return
        view = self.desk.feed.view
        if view is not None:
            self.load(view)
        self.query_one(GuideStrip).say(self.desk.guide)
        self.tick()
        self.refresh_bindings()

    def tick(self) -> None:
        """A second went by: ages, countdowns and work at risk."""
        if not self.is_mounted:
            return
        self.query_one(ContextBar).show(self.desk.header(), self.desk.clock.wall())
        self.table.tick()
        self._show_detail()

    def _show_detail(self) -> None:
        view = self.desk.feed.view
        pane = self.query_one("#detail", DetailPane)
        record = self.table.record
        if view is None or record is None:
            pane.show("", ())
            return
        now = self.desk.feed.now
        pane.show(
            self.name_of(record), self.sections(view, record, now), top=self._shown != self.table.rows.cursor
        )
        self._shown = self.table.rows.cursor
        self.query_one(Quiet).say(self.summary(view))
        if self.WIDE_EVENTS:
            latest = Section("", detail.history(view, now, limit=40))
            self.query_one("#recent", DetailPane).show("Latest events", (latest,))

    def on_row_table_moved(self, event: RowTable.Moved) -> None:
        """Another row: its detail, and which keys work now."""
        event.stop()
        self._show_detail()
        self.refresh_bindings()

    def on_row_table_opened(self, event: RowTable.Opened) -> None:
        """Enter: the detail, full screen where there is no room beside the table."""
        event.stop()
        if self.has_class("-narrow") or self.has_class("-tiny") or self.has_class("-micro"):
            self.add_class("-zoomed")
        self.query_one("#detail").focus()

    # -- keys

    def action_zoom(self) -> None:
        """The detail pane alone, or back."""
        self.toggle_class("-zoomed")
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
            self.app.notify(f"copied: {name}", markup=False, timeout=4)

    def on_key(self, event: events.Key) -> None:
        """Say why a greyed key does nothing."""
        if not event.is_printable:
            return
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            reason = self.why_not(binding.action)
            if reason is not None:
                event.stop()
                self.app.notify(reason, severity="warning", markup=False, timeout=5)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """None greys a key that cannot do anything now; the way back is shown only where there is one."""
        del parameters
        if action == "back" and self.is_mounted and not self._away():
            return False
        return None if self.why_not(action) is not None else True

    # -- prompt and filter

    def action_prompt(self, sign: str) -> None:
        """Open the prompt line."""
        self._before = self.table.rows.filter.source
        if sign == "/":
            self.query_one(Prompt).open(sign, self._before, self._columns_like)
        else:
            self.query_one(Prompt).open(sign, "", self._words_like)

    def _columns_like(self, line: str) -> list[str]:
        head, blank, last = line.rpartition(" ")
        ids = [column.id for column in self.table.rows.columns]
        return [f"{head}{blank}{name}=" for name in ids if last and name.startswith(last) and "=" not in last]

    def _words_like(self, line: str) -> list[str]:
        view = self.desk.feed.view
        jobs = [job.name for job in view.jobs] if view is not None else []
        nodes = [node.name for node in view.nodes] if view is not None else []
        return command_line.complete(line, self.desk.commands, jobs, nodes)

    def set_filter(self, line: str) -> str:
        """Filter the table; returns what was not understood, or nothing."""
        wanted = filters.parse(line, tuple(column.id for column in self.table.rows.columns))
        self.table.set_filter(wanted)
        return wanted.error

    def on_prompt_typing(self, event: Prompt.Typing) -> None:
        """Filter as it is typed."""
        event.stop()
        if event.sign == "/":
            self.query_one(Prompt).hint(self.set_filter(event.line))

    def on_prompt_left(self, event: Prompt.Left) -> None:
        """Escape: the filter is as it was."""
        event.stop()
        if self.query_one(Prompt).sign == "/":
            self.set_filter(self._before)
        self._close_prompt()

    def on_prompt_entered(self, event: Prompt.Entered) -> None:
        """Enter: keep the filter, or do what was typed (the application reads the words)."""
        if event.sign == "/":
            event.stop()
            problem = self.set_filter(event.line)
            if problem:
                self.query_one(Prompt).hint(problem)
                return
        self._close_prompt()

    def _close_prompt(self) -> None:
        self.query_one(Prompt).close()
        self.table.focus()
        self.refresh_bindings()

    # -- acting

    def confirm(self, plan: Plan) -> None:
        """Ask, then start the plan's steps as operations of the application."""

        def answered(yes: bool | None) -> None:
            view = self.desk.feed.view
            if not yes:
                return
            if view is None or view.read_only:
                self.app.notify("read-only: nothing was done", severity="error", markup=False)
                return
            for step in plan.steps:
                self.desk.tasks.start(step)
            self.tick()

        self.app.push_screen(Confirm(plan, self.desk.clock), answered)

    def refuse(self, reason: str) -> None:
        """Say why nothing is done."""
        self.app.notify(reason, severity="warning", markup=False, timeout=6)

"""Restore: bring it back, safely, in four steps: from which save, to where, the plan, how it went."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from console.operations.view import JobRow
from console.tui.asked import checkpoints, places, wizard
from console.tui.asked.checkpoints import CheckpointRow
from console.tui.asked.looked import told
from console.tui.asked.places import Place
from console.tui.desk import Desk
from console.tui.looks import Looked
from console.tui.model import plans
from console.tui.screens.frame import Frame
from console.tui.widgets.bars import Quiet
from console.tui.widgets.detail import DetailPane
from console.tui.widgets.table import RowTable
from console.tui.widgets.tones import tone

SAVES_S = 20.0  # how often each step asks again
PLACES_S = 20.0


class Restore(Frame):
    """The wizard. It keeps its state while other screens are looked at."""

    MODE = "restore"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "next", "next", key_display="↵", id="wizard.next"),
        Binding("r", "ask_again", "ask again", show=False, id="view.ask"),
        Binding("A", "all_jobs", "all jobs", show=False, id="wizard.all"),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.step = 1
        self.job: str | None = None
        self.save: CheckpointRow | None = None
        self.place: Place | None = None
        self.operation: int | None = None
        self._wish = -1
        self._answers: tuple[object, object] = (None, None)
        self.saves: RowTable[CheckpointRow] = RowTable(
            lambda number: self._title(1, number), wizard.SAVES, "age", lambda: self.desk.feed.now,
            empty="no checkpoint that could be restored", dim=lambda row: not row.usable, id="saves",
        )  # fmt: skip
        self.places: RowTable[Place] = RowTable(
            lambda number: self._title(2, number), places.COLUMNS, "", lambda: self.desk.feed.now,
            empty="each node is being asked…", dim=lambda row: row.fits is False, id="places",
        )  # fmt: skip

    # -- drawing

    def body(self) -> ComposeResult:
        """The four steps."""
        with Vertical(id="step-1", classes="step"):
            yield self.saves
            yield Static(wizard.FIRST, markup=False, classes="hint")
        with Vertical(id="step-2", classes="step"):
            yield self.places
            yield DetailPane(id="why")
        yield DetailPane(id="plan", classes="step")
        yield DetailPane(id="run", classes="step")

    def _title(self, number: int, count: str = "") -> Text:
        line = Text()
        for step, name in wizard.STEPS:
            wide = self.has_class("-wide")
            if wide and step != number:
                continue
            here = step == (number if wide else self.step)
            done = step < self.step
            label = f"{step} {name}{' ✓' if done else ''}" + (
                f" {count}" if step == number and count and here else ""
            )
            line.append(
                label + ("" if wide else "  "), tone(self, "strong" if here else "ok" if done else "muted")
            )
        return line

    def home(self) -> Widget:
        """The widget of the present step."""
        return self.query_one(("#saves", "#places", "#plan", "#run")[self.step - 1])

    def show(self) -> None:
        """Take the wish of another screen, the answers, and draw."""
        if not self.is_mounted:
            return
        wish = self.desk.wish
        if wish.number != self._wish:
            self._wish = wish.number
            self._begin(wish.job, wish.checkpoint)
        self._take()
        super().show()

    def _begin(self, job: str | None, checkpoint: str | None) -> None:
        self.job, self.save, self.place, self.operation = job, None, None, None
        self._preset = checkpoint
        self._answers = (None, None)
        self.saves.load(())
        self.places.load(())
        self._go(1)

    _preset: str | None = None

    def _take(self) -> None:
        found = self.desk.looks.known("checkpoints", fingerprint=True)
        if self.app.screen is self:
            found = self.desk.looks.want("checkpoints", SAVES_S, fingerprint=True)
        if found.document is not None and found.document is not self._answers[0]:
            self._answers = (found.document, self._answers[1])
            rows = [checkpoints.row(item) for item in found.items()]
            self.saves.load((row.key, row) for row in rows if self.job in (None, row.job))
            self._choose_preset(rows)
        if self.save is not None:
            asked = self._ask_places()
            if asked.document is not None and asked.document is not self._answers[1]:
                self._answers = (self._answers[0], asked.document)
                view, job = self.desk.feed.view, self._job()
                if view is not None:
                    self.places.load(
                        (place.key, place) for place in places.from_look(asked.document, view, job)
                    )

    def _choose_preset(self, rows: list[CheckpointRow]) -> None:
        """A job was named by another screen: its save is chosen at once, and step 2 is next."""
        if self.job is None or self.save is not None or self.step != 1:
            return
        usable = [row for row in rows if row.job == self.job and row.usable]
        wanted = next(
            (row for row in usable if row.checkpoint == self._preset), usable[0] if usable else None
        )
        if wanted is not None and (self._preset is None or wanted.checkpoint == self._preset):
            self.saves.rows.select(wanted.key, self.desk.feed.now)
            self.save = wanted
            self._go(2)

    def _ask_places(self) -> Looked:
        assert self.save is not None  # noqa: S101 - the callers have looked
        asked = {"name": self.save.job, "checkpoint": self.save.checkpoint}
        if self.app.screen is self and self.step in (2, 3):
            return self.desk.looks.want("places", PLACES_S, **asked)
        return self.desk.looks.known("places", **asked)

    def _job(self) -> JobRow | None:
        view = self.desk.feed.view
        name = self.save.job if self.save is not None else self.job
        return None if view is None else next((job for job in view.jobs if job.name == name), None)

    def tick(self) -> None:
        """Ages, the plan's loss, the progress of the run."""
        super().tick()
        if not self.is_mounted:
            return
        self._take()
        now, clock = self.desk.feed.now, self.desk.clock.monotonic()
        self.saves.note(told(self.desk.looks.known("checkpoints", fingerprint=True), clock, SAVES_S).text)
        self.saves.tick()
        view, job = self.desk.feed.view, self._job()
        if self.save is not None:
            self.places.note(told(self._ask_places(), clock, PLACES_S).text)
        self.places.tick()
        place = self.places.record
        self.query_one("#why", DetailPane).show("", places.place_sections(place) if place is not None else ())
        plan = self.query_one("#plan", DetailPane)
        plan.show("", wizard.plan_sections(self._plan(), self.step))
        plan.border_title = self._content(3)
        operation = next((item for item in self.desk.tasks.operations if item.number == self.operation), None)
        run = self.query_one("#run", DetailPane)
        run.show("", wizard.run_sections(view, job, operation, now, self.desk.clock.wall()))
        run.border_title = self._content(4)
        self.query_one(Quiet).say(wizard.summary(self.step, self.save, self.place))

    def _content(self, number: int) -> Content:
        return Content.from_rich_text(self._title(number))

    # -- going

    def _go(self, step: int) -> None:
        self.step = step
        for number, _ in wizard.STEPS:
            self.set_class(number == step, f"-step-{number}")
        self.saves.retitle()
        self.places.retitle()
        if self.is_mounted and self.app.screen is self:
            self.home().focus()
        self.tick()
        self.refresh_bindings()

    def on_screen_resume(self) -> None:
        """Back from another mode: the keys go to the present step."""
        self.home().focus()

    def on_row_table_moved(self, event: RowTable.Moved) -> None:
        """Another place: its reasons."""
        event.stop()
        place = self.places.record
        self.query_one("#why", DetailPane).show(
            "", places.place_sections(place) if place is not None else (), top=True
        )

    def on_row_table_opened(self, event: RowTable.Opened) -> None:
        """Enter in a table: this one, and the next step."""
        event.stop()
        self.action_next()

    def action_next(self) -> None:
        """Take what is under the cursor and go on."""
        reason = self.why_not("next")
        if reason is not None:
            self.refuse(reason)
        elif self.step == 1:
            self.save = self.saves.record
            self.job = self.save.job if self.save is not None else None
            self._answers = (self._answers[0], None)
            self.places.load(())
            self._go(2)
        elif self.step == 2:
            self.place = self.places.record
            self._go(3)
        elif self.step == 3:
            plan = self._plan()
            if plan is not None:
                self.confirm(plan)
        else:
            self._begin(None, None)
            self.show()

    def why_not(self, action: str) -> str | None:
        """What is missing for the next step, in one sentence."""
        if action != "next":
            return None
        if self.step == 1:
            return wizard.why_not_save(self.saves.record)
        if self.step == 2:
            return wizard.why_not_place(self.places.record)
        if self.step == 3:
            return self.read_only("restore") or (
                None if self._plan() is not None else "restore: the job is gone"
            )
        return None

    def _plan(self) -> plans.Plan | None:
        view, job = self.desk.feed.view, self._job()
        if view is None or job is None or self.save is None or self.place is None:
            return None
        target = None if self.place.kind == "any" else self.place.name
        return plans.restore(view, job, target, self.desk.feed.now, self.save)

    def started(self, number: int) -> None:
        """It runs: the last step shows how."""
        self.operation = number
        self._go(4)

    def _away(self) -> bool:
        return self.step > 1

    def action_back(self) -> None:
        """The step before; what was chosen stays chosen."""
        if self.step > 1:
            self._go(self.step - 1)

    def action_all_jobs(self) -> None:
        """Start again with the checkpoints of every job."""
        self._begin(None, None)
        self.show()

    def action_ask_again(self) -> None:
        """Ask store and nodes now."""
        self.desk.looks.want("checkpoints", 0.0, fingerprint=True)
        if self.save is not None:
            self.desk.looks.want("places", 0.0, name=self.save.job, checkpoint=self.save.checkpoint)
        self.tick()

"""Planner: does spot pay, and how often to save? Everything is redrawn as the values are typed."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, Static

from console.pictures.figures import headline
from console.tui.asked import planner
from console.tui.desk import Desk
from console.tui.screens.frame import Frame
from console.tui.widgets.bars import Quiet
from console.tui.widgets.detail import DetailPane

WAIT_S = 0.06  # between the last letter and the new charts


class _Value(Input):
    """One value; Escape leaves the form, arrows go to the neighbours."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "leave the form", key_display="esc", id="planner.leave"),
        Binding("down,enter", "screen.focus_next", "next", show=False, id="planner.next"),
        Binding("up", "screen.focus_previous", "before", show=False, id="planner.before"),
    ]

    def action_leave(self) -> None:
        """The keys go to the result."""
        self.screen.query_one("#detail").focus()


class _Field(Horizontal):
    """A label and its value."""

    def __init__(self, field: planner.Field, value: str) -> None:
        super().__init__(classes="field")
        self._field = field
        self._value = value

    def compose(self) -> ComposeResult:
        """Label, value."""
        yield Static(Content(self._field.label), classes="label")
        yield _Value(
            self._value,
            placeholder=self._field.hint,
            id=f"in-{self._field.name}",
            compact=True,
            select_on_focus=False,
        )


class Planner(Frame):
    """The form, the answer, the curves; `t` shows the numbers instead of the curves."""

    MODE = "planner"
    AUTO_FOCUS = "#detail"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("i", "form", "values", id="planner.form"),
        Binding("t", "table", "chart or table", id="view.table"),
        Binding("n", "next_chart", "next chart", id="planner.chart"),
        Binding("E", "example", "article's example", show=False, id="planner.example"),
        Binding("W", "wipe", "empty form", show=False, id="planner.wipe"),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.typed = dict(planner.EXAMPLE)
        self.answer = planner.answer(self.typed)
        self.sources: dict[str, str] = {}
        self.tables = False
        self.chart = 0
        self._timer: Timer | None = None
        self._job: str | None = None

    # -- drawing

    def body(self) -> ComposeResult:
        """Form, result, curve."""
        with VerticalScroll(id="form", can_focus=False) as form:
            form.border_title = self._title()
            for field in planner.FIELDS:
                yield _Field(field, self.typed.get(field.name, ""))
        yield DetailPane(id="detail")
        yield DetailPane(id="curve")

    def _title(self) -> Content:
        return Content.from_rich_text(self.title_of("" if self._job is None else f"for {self._job}"))

    def _away(self) -> bool:
        return self.has_class("-charted")

    def action_back(self) -> None:
        """From the curve back to the result."""
        self.remove_class("-charted")
        self.call_after_refresh(self._draw)

    def home(self) -> Widget:
        """The first value, or the result when the form was left."""
        return self.query_one("#detail")

    def on_resize(self) -> None:
        """The curve is drawn for its room."""
        self.call_after_refresh(self._draw)

    def show(self) -> None:
        """Take what another screen brought; draw."""
        if not self.is_mounted:
            return
        wish = self.desk.wish
        if wish.pool is not None:
            brought, wish.pool = wish.pool, None
            kept = {
                name: text
                for name, text in self.typed.items()
                if name not in ("reclaims", "rate", "band", "discount")
            }
            self.fill({**kept, **brought})
        if wish.plan_job is not None:
            self._job, wish.plan_job = wish.plan_job, None
            self.desk.looks.want("plan", 0.0, name=self._job)
            self._pending = True
        self._take_job()
        super().show()
        self._draw()

    _pending = False

    def _take_job(self) -> None:
        if not self._pending or self._job is None:
            return
        found = self.desk.looks.known("plan", name=self._job)
        if found.asking:
            return
        self._pending = False
        if found.document is None:
            self.refuse(f"plan for {self._job}: {found.failure}")
            return
        values = found.document.get("values")
        texts = planner.typed_of(values if isinstance(values, dict) else {})
        self.fill({"discount": self.typed.get("discount", ""), **texts})

    def fill(self, texts: dict[str, str]) -> None:
        """Put these values into the form, empty the others."""
        self.typed = {name: text for name, text in texts.items() if text}
        for field in planner.FIELDS:
            value = self.query_one(f"#in-{field.name}", Input)
            with value.prevent(Input.Changed):
                value.value = self.typed.get(field.name, "")
        self._compute()

    def on_input_changed(self, event: Input.Changed) -> None:
        """A letter was typed: the figures at once, the curves when the hand rests."""
        name = (event.input.id or "").removeprefix("in-")
        if name == "line" or not (event.input.id or "").startswith("in-"):
            return
        event.stop()
        self.typed[name] = event.input.value  # a message may tell of a letter that was overwritten meanwhile
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(WAIT_S, self._compute)

    def _compute(self) -> None:
        self.answer = planner.answer(self.typed)
        self._draw()

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        self.query_one("#form").border_title = self._title()
        self.query_one("#detail", DetailPane).show("Result", planner.sections(self.answer))
        words = self.answer.error or headline(self.answer.document or {})
        self.query_one(Quiet).say(words)
        pane = self.query_one("#curve", DetailPane)
        if self.answer.inputs is None:
            pane.show("Curve", planner.sections(self.answer))
        elif self.tables:
            pane.show("Numbers behind the curves", planner.tables(self.answer.inputs))
        else:
            pane.draw(*self._picture(pane))

    def _picture(self, pane: DetailPane) -> tuple[str, list[str]]:
        from console.pictures.draw import chart
        from console.pictures.plan import of_interval, of_law, of_reclaims

        assert self.answer.inputs is not None  # noqa: S101 - the only caller has looked
        makers = (of_interval, of_reclaims, of_law)
        found = [made for make in makers if (made := make(self.answer.inputs)) is not None]
        width, height = pane.scrollable_content_region.width, pane.scrollable_content_region.height
        if not found or width < 24 or height < 7:
            return "Curve", [
                "no curve for this plan" if not found else "no room for a curve: t shows the numbers"
            ]
        place = self.chart % len(found)
        lines = chart(found[place], width=width, height=max(5, height - 3)).split("\n")
        return f"{lines[0]}  ({place + 1}/{len(found)}, n next, t numbers)", lines[1:]

    # -- keys

    def action_form(self) -> None:
        """Back to the values."""
        self.remove_class("-zoomed")
        self.query_one("#in-hours").focus()

    def action_table(self) -> None:
        """The curves, or the numbers behind them."""
        if not self.query_one("#curve").region:  # no room beside the result: one takes the other's place
            self.add_class("-charted")
            self.tables = False
        elif self.tables and self.has_class("-charted"):
            self.remove_class("-charted")
        else:
            self.tables = not self.tables
        self.call_after_refresh(self._draw)

    def action_next_chart(self) -> None:
        """The next of the plan's charts."""
        if not self.query_one("#curve").region:
            self.add_class("-charted")
        else:
            self.chart += 1
        self.tables = False
        self.call_after_refresh(self._draw)

    def action_example(self) -> None:
        """The article's example."""
        self._job = None
        self.fill(planner.EXAMPLE)

    def action_wipe(self) -> None:
        """An empty form."""
        self._job = None
        self.fill({})
        self.action_form()

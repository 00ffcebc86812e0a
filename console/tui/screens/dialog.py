"""The confirmation dialog: what will happen, Cancel focused, no key counts in its first half second."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from backends.clock import Clock
from console.tui.model.cells import Cell
from console.tui.model.detail import Section
from console.tui.model.plans import Plan
from console.tui.widgets.facts import Facts

GUARD_S = 0.5  # a key meant for the screen below must not confirm


class Confirm(ModalScreen[bool]):
    """Asks before a plan is performed; the answer is True only for a deliberate yes."""

    AUTO_FOCUS = "#cancel"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "yes", "confirm", id="dialog.yes"),
        Binding("n,escape", "no", "cancel", id="dialog.no"),
        Binding("left,h", "app.focus_previous", "", show=False, id="dialog.left"),
        Binding("right,l", "app.focus_next", "", show=False, id="dialog.right"),
    ]

    def __init__(self, plan: Plan, clock: Clock) -> None:
        super().__init__()
        self.plan = plan
        self._clock = clock
        self._opened = clock.monotonic()

    def compose(self) -> ComposeResult:
        """Facts, notes, the command line, the buttons."""
        plan = self.plan
        lines = [(label, (cell,)) for label, cell in plan.facts]
        notes = [("", (note,)) for note in plan.notes]
        shown = plan.steps[:5]
        commands = [("", (Cell(f"$ {step.command}", "accent"),)) for step in shown]
        if len(plan.steps) > len(shown):
            commands.append(("", (Cell(f"… and {len(plan.steps) - len(shown)} more", "muted"),)))
        sections = [
            Section("", tuple(lines)),
            Section("", tuple(notes)),
            Section("the same as", tuple(commands)),
        ]
        with Vertical(id="dialog", classes="tier-3" if plan.tier >= 3 else "") as box:
            box.border_title = Content(plan.title)
            with VerticalScroll(id="dialog-body", can_focus=False):
                yield Facts([section for section in sections if section.lines])
            if plan.tier >= 3:
                yield Static(Content(f"Production. Type {plan.typed} and press Enter:"), id="typed-label")
                yield Input(id="typed", compact=True)
            with Horizontal(id="buttons"):
                yield Static(
                    "esc cancels" if plan.tier >= 3 else "y confirms · esc cancels", id="keys", markup=False
                )
                yield Button("Cancel", id="cancel", compact=True)
                yield Button(plan.verb, id="yes", compact=True, disabled=plan.tier >= 3)

    def on_mount(self) -> None:
        """The half second starts when the dialog can be seen."""
        self._opened = self._clock.monotonic()
        if self.plan.tier >= 3:
            self.query_one("#typed").focus()

    @property
    def armed(self) -> bool:
        """Whether keys count yet."""
        return self._clock.monotonic() - self._opened >= GUARD_S

    def action_yes(self) -> None:
        """Perform it (tiers 1 and 2)."""
        if self.armed and self.plan.tier < 3:
            self.dismiss(True)

    def action_no(self) -> None:
        """Leave it."""
        if self.armed:
            self.dismiss(False)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """The buttons do what the keys do."""
        event.stop()
        if not self.armed:
            return
        if event.button.id != "yes":
            self.dismiss(False)
        elif self.plan.tier < 3 or self._typed_right():
            self.dismiss(True)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Tier 3: the button works once the name is right."""
        event.stop()
        if not self.armed and event.value:
            self.query_one("#typed", Input).value = ""
            return
        self.query_one("#yes", Button).disabled = not self._typed_right()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Tier 3: Enter confirms once the name is right."""
        event.stop()
        if self.armed and self._typed_right():
            self.dismiss(True)

    def _typed_right(self) -> bool:
        return self.query_one("#typed", Input).value == self.plan.typed

"""A list to choose one thing from: the target of a restore or move, the column to sort by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from console.tui.model.cells import Cell
from console.tui.widgets.tones import crop, tone

WIDTH = 78  # of the dialog, as in the style sheet


@dataclass(frozen=True)
class Choice:
    """One line of the list."""

    label: str
    note: Cell
    enabled: bool = True


class _Choices(OptionList):
    """The list; j and k move as well."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", "down", show=False, id="choose.down"),
        Binding("k", "cursor_up", "up", show=False, id="choose.up"),
    ]

    def fill(self, choices: Sequence[Choice], room: int) -> None:
        """Show the choices, each on one line of at most `room` cells."""
        width = min(28, max((len(choice.label) for choice in choices), default=0)) + 2
        for number, choice in enumerate(choices):
            line = Text(no_wrap=True, overflow="ellipsis")
            line.append(crop(choice.label, width), tone(self, "strong" if choice.enabled else "muted"))
            line.append(crop(choice.note.text, max(8, room - width)).rstrip(), tone(self, choice.note.tone))
            self.add_option(Option(line, id=str(number), disabled=not choice.enabled))


class Choose(ModalScreen["int | None"]):
    """Answers with the number of the choice, None when left."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "leave", "back", id="choose.leave")]

    def __init__(self, title: str, choices: Sequence[Choice], start: int = 0) -> None:
        super().__init__()
        self._title = title
        self._choices = tuple(choices)
        self._start = start

    def compose(self) -> ComposeResult:
        """The list and the keys."""
        with Vertical(id="dialog") as box:
            box.border_title = Content(self._title)
            yield _Choices(id="choices", compact=True)
            yield Static("↵ chooses · esc leaves", id="keys", markup=False)

    def on_mount(self) -> None:
        """Fill the list once styles are known."""
        choices = self.query_one(_Choices)
        choices.fill(self._choices, min(WIDTH, self.app.size.width) - 10)
        choices.highlighted = self._start
        choices.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter or a click."""
        event.stop()
        self.dismiss(int(event.option.id or 0))

    def action_leave(self) -> None:
        """Choose nothing."""
        self.dismiss(None)

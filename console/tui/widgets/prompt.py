"""The prompt line: `:` for words, `/` for a filter. While it is open it owns every key."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

Completer = Callable[[str], list[str]]


class _Line(Input):
    """The input itself; Tab completes, Escape leaves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", id="prompt.leave"),
        Binding("tab", "complete", "complete", id="prompt.complete"),
        Binding("up", "older", "older line", show=False, id="prompt.older"),
    ]

    def __init__(self) -> None:
        super().__init__(compact=True, select_on_focus=False, id="line")

    def action_leave(self) -> None:
        """Close the prompt, changing nothing."""
        self.post_message(Prompt.Left())

    def action_complete(self) -> None:
        """Put the next completion into the line."""
        self.post_message(Prompt.Completing())

    def action_older(self) -> None:
        """Bring back the last line."""
        self.post_message(Prompt.Recalled())


class Prompt(Horizontal):
    """The line above the footer; hidden until opened."""

    DEFAULT_CSS = """
    Prompt {
        height: 1;
        background: $bar-back;
        display: none;
        &.-open { display: block; }
        & > #sign { width: 3; padding: 0 1; color: $tone-accent; text-style: bold; }
        & > #line { width: 1fr; background: $bar-back; }
        & > #hint { width: auto; max-width: 50%; padding: 0 1; color: $tone-muted; text-overflow: ellipsis; text-wrap: nowrap; }
    }
    """

    class Left(Message):
        """Escape: nothing is done."""

    class Completing(Message):
        """Tab was pressed."""

    class Recalled(Message):
        """The last line is wanted again."""

    class Typing(Message):
        """The line changed."""

        def __init__(self, sign: str, line: str) -> None:
            super().__init__()
            self.sign = sign
            self.line = line

    class Entered(Typing):
        """Enter was pressed."""

    def __init__(self) -> None:
        super().__init__(id="prompt")
        self.sign = ":"
        self._complete: Completer = lambda _line: []
        self._last: dict[str, str] = {}
        self._choices: list[str] = []
        self._hint = ""

    def compose(self) -> ComposeResult:
        """Sign, line, hint."""
        yield Static(":", id="sign", markup=False)
        yield _Line()
        yield Static("", id="hint", markup=False)

    def open(self, sign: str, line: str, complete: Completer) -> None:
        """Show the prompt with `sign` (`:` or `/`) and give it the keys."""
        self.sign = sign
        self._complete = complete
        self._choices = []
        self.query_one("#sign", Static).update(Content(sign))
        self.hint("")
        field = self.query_one(_Line)
        with self.prevent(Input.Changed):
            field.value = line
        field.cursor_position = len(line)
        self.add_class("-open")
        field.focus()
        self._suggest(line)

    def close(self) -> None:
        """Hide the prompt."""
        self.remove_class("-open")

    def hint(self, words: str) -> None:
        """Words at the right end: completions, or what is wrong."""
        if words != self._hint:  # new words lay out the whole screen
            self._hint = words
            self.query_one("#hint", Static).update(Content(words))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Tell what is typed and show what could follow."""
        event.stop()
        self._choices = []
        self._suggest(event.value)
        self.post_message(self.Typing(self.sign, event.value))

    def _suggest(self, line: str) -> None:
        choices = self._complete(line)
        self.hint("  ".join(choice.rpartition(" ")[2] for choice in choices[:6]))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter."""
        event.stop()
        self._last[self.sign] = event.value
        self.post_message(self.Entered(self.sign, event.value))

    def on_prompt_completing(self, event: Completing) -> None:
        """Tab: the first completion, then the next ones in turn."""
        event.stop()
        field = self.query_one(_Line)
        choices = self._choices or self._complete(field.value)
        if choices:
            self._choices = [*choices[1:], choices[0]]
            with self.prevent(Input.Changed):
                field.value = choices[0]
            field.cursor_position = len(choices[0])
            self.hint("  ".join(choice.rpartition(" ")[2] for choice in self._choices[:6]))

    def on_prompt_recalled(self, event: Recalled) -> None:
        """Up: the last line entered."""
        event.stop()
        field = self.query_one(_Line)
        field.value = self._last.get(self.sign, field.value)
        field.cursor_position = len(field.value)

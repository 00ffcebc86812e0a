"""Panels over a screen: help made from the live bindings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen

from console.registry.model import Command
from console.tui.model import words
from console.tui.model.cells import Cell
from console.tui.model.command_line import ACTIONS, LOCAL
from console.tui.model.detail import Line, Section
from console.tui.widgets.bars import Under
from console.tui.widgets.facts import Facts


class Panel(ModalScreen[None]):
    """A titled panel with sections, closed by Escape."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,0", "leave", "back", id="panel.leave"),
        Binding("down,j", "scroll(3)", "down", show=False, id="panel.down"),
        Binding("up,k", "scroll(-3)", "up", show=False, id="panel.up"),
        Binding("pagedown,space", "scroll(15)", "page down", show=False, id="panel.page-down"),
        Binding("pageup", "scroll(-15)", "page up", show=False, id="panel.page-up"),
    ]
    TITLE_TEXT = ""
    COLUMNS = False  # two columns where there is room

    def compose(self) -> ComposeResult:
        """A scrolling box of facts."""
        with VerticalScroll(id="panel", can_focus=False) as box:
            box.border_title = Content(self.TITLE_TEXT)
            box.border_subtitle = Content("esc closes")
            yield Facts(self.sections(), columns=self.COLUMNS)
        yield Under()

    def sections(self) -> list[Section]:
        """What the panel shows."""
        raise NotImplementedError

    def action_leave(self) -> None:
        """Close."""
        self.dismiss(None)

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self.query_one("#panel").scroll_relative(y=lines, animate=False)


class Help(Panel):
    """Every key that works on the screen below, the words of `:` and the grammar of `/`."""

    TITLE_TEXT = "Help"
    COLUMNS = True

    def __init__(self, bindings: Iterable[tuple[str, str, str]], commands: Sequence[Command]) -> None:
        super().__init__()
        self._live = list(bindings)  # group, key, description
        self._commands = commands

    def sections(self) -> list[Section]:
        """Keys by group, then words, filter, signs."""
        groups: dict[str, list[Line]] = {}
        for group, key, description in self._live:
            groups.setdefault(group, []).append((key, (Cell(description),)))
        sections = [Section(group, tuple(lines)) for group, lines in groups.items()]
        sections.append(Section("words after :", _words(self._commands)))
        sections.append(Section("filter after /", _FILTER))
        sections.append(Section("signs", _signs()))
        return sections


def _words(commands: Sequence[Command]) -> tuple[Line, ...]:
    lines: list[Line] = [(word, (Cell(does),)) for word, does in LOCAL.items()]
    lines += [
        (word, (Cell("JOB" + (" --to NODE" if word in ("restore", "move") else "")),)) for word in ACTIONS
    ]
    nouns = sorted({command.noun for command in commands} - set(LOCAL))
    if nouns:
        lines.append(("in a shell", (Cell("reprieve " + " · ".join(nouns), "muted"),)))
    return tuple(lines)


_FILTER: tuple[Line, ...] = (
    ("text", (Cell("rows that hold it; blanks mean AND"),)),
    ("!text", (Cell("rows that do not"),)),
    ("~txt", (Cell("its letters in this order"),)),
    ("col=val", (Cell("state=protected, node=host-*"),)),
    ("col>val", (Cell("risk>10m, size>2GiB, share>80%; also < and !="),)),
)


def _signs() -> tuple[Line, ...]:
    states = [*words.JOB.values()]
    cells: list[Cell] = []
    for word in states:
        cells += [Cell(str(word), word.tone), Cell("   ")]
    return (("", tuple(cells)), ("", (Cell("~ last known value of a silent node    – unknown    * marked"),)))


class Sources(Panel):
    """Where each figure of a row comes from, and how old it is."""

    TITLE_TEXT = "Where the figures come from"

    def __init__(self, found: Iterable[Section]) -> None:
        super().__init__()
        self._found = list(found)

    def sections(self) -> list[Section]:
        """Figure by figure."""
        return self._found

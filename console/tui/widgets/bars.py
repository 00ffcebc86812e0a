"""The lines at the edges: context bar, key footer, guide strip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.app import ComposeResult, RenderResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Static

from console.tui.model import header, text
from console.tui.model.cells import Cell
from console.tui.modes import MODES
from console.tui.widgets.tones import fill, segments, tone

TITLES = 108  # cells from which the tabs carry whole titles


class ContextBar(Widget):
    """One line or two: where we are and what time it is; how old everything is and what must not be overlooked."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"tab--here"}
    DEFAULT_CSS = """
    ContextBar {
        height: 2;
        background: $bar-back;
        padding: 0 1;
        & > .tab--here { color: $tone-strong; background: $cursor-back; text-style: bold; }
    }
    """

    def __init__(self, mode: str) -> None:
        super().__init__()
        self._mode = mode
        self._header = header.Header(None, 0.0)
        self._clock = ""

    def show(self, state: header.Header, wall: float) -> None:
        """Draw this state; `wall` is this machine's time."""
        self._header = state
        self._clock = f"{text.time_of_day(wall)}Z"
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Line 0 and, where there is room, line 1."""
        width = self.size.width
        base = self.rich_style
        clock = self._clock if width >= 30 else ""
        room = width - len(clock) - 1
        if self.size.height == 1:
            left = self._joined(header.fit(header.left(self._header), room))
        elif y == 0:
            left = self._tabs()
        else:
            return Strip(fill(self._joined(header.fit(header.left(self._header), width)), width, base), width)
        line = [*fill(left, room, base), Segment(" ", base), Segment(clock, base + tone(self, "muted"))]
        return Strip(fill(line, width, base), width)

    def _tabs(self) -> list[Segment]:
        base = self.rich_style
        here = base + self.get_component_rich_style("tab--here", partial=True)
        line = [Segment("reprieve ", base + tone(self, "strong")), Segment("  ", base)]
        short = self.size.width < TITLES
        for number, mode in enumerate(MODES, 1):
            style = here if mode.id == self._mode else base + tone(self, "muted")
            name = mode.short if short and mode.id != self._mode else mode.title
            line.append(Segment(f" {number} {name} ", style))
        return line

    def _joined(self, parts: Sequence[Cell]) -> list[Segment]:
        base = self.rich_style
        line: list[Segment] = []
        for part in parts:
            line += [*segments(self, [part], base), Segment("  ", base)]
        return line


class KeyFooter(Widget):
    """The keys that work here, from the live bindings; what does not fit is left out, `?` shows all."""

    DEFAULT_CSS = """
    KeyFooter { height: 1; background: $bar-back; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._spans: list[tuple[int, int, str]] = []  # from, to, key

    def on_mount(self) -> None:
        """Follow the live bindings."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _screen: self.refresh())

    def _keys(self) -> list[tuple[Binding, bool]]:
        seen: set[str] = set()
        keys = []
        typing = isinstance(self.screen.focused, Input)
        for node, binding, enabled, _tip in self.screen.active_bindings.values():
            if typing and node is not self.screen.focused:
                continue  # the prompt owns every key while it is open
            if binding.show and binding.action not in seen:
                seen.add(binding.action)
                keys.append((binding, enabled))
        return keys

    def render_line(self, y: int) -> Strip:
        """The one line: keys in the accent colour, greyed where they do nothing now."""
        del y
        width = self.size.width
        base = self.rich_style
        help_width = 7
        line: list[Segment] = []
        used = 0
        self._spans = []
        for binding, enabled in self._keys():
            key = binding.key_display or self.app.get_key_display(binding)
            length = cell_len(key) + 1 + cell_len(binding.description) + 2
            last = binding.action == "help"
            if used + length > width - (0 if last else help_width):
                continue
            line.append(Segment(key, base + (tone(self, "ok") if enabled else tone(self, "muted"))))
            line.append(Segment(f" {binding.description}  ", base + tone(self, "muted")))
            self._spans.append((used, used + length - 2, binding.key))
            used += length
        return Strip(fill(line, width, base), width)

    def on_click(self, event: events.Click) -> None:
        """A click on a key presses it."""
        offset = event.get_content_offset(self)
        for start, end, key in self._spans:
            if offset is not None and start <= offset.x < end:
                self.app.simulate_key(key)


class GuideStrip(Vertical):
    """One sentence that guides through a demo, and below it what happens at this moment.

    It never takes the focus and can be sent away. In low terminals the moment is one line, cut at its end.
    """

    DEFAULT_CSS = """
    GuideStrip {
        height: auto;
        max-height: 6;
        padding: 0 1;
        background: $bar-back;
        color: $tone-strong;
        border-left: thick $tone-accent;
        display: none;
        &.-shown { display: block; }
        & > .moment { display: none; }
        & > .moment.-shown { display: block; }
    }
    .-normal GuideStrip, .-short GuideStrip {
        max-height: 3;
        & > .told { max-height: 2; }
        & > .moment { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._said: tuple[str | None, str] = (None, "")

    def compose(self) -> ComposeResult:
        """The sentence, and the moment."""
        yield Static("", markup=False, classes="told")
        yield Static("", markup=False, classes="moment")

    def say(self, sentence: str | None, meanwhile: str = "") -> None:
        """Show a sentence and what happens meanwhile; None or an empty sentence hides the strip."""
        self.set_class(bool(sentence), "-shown")
        if (sentence, meanwhile) == self._said or not self.is_mounted or not self._nodes:
            return  # new words lay out the whole screen
        self._said = (sentence, meanwhile)
        told, moment = self.query_one(".told", Static), self.query_one(".moment", Static)
        told.update(Content(f"{sentence}   (.\u00a0hides\u00a0this)" if sentence else ""))
        moment.set_class(bool(meanwhile), "-shown")
        moment.update(Content(meanwhile))


class Under(Vertical):
    """What stands below a panel: the guide's strip, which the panel must not hide, and the panel's own keys.

    It lies exactly over the strip and the keys of the screen below, so that nothing of them is seen twice or seems to work.
    """

    DEFAULT_CSS = """
    Under { dock: bottom; height: auto; width: 100%; }
    .-flat Under { display: none; }
    """

    def compose(self) -> ComposeResult:
        """Strip and keys."""
        yield GuideStrip()
        yield KeyFooter()


class Quiet(Widget):
    """The one line that is left of a screen in a tiny terminal."""

    DEFAULT_CSS = """
    Quiet { display: none; height: 1; width: 100%; }
    """

    def __init__(self) -> None:
        super().__init__(id="quiet")
        self._words = ""

    def say(self, words: str) -> None:
        """Show these words."""
        self._words = words
        self.refresh()

    def render(self) -> RenderResult:
        """The words, never read as markup."""
        return Content(self._words)

"""What all eight screens share: the bars, the prompt, the keys that mean the same everywhere."""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

from console.tui.desk import Desk
from console.tui.model import command_line
from console.tui.model.plans import Plan
from console.tui.modes import MODES
from console.tui.widgets.bars import ContextBar, GuideStrip, KeyFooter, Quiet
from console.tui.widgets.prompt import Prompt
from console.tui.widgets.tones import tone

TAB_LINE = 34  # lines from which the context bar has a line of tabs (the style sheet's `-high`)


class Frame(Screen[None]):
    """One screen of the console. Layouts by size are in the style sheet."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("colon", "prompt(':')", "words", key_display=":", id="nav.command"),
        Binding("escape", "back", "back", key_display="esc", id="nav.back"),
    ]
    MODE = ""

    class Wanted(Message):
        """Another screen is wanted; what it is to start with is in the desk's wish."""

        def __init__(self, mode: str) -> None:
            super().__init__()
            self.mode = mode

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk

    # -- for each screen to say

    def body(self) -> ComposeResult:
        """What stands between the bars."""
        raise NotImplementedError

    def home(self) -> Widget:
        """The widget that has the keys when nothing else does."""
        raise NotImplementedError

    def show(self) -> None:
        """A new snapshot, an answer to a look, or the state of the feed changed."""
        if not self.is_mounted:
            return
        self.query_one(GuideStrip).say(self.desk.guide, self.desk.meanwhile())
        self.tick()
        self.refresh_bindings()

    def tick(self) -> None:
        """A second went by: ages, countdowns and work at risk."""
        if self.is_mounted:
            self.query_one(ContextBar).show(self.desk.header(), self.desk.clock.wall())

    def why_not(self, action: str) -> str | None:
        """Why an action cannot be taken now, in one sentence; None when it can, or is none of this screen's."""
        del action
        return None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """None greys a key that cannot do anything now; the way back is shown only where there is one."""
        del parameters
        if action == "back" and self.is_mounted and not self._away():
            return False
        return None if self.why_not(action) is not None else True

    def on_key(self, event: events.Key) -> None:
        """Say why a greyed key does nothing."""
        if not event.is_printable and event.key != "enter":
            return
        live = self.active_bindings.get(event.key)
        reason = None if live is None or live.enabled else self.why_not(live.binding.action)
        if reason is not None:
            event.stop()
            self.app.notify(reason, severity="warning", markup=False, timeout=5)

    def action_back(self) -> None:
        """One step back."""

    def _away(self) -> bool:
        """Whether there is a step back to take."""
        return False

    # -- drawing

    def title_of(self, number: str) -> Text:
        """The title with its row count; in low terminals, which have no tab line, all screens beside it."""
        mine = next(mode for mode in MODES if mode.id == self.MODE)
        here = Text(f"{mine.title} {number}".strip(), tone(self, "strong"))
        if self.size.height >= TAB_LINE:
            return here
        muted = tone(self, "muted") + Style(bold=False)
        room = self.size.width - 6
        for names in ("title", "brief", "short", ""):
            parts = []
            for place, mode in enumerate(MODES, 1):
                if mode.id == self.MODE:
                    parts.append(Text.assemble((f"{place} ", muted), here))
                elif names:
                    parts.append(Text(f"{place} {getattr(mode, names)}", muted))
            line = Text("  ").join(parts)
            if line.cell_len <= room:
                break
        return line

    def compose(self) -> ComposeResult:
        """Bars, body, prompt."""
        yield ContextBar(self.MODE)
        yield Quiet()
        with Container(id="body"):
            yield from self.body()
        yield GuideStrip()
        yield Prompt()
        yield KeyFooter()

    def on_mount(self) -> None:
        """First picture, once the screen stands."""
        self.call_after_refresh(self.show)

    def on_screen_resume(self) -> None:
        """Another mode was shown meanwhile: catch up."""
        self.show()

    # -- the prompt

    def action_prompt(self, sign: str) -> None:
        """Open the prompt line."""
        self.query_one(Prompt).open(sign, "", self._words_like)

    def _words_like(self, line: str) -> list[str]:
        view = self.desk.feed.view
        jobs = [job.name for job in view.jobs] if view is not None else []
        nodes = [node.name for node in view.nodes] if view is not None else []
        return command_line.complete(line, self.desk.commands, jobs, nodes)

    def on_prompt_left(self, event: Prompt.Left) -> None:
        """Escape."""
        event.stop()
        self.left_prompt()

    def left_prompt(self) -> None:
        """Nothing is done."""
        self.close_prompt()

    def on_prompt_entered(self, event: Prompt.Entered) -> None:
        """Enter."""
        self.entered(event)

    def entered(self, event: Prompt.Entered) -> None:
        """The application reads the words."""
        del event
        self.close_prompt()

    def close_prompt(self) -> None:
        """Give the keys back."""
        self.query_one(Prompt).close()
        self.home().focus()
        self.refresh_bindings()

    # -- acting

    def confirm(self, plan: Plan) -> None:
        """Ask, then start the plan's steps as operations of the application."""
        from console.tui.screens.dialog import Confirm

        def answered(yes: bool | None) -> None:
            view = self.desk.feed.view
            if not yes:
                return
            if view is None or view.read_only:
                self.app.notify("read-only: nothing was done", severity="error", markup=False)
                return
            for step in plan.steps:
                self.started(self.desk.tasks.start(step).number)
            self.tick()

        self.app.push_screen(Confirm(plan, self.desk.clock), answered)

    def started(self, number: int) -> None:
        """An operation that this screen asked for has begun."""

    def refuse(self, reason: str) -> None:
        """Say why nothing is done."""
        self.app.notify(reason, severity="warning", markup=False, timeout=6)

    def read_only(self, action: str) -> str | None:
        """Why nothing may be changed now; None when it may."""
        view = self.desk.feed.view
        if view is None:
            return f"{action}: nothing is known of the fleet yet"
        if view.read_only:
            return f"{action}: this console is read-only (context {view.context})"
        return None

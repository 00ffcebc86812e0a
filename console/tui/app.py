"""The console: eight screens over one feed. Losing a source, a node or an operation never ends it."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.screen import Screen

from backends.clock import Clock
from console.config.habits import Habits
from console.registry.model import Command
from console.tui import keymap, themes
from console.tui.desk import Desk
from console.tui.looks import Looks
from console.tui.model.cells import Cell
from console.tui.model.incoming import safe
from console.tui.modes import MODES
from console.tui.poll import Feed
from console.tui.screens.frame import Frame
from console.tui.screens.live import Live
from console.tui.sheet import KeptSheet
from console.tui.source import FleetSource
from console.tui.spoken import Spoken, screen_of
from console.tui.tasks import Operation, Tasks
from console.tui.widgets.bars import GuideStrip

if TYPE_CHECKING:
    from pathlib import Path

    from console.tui.model.recorded import Tape
    from console.tui.recorder import Recorder

TICK_S = 1.0


class ConsoleApp(Spoken):
    """The application. `guide` yields sentences for a demo's guide strip, `awaited` says what it waits for now."""

    TITLE = "reprieve"
    CSS_PATH = "console.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-micro"), (40, "-tiny"), (80, "-narrow"), (100, "-mid"), (160, "-wide")]  # noqa: RUF012 - Textual declares it so
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (10, "-short"), (24, "-normal"), (34, "-high"), (44, "-tall")]  # noqa: RUF012 - the same
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(number), f"screen('{mode.id}')", mode.title, show=False, id=f"nav.{mode.id}")
            for number, mode in enumerate(MODES, 1)
        ),
        Binding("minus", "last_screen", "last screen", show=False, id="nav.last"),
        Binding("0", "operations", "ops", id="nav.operations"),
        Binding("L", "log", "log", show=False, id="nav.log"),
        Binding("comma", "settings", "settings", key_display=",", show=False, id="nav.settings"),
        Binding("r", "look", "refresh", show=False, id="view.refresh"),
        Binding("p", "hold", "hold", show=False, id="view.pause"),
        Binding("full_stop", "guide", "hide the guide", show=False, id="guide.hide"),
        Binding("question_mark,f1", "help", "help", key_display="?", id="nav.help"),
        Binding(
            "left_square_bracket",
            "step(-1)",
            "a snapshot back",
            key_display="[",
            show=False,
            id="replay.back",
        ),
        Binding(
            "right_square_bracket", "step(1)", "a snapshot on", key_display="]", show=False, id="replay.on"
        ),
        Binding(
            "left_curly_bracket",
            "step(0, -60)",
            "a minute back",
            key_display="{",
            show=False,
            id="replay.minute-back",
        ),
        Binding(
            "right_curly_bracket",
            "step(0, 60)",
            "a minute on",
            key_display="}",
            show=False,
            id="replay.minute-on",
        ),
        Binding("q", "leave", "quit", id="app.quit"),
        Binding("ctrl+q", "leave", "quit", show=False, priority=True, id="app.quit-now"),
        Binding("ctrl+c", "leave(130)", "quit", show=False, priority=True, id="app.interrupt"),
    ]

    def __init__(
        self,
        source: FleetSource,
        clock: Clock,
        *,
        commands: Sequence[Command] = (),
        guide: AsyncIterator[str] | None = None,
        awaited: Callable[[], str] | None = None,
        theme: str | None = None,
        start: str = "jobs",
        habits: Habits | None = None,
        tape: Tape | None = None,
        record: Path | None = None,
    ) -> None:
        """`tape` is a recording to step through; `record` the context's folder to keep one in."""
        super().__init__()
        for known in themes.THEMES:
            self.register_theme(known)
        self.stylesheet = KeptSheet(self.get_css_variables())
        self.habits = habits or Habits()
        self.theme = theme or themes.SHORT[self.habits.theme or "night"]
        self.set_keymap(keymap.checked(self.habits, ConsoleApp))
        self._source = source
        self._clock = clock
        self._guide = guide
        self._start = start
        self._last = start
        self._tape = tape
        self._record = record
        self._recorder: Recorder | None = None
        feed = Feed(source, clock, self._changed)
        looks = Looks(source, clock, self._changed)
        self.desk = Desk(feed, Tasks(source, clock, self._reported), looks, clock, commands, awaited=awaited)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own variables, for themes that do not have them."""
        return themes.defaults()

    # -- life

    def on_mount(self) -> None:
        """Show the first screen, then start looking."""
        for mode in MODES:
            self.add_mode(mode.id, functools.partial(screen_of, mode.id, self.desk))
        self.switch_mode(self._start)
        if self._record is not None:
            self._keep_in(self._record)
        if self._tape is not None:
            self.action_step(0)
        self.run_worker(self.desk.feed.run(), name="feed", exit_on_error=False)
        self.run_worker(self._tick(), name="tick", exit_on_error=False)
        if self._guide is not None:
            self.run_worker(self._follow_guide(self._guide), name="guide", exit_on_error=False)

    async def _tick(self) -> None:
        while True:
            await self._clock.pause(TICK_S - self._clock.wall() % TICK_S)
            frame = self.frame()
            if frame is not None:
                frame.tick()
            self._show_panel()
            if self.desk.guide:
                self._tell_guide()

    def _show_panel(self) -> None:
        if isinstance(self.screen, Live):
            self.screen.show()

    async def _follow_guide(self, sentences: AsyncIterator[str]) -> None:
        try:
            async for sentence in sentences:
                self.say(sentence)
        except Exception as error:  # noqa: BLE001 - a broken story never ends the console
            self.say(f"the guide stopped: {error}")

    def say(self, sentence: str | None) -> None:
        """Put a sentence into the guide strip; None takes the strip away."""
        self.desk.guide = None if sentence is None else safe(sentence)
        self._tell_guide()

    def _tell_guide(self) -> None:
        """Into the strip of the screen and of a panel over it."""
        for board in self.screen_stack:
            for strip in board.query(GuideStrip):
                strip.say(self.desk.guide, self.desk.meanwhile())

    async def on_unmount(self) -> None:
        """Let go of what still runs here."""
        await self.desk.tasks.close()
        await self.desk.looks.close()
        if self._recorder is not None:
            await self._recorder.close()

    def _keep_in(self, state: Path) -> None:
        from console.tui.recorder import Recorder

        def failed(words: str) -> None:
            self.notify(safe(words), severity="error", markup=False, timeout=20)

        self._recorder = Recorder(state, self._clock, failed)
        self.desk.feed.keep = self._recorder.take

    def _changed(self) -> None:
        frame = self.frame()
        if frame is not None:
            frame.show()
        self._show_panel()

    def _reported(self, operation: Operation) -> None:
        frame = self.frame()
        if frame is not None:
            frame.tick()
        self._show_panel()
        if operation.state == "running":
            return
        severity = "information" if operation.state == "done" else "error"
        self.notify(
            operation.step, title=f"{operation.words} {operation.job}: {operation.state}",
            severity="information" if severity == "information" else "error",
            timeout=8 if operation.state == "done" else 20, markup=False,
        )  # fmt: skip
        self.desk.feed.refresh()

    # -- keys

    def action_screen(self, mode: str) -> None:
        """Go to a screen."""
        if mode != self.current_mode and isinstance(self.screen, Frame):
            self._last = self.current_mode
            self.switch_mode(mode)

    def action_last_screen(self) -> None:
        """Go back to the screen before."""
        self.action_screen(self._last)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The keys of a recording exist in a recording only."""
        del parameters
        return self._tape is not None if action == "step" else True

    def action_step(self, snapshots: int, seconds: int = 0) -> None:
        """To another moment of the recording."""
        from console.tui.model.recorded import told

        if self._tape is not None:
            self._tape.step(snapshots, seconds)
            self.say(told(self._tape))
            self.desk.feed.refresh()

    def action_look(self) -> None:
        """Look at the fleet again now."""
        self.desk.feed.refresh()

    def action_hold(self) -> None:
        """Stop looking, or look on."""
        self.desk.feed.paused = not self.desk.feed.paused
        if not self.desk.feed.paused:
            self.desk.feed.refresh()
        self._changed()

    def action_guide(self) -> None:
        """Send the guide away; its next sentence brings it back."""
        self.say(None)

    def action_operations(self) -> None:
        """What runs now, with its last step."""
        if isinstance(self.screen, Frame):
            from console.tui.screens.operations import Operations

            self.push_screen(Operations(self.desk))
            self.call_after_refresh(self._tell_guide)

    def action_log(self) -> None:
        """What was done from this machine."""
        if isinstance(self.screen, Frame):
            from console.tui.screens.log import Log

            self.push_screen(Log(self.desk))
            self.call_after_refresh(self._tell_guide)

    def action_settings(self) -> None:
        """How this console is set."""
        if isinstance(self.screen, Frame):
            from console.tui.screens.log import Settings

            self.push_screen(Settings(self.settings()))
            self.call_after_refresh(self._tell_guide)

    def on_frame_wanted(self, event: Frame.Wanted) -> None:
        """A screen hands over to another."""
        event.stop()
        self.action_screen(event.mode)

    def action_help(self) -> None:
        """Every key that works here."""
        if isinstance(self.screen, Frame):
            from console.tui.screens.overlays import Help

            self.push_screen(Help(self._live_bindings(), self.desk.commands))
            self.call_after_refresh(self._tell_guide)

    def _live_bindings(self) -> list[tuple[str, str, str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for node, binding, enabled, _tip in self.screen.active_bindings.values():
            if not binding.id or not binding.description:  # Textual's own have no id
                continue
            group = (
                "everywhere" if node is self else "this screen" if isinstance(node, Screen) else "the list"
            )
            words = binding.description + ("" if enabled else "  (not now)")
            keys = found.setdefault((group, words), [])
            keys.append(binding.key_display or self.get_key_display(binding))
        order = ("the list", "this screen", "everywhere")
        rows = [(group, "  ".join(dict.fromkeys(keys)), words) for (group, words), keys in found.items()]
        return sorted(rows, key=lambda row: order.index(row[0]))

    def action_leave(self, code: int = 0) -> None:
        """Quit with exit status `code`; ask first while operations of this console run."""
        running = self.desk.tasks.running
        if not running:
            self.exit(code, return_code=code)
            return
        from console.tui.screens.choose import Choice, Choose

        if isinstance(self.screen, Choose):
            return

        def chosen(number: int | None) -> None:
            if number == 1:
                self.exit(code, return_code=code)

        stay = Choice("stay", Cell(f"{running} operation(s) of this console still run", "muted"))
        leave = Choice(
            "quit", Cell("they stop here; `reprieve operations list` shows how far they got", "warn")
        )
        self.push_screen(Choose("Quit?", [stay, leave]), chosen)

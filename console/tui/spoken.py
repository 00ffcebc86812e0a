"""What is said to the console in words: the `:` line and the palette."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from typing import Any

from textual.app import App, SystemCommand
from textual.screen import Screen

from console.config.habits import Habits, View
from console.tui import themes
from console.tui.desk import Desk
from console.tui.model import clipboard, command_line
from console.tui.model.cells import Cell
from console.tui.model.detail import Section
from console.tui.modes import MODES
from console.tui.screens.board import Board
from console.tui.screens.frame import Frame
from console.tui.widgets.prompt import Prompt


def screen_of(mode: str, desk: Desk) -> Screen[Any]:
    """The screen of a mode; its module is loaded when it is first looked at."""
    module = importlib.import_module(f"console.tui.screens.{mode}")
    made: Screen[Any] = getattr(module, mode.capitalize())(desk)
    return made


SHOWN = 60  # characters of what was copied


class Spoken(App[int]):
    """The application's words. Its keys are in `console.tui.app`."""

    desk: Desk
    habits: Habits
    _last: str

    def copy_to_clipboard(self, text: str) -> None:
        """Copy through the terminal, and show what was copied in case the terminal has no clipboard."""
        self._clipboard = text
        written = clipboard.sequence(text, os.environ)
        if written is None:
            self.notify(
                "too long for a terminal's clipboard: x writes it into a file",
                severity="warning",
                markup=False,
            )
            return
        if self._driver is not None:
            self._driver.write(written)
        shown = text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
        self.notify(f"copied: {shown}", markup=False, timeout=4)

    def frame(self) -> Frame | None:
        """The screen shown, below whatever panel is open."""
        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, Frame)), None)

    def board(self) -> Board[Any] | None:
        """The same when it has a table that can be filtered and sorted."""
        frame = self.frame()
        return frame if isinstance(frame, Board) else None

    def on_prompt_entered(self, event: Prompt.Entered) -> None:
        """Do what the `:` line says."""
        if event.line.strip():
            self.say_line(event.line)

    def say_line(self, line: str) -> None:
        """Do what a line of words says, as if it had been typed after `:`."""
        typed = command_line.read(line, self.desk.commands)
        if typed.error:
            self.notify(typed.error, severity="warning", markup=False, timeout=6)
        elif typed.mode:
            self.run_worker(self._go(typed), exit_on_error=False)
        elif typed.action:
            self.run_worker(self._act(typed), exit_on_error=False)
        else:
            self._local(typed.local, typed.text)

    async def _go(self, typed: command_line.Typed) -> None:
        if typed.mode != self.current_mode:
            self._last = self.current_mode
            await self.switch_mode(typed.mode)
        board = self.board()
        if board is not None and typed.text:
            problem = board.set_filter(typed.text)
            if problem:
                board.refuse(problem)

    async def _act(self, typed: command_line.Typed) -> None:
        await self._go(command_line.Typed(mode="fleet" if typed.action in command_line.ON_NODES else "jobs"))
        board = self.board()
        if board is not None:
            board.perform_typed(typed)

    def _local(self, word: str, text: str) -> None:
        actions = {
            "quit": "leave", "operations": "operations", "help": "help", "refresh": "look", "log": "log", "settings": "settings",
        }  # fmt: skip
        board = self.board()
        if word == "view":
            self._view(text)
        elif word in actions:
            getattr(self, f"action_{actions[word]}")()
        elif word == "theme":
            self._choose_theme(text)
        elif board is None:
            self.notify(f"{word}: this screen has no table", severity="warning", markup=False)
        else:
            problem = board.tell(word, text)
            if problem:
                board.refuse(problem)

    def _choose_theme(self, name: str) -> None:
        wanted = themes.SHORT.get(name, name)
        if wanted in self.available_themes:
            self.theme = wanted
        else:
            self.notify(f"no theme {name!r}: {', '.join(themes.SHORT)}", severity="warning", markup=False)

    def _view(self, name: str) -> None:
        view = self.habits.views.get(name)
        if view is None:
            known = ", ".join(self.habits.views) or "none are in console.toml"
            self.notify(f"no view {name!r}: {known}", severity="warning", markup=False)
            return
        self.run_worker(self._show_view(view), exit_on_error=False)

    async def _show_view(self, view: View) -> None:
        await self._go(command_line.Typed(mode=view.screen, text=view.filter))
        board = self.board()
        if board is not None and view.sort:
            problem = board.tell("sort", view.sort)
            if problem:
                board.refuse(problem)
            elif board.table.rows.descending != view.descending:
                board.table.sort_by(view.sort)

    def settings(self) -> list[Section]:
        """How this console is set, and how to change it."""
        view = self.desk.feed.view
        short = next((name for name, full in themes.SHORT.items() if full == self.theme), self.theme)
        where = [
            ("context", (Cell(view.context if view is not None else "–", "strong"),)),
            ("writes", (Cell("refused: read-only" if view is not None and view.read_only else "asked for, then done"),)),
            ("production", (Cell("yes: every confirmation one tier up" if view is not None and view.production else "no"),)),
        ]  # fmt: skip
        looks = [
            ("theme", (Cell(short, "strong"), Cell(f"  :theme {' | '.join(themes.SHORT)}", "muted"))),
            (
                "colour",
                (
                    Cell("off by NO_COLOR" if self.no_color else "on"),
                    Cell("  NO_COLOR=1 turns it off", "muted"),
                ),
            ),
            ("motion", (Cell("none: nothing here moves by itself"),)),
        ]
        file = self.habits.where() if self.habits.document is not None else "no console.toml"
        keys = [(name, (Cell(key, "strong"),)) for name, key in self.habits.keys.items()]
        views = [
            (
                name,
                (
                    Cell(f"{view.screen} /{view.filter}", "strong"),
                    Cell(f"  sorted by {view.sort or 'default'}", "muted"),
                ),
            )
            for name, view in self.habits.views.items()
        ]
        none = [("", (Cell("as they come; [keys] in console.toml changes them by id", "muted"),))]
        no_views = [("", (Cell("none; [views.NAME] in console.toml keeps one", "muted"),))]
        return [Section("this console", tuple(where)), Section("looks", tuple(looks)),
            Section(f"keys ({file})", tuple(keys or none)), Section("views, by :view NAME", tuple(views or no_views)),
        ]  # fmt: skip

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: screens, panels, themes."""
        del screen
        for mode in MODES:
            yield SystemCommand(mode.title, mode.question, lambda mode=mode: self.say_line(mode.id))
        for word in ("operations", "log", "settings", "help", "refresh"):
            yield SystemCommand(
                word.capitalize(), command_line.LOCAL[word], lambda word=word: self.say_line(word)
            )
        for short in themes.SHORT:
            yield SystemCommand(
                f"Theme {short}", "change the colours", lambda short=short: self._choose_theme(short)
            )
        yield SystemCommand("Quit", "leave; jobs run on", lambda: self.say_line("quit"))

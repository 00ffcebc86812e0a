"""Runs the console on the scripted fleet inside a test."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

from textual.pilot import Pilot

from console.operations.view import FleetView
from console.tui.app import ConsoleApp
from console.tui.screens.board import Board
from console.tui.screens.dialog import Confirm
from console.tui.widgets.detail import DetailPane
from console.tui.widgets.table import RowTable
from tests.support.tui_fleet import ScriptedFleet, StillClock, rich_view

ROUNDS = 250  # of 20 ms: no wait is longer than 5 s


@dataclasses.dataclass
class Session:
    """A running console with its fleet and its clock."""

    app: ConsoleApp
    pilot: Pilot[int]
    fleet: ScriptedFleet
    clock: StillClock

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, words: str) -> None:
        await self.press(*("space" if char == " " else "minus" if char == "-" else char for char in words))

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        for _ in range(ROUNDS):
            if condition():
                return
            await self.pilot.pause(0.02)
        raise AssertionError(f"{what}; the screen:\n{self.text()}")

    async def pass_time(self, seconds: float) -> None:
        """Let the clock go on and everything that waited for it happen."""
        self.clock.advance(seconds)
        for _ in range(5):
            await self.pilot.pause()

    async def refreshed(self) -> None:
        """The fleet as it is now has been looked at and drawn."""
        looks = self.fleet.looks
        self.app.desk.feed.refresh()
        await self.until(lambda: self.fleet.looks > looks, "the fleet was not looked at")
        await self.until(lambda: self.table._pending is None, "the table did not take the snapshot")
        await self.pilot.pause()

    async def confirm(self) -> None:
        """Wait out the guard and press y."""
        await self.dialog()
        await self.pass_time(0.6)
        await self.press("y")
        await self.pilot.pause()

    async def dialog(self) -> None:
        """A confirmation is open and has the keys."""
        await self.until(
            lambda: isinstance(self.app.screen, Confirm) and self.app.screen.focused is not None, "no dialog"
        )
        await self.pilot.pause()

    @property
    def board(self) -> Board[Any]:
        board = self.app.board()
        assert board is not None
        return board

    @property
    def table(self) -> RowTable[Any]:
        return self.board.table

    @property
    def cursor(self) -> str:
        record = self.table.record
        return "" if record is None else self.board.name_of(record)

    @property
    def detail(self) -> str:
        return self.board.query_one("#detail", DetailPane).words

    def text(self) -> str:
        """What the terminal shows, as plain text."""
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    def said(self) -> str:
        """The same as running words: borders and line ends are blanks."""
        return " ".join(re.sub(r"[│╭╮╰╯─]", " ", self.text()).split())

    async def expect(self, words: str) -> None:
        """Wait until these words are on the screen, wherever a line ends."""
        await self.until(lambda: words in self.said(), f"{words!r} is not said")

    def toasts(self) -> list[str]:
        return [note.message for note in self.app._notifications]


@contextlib.asynccontextmanager
async def running(
    view: FleetView | None = None, *, size: tuple[int, int] = (120, 40), ready: bool = True, **options: Any
) -> AsyncIterator[Session]:
    clock = StillClock()
    fleet = ScriptedFleet(clock, view or rich_view())
    prepare = options.pop("prepare", None)
    if prepare is not None:
        prepare(fleet)
    app = ConsoleApp(fleet, clock, **options)
    async with app.run_test(size=size, notifications=True) as pilot:
        session = Session(app, pilot, fleet, clock)
        if ready:
            await session.until(
                lambda: app.board() is not None and len(session.table.rows) > 0, "nothing was drawn"
            )
        yield session

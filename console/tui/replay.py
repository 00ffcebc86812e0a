"""A recording as a fleet: the screens show what they showed then, time stands still, and nothing can be done."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

from backends.clock import Clock
from backends.errors import UsageError
from console.operations.view import FleetView
from console.tui import wiring
from console.tui.model.recorded import Tape

_NOT = "this is a recording"


class TapeClock:
    """The wall clock of the moment shown; a pause takes its real time."""

    def __init__(self, tape: Tape, clock: Clock) -> None:
        self._tape, self._clock = tape, clock

    def wall(self) -> float:
        """When the snapshot was taken."""
        return self._tape.view.taken_at

    def monotonic(self) -> float:
        """Stands still: an age in a recording is the age it had."""
        return 0.0

    def sleep(self, seconds: float) -> None:
        """Really."""
        self._clock.sleep(seconds)

    async def pause(self, seconds: float) -> None:
        """Really."""
        await self._clock.pause(seconds)


class TapeSource:
    """A FleetSource that reads; it refuses to act whatever it is asked."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    async def view(self) -> FleetView:
        """The moment shown, read-only."""
        await asyncio.sleep(0)
        return dataclasses.replace(self._tape.view, read_only=True)

    async def perform(self, words: str, arguments: dict[str, Any], on_step: Callable[[str], None]) -> str:
        """Never."""
        raise UsageError(f"{words}: {_NOT}, nothing can be done in it")

    async def ask(self, words: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Looks beside the snapshot were not recorded."""
        raise UsageError(f"{_NOT}: {words} was not kept")

    async def close(self) -> None:
        """Nothing is open."""


def main(tape: Tape, clock: Clock) -> int:
    """Open the console on a recording and return its exit code."""
    from console.config import habits
    from console.tui import keymap, themes
    from console.tui.app import ConsoleApp
    from console.tui.modes import IDS

    wanted = habits.read(habits.path(), themes.SHORT, IDS)
    keymap.checked(wanted, ConsoleApp)
    source = TapeSource(tape)
    app = ConsoleApp(source, TapeClock(tape, clock), commands=wiring.commands(), habits=wanted, tape=tape)
    return wiring.run(app, source)

"""Starts the console: the poller first, so that it gets ready while Textual is loaded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from backends.clock import Clock
from console.operations.context import Context
from console.tui import pace, wiring
from console.tui.source import FleetSource

if TYPE_CHECKING:
    from pathlib import Path

    from console.tui.app import ConsoleApp


def main(
    context: Context,
    clock: Clock,
    guide: AsyncIterator[str] | None = None,
    awaited: Callable[[], str] | None = None,
) -> int:
    """Open the console on a context and return its exit code; UsageError for a wrong console.toml.

    `guide` yields sentences for a demo's strip, `awaited` says what it waits for now.
    """
    pace.before_textual()
    source = wiring.open_source(context, clock)
    try:
        application = _application(source, clock, guide, awaited, context.state)
    except BaseException:
        source.abandon()
        raise
    return wiring.run(application, source)


def _application(
    source: FleetSource,
    clock: Clock,
    guide: AsyncIterator[str] | None,
    awaited: Callable[[], str] | None,
    state: Path,
) -> ConsoleApp:
    """The application; what is wrong with the user's file is told in one line before the terminal is taken."""
    from console.config import habits
    from console.tui import keymap, themes
    from console.tui.app import ConsoleApp
    from console.tui.modes import IDS

    wanted = habits.read(habits.path(), themes.SHORT, IDS)
    keymap.checked(wanted, ConsoleApp)
    return ConsoleApp(
        source, clock, commands=wiring.commands(), guide=guide, awaited=awaited, habits=wanted,
        record=state if wanted.record else None,
    )  # fmt: skip

"""Joins the console to the real operations: the one module that knows where they are.

Neither Textual nor the real fleet is loaded before it is needed.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from backends.clock import Clock
from backends.errors import ReprieveError
from console.operations.context import Context
from console.operations.view import FleetView
from console.poller.child import context_document
from console.registry.model import Command
from console.tui import pace
from console.tui.polled import PolledSource
from console.tui.source import FleetSource
from console.tui.threaded import ThreadedSource

if TYPE_CHECKING:
    from console.tui.app import ConsoleApp


class OperationsSource:
    """A FleetSource on `console.operations`: `observe` looks, `api` performs, `audit` keeps what was performed."""

    def __init__(self, fleet: Any, observer: Any, audit: Any) -> None:
        self._fleet = fleet
        self._observer = observer
        self._audit = audit

    async def view(self) -> FleetView:
        """The newest snapshot."""
        view: FleetView = await self._observer.view()
        return view

    async def perform(self, words: str, arguments: dict[str, Any], on_step: Callable[[str], None]) -> str:
        """Run a command; one sentence on what came of it. Written down before it begins and after it ends."""
        from console.operations.api import perform

        self._audit.write(words, arguments, "started")
        try:
            outcome = await perform(self._fleet, words, arguments, on_step)
        except ReprieveError as error:
            self._audit.write(words, arguments, "failed", error.message, error.exit_code)
            raise
        except asyncio.CancelledError:
            self._audit.write(words, arguments, "cancelled", "no longer waited for")
            raise
        self._audit.write(words, arguments, "done", outcome.message, outcome.exit_code)
        return outcome.message

    async def ask(self, words: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer to a look."""
        from console.operations.looks.api import look

        return await look(self._fleet, words, arguments)

    async def close(self) -> None:
        """End the calls under way and drop the connections."""
        await self._observer.close()
        await self._fleet.close()


def open_source(context: Context, clock: Clock) -> PolledSource:
    """The fleet of a context: a process looks at it, a thread of this one acts on it when something is asked for."""

    async def opened() -> FleetSource:
        from console.operations.audit import Audit
        from console.operations.observe import Observer
        from console.operations.real.opening import open_fleet

        fleet = open_fleet(context, clock)
        return OperationsSource(fleet, Observer(fleet), Audit(context, clock, "console"))

    return PolledSource(context_document(context), ThreadedSource(opened), clock)


def commands() -> Sequence[Command]:
    """Every command of the registry, for the `:` line."""
    from console.registry.index import all_commands

    return tuple(all_commands())


def _end(app: ConsoleApp, code: int) -> None:
    app.exit(code, return_code=code)


def run(app: ConsoleApp, source: FleetSource) -> int:
    """Run the application to its end and close the source."""
    pace.at_start()
    app.desk.feed.came = pace.settled

    async def session() -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):  # the terminal is given back before the program ends
            loop.add_signal_handler(number, _end, app, 128 + number)
        try:
            code = await app.run_async()
        finally:
            await source.close()
        return app.return_code or code or 0

    return asyncio.run(session())

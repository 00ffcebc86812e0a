"""Running asynchronous work on a fleet from a handler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from console.cli.static_help import VERSION
from console.operations.real.opening import open_fleet

if TYPE_CHECKING:
    from console.cli.invocation import Invocation
    from console.operations.fleet import Fleet

T = TypeVar("T")


def on_fleet(invocation: Invocation, work: Callable[[Fleet], Awaitable[T]], role: str = "console") -> T:
    """Open the invocation's fleet, run `work` on it, close it, and return the result."""

    async def main() -> T:
        fleet = open_fleet(invocation.context, invocation.clock, role, version=VERSION)
        try:
            return await work(fleet)
        finally:
            await fleet.close()

    return asyncio.run(main())


def checked(invocation: Invocation) -> None:
    """Refuse what is wrong on its face before anybody is asked for a yes: names that are not there, values out of range."""
    from console.operations.actions.beforehand import check

    async def work(fleet: Fleet) -> None:
        check(fleet, invocation.words, invocation.arguments)

    on_fleet(invocation, work)


def act(invocation: Invocation) -> int:
    """Perform the invocation's own words through `console.operations.api` and print what came of it."""
    from console.operations.api import perform

    outcome = on_fleet(
        invocation, lambda fleet: perform(fleet, invocation.words, invocation.arguments, invocation.progress)
    )
    invocation.emit(outcome.document, lambda _document: outcome.message)
    return outcome.exit_code

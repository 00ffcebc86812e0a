"""A view of the fleet for listings, and the line that says whether a controller lives."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from backends.clock import format_utc
from backends.inventory.document import nearest
from console.cli.exits import usage
from console.cli.session import on_fleet

if TYPE_CHECKING:
    from console.cli.invocation import Invocation
    from console.operations.fleet import Fleet
    from console.operations.view import FleetView

WAIT_S = 5.0  # a node's answer; a little more than one status call may take
TELL_S = 1.5  # then it is told what is waited for
_AT_REST = ("unprotected", "stopped", "finished")


def look(invocation: Invocation) -> tuple[FleetView, dict[str, dict[str, str]]]:
    """One view of the fleet, and the labels of its nodes."""
    from console.operations.observe import Observer

    async def work(fleet: Fleet) -> tuple[FleetView, dict[str, dict[str, str]]]:
        observer = Observer(fleet)
        try:
            looking = asyncio.create_task(observer.view(wait_s=WAIT_S, facts=False))
            await asyncio.wait({looking}, timeout=TELL_S)
            if not looking.done():
                silent = ", ".join(observer.poller.waited_for()[:5]) or "the store"
                invocation.progress(f"waiting for {silent}, at most {WAIT_S:.0f} s")
            view = await looking
        finally:
            await observer.close()
        return view, {name: dict(node.labels) for name, node in fleet.records.nodes().items()}

    return on_fleet(invocation, work)


def check_state(typed: str | None, known: Sequence[str]) -> None:
    """UsageError for a state that does not exist: a listing must not look empty because of a typing error."""
    if typed is not None and typed not in known:
        raise usage(f"--state is {typed!r}{nearest(typed, known)}")


def empty_line(invocation: Invocation, what: str, how: str, command: str) -> None:
    """Say what to do where the listing of `command` is empty: look at the practice fleet that runs, or begin with `how`.

    Machine formats stay silent: an empty list is their answer.
    """
    if invocation.machine:
        return
    context = invocation.context
    socket = context.practice_socket
    if context.name != "practice" and socket is not None and socket.exists():
        invocation.say(
            f"no {what} in context {context.name}; a practice fleet runs: reprieve --context practice {command}"
        )
    else:
        invocation.say(f"no {what} yet: {how}")


def controller_line(invocation: Invocation, view: FleetView) -> None:
    """Warn when no controller is alive."""
    if view.no_controller_since is not None:
        invocation.warn(
            f"NO CONTROLLER since {format_utc(view.no_controller_since)}: nothing is restored by itself"
        )
    elif view.controller is None and any(row.uid and row.state not in _AT_REST for row in view.jobs):
        if view.source_ages_s.get("store") is None:
            invocation.warn("whether a controller lives is unknown: the store was not read")
        else:
            invocation.warn(
                "NO CONTROLLER was ever seen: nothing is restored by itself; `reprieve watch` is one"
            )

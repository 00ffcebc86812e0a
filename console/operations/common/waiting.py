"""Calls to a node that take long: held open for a while, repeated under the same request until they end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backends.errors import StillRunningError, UnreachableError
from backends.records.node import Node
from console.operations.fleet import Fleet

HOLD_S = 20.0
PATIENCE_S = 60.0  # with a node or guard that does not answer: its watchdog may be starting it again


async def until_done(
    fleet: Fleet,
    node: Node,
    verb: str,
    document: dict[str, Any],
    on_step: Callable[[str], None],
    *,
    limit_s: float = 3600.0,
    wait: bool = True,
) -> dict[str, Any]:
    """Call `verb` until its state is not `running` and return that answer.

    A call that breaks off is repeated: the node knows the request and returns the first one's outcome.

    Raises:
        StillRunningError: `wait` is false, or `limit_s` has passed, and it is not done.
        UnreachableError: the node stayed silent for a minute.
        ReprieveError: the node refused.
    """
    start = heard = fleet.clock.monotonic()
    hold_s = HOLD_S if wait else 0.0
    while True:
        try:
            answer = await fleet.ask(node, verb, {**document, "wait_s": hold_s}, timeout_s=hold_s + 20)
            heard = fleet.clock.monotonic()
        except UnreachableError as error:
            if fleet.clock.monotonic() - heard > PATIENCE_S:
                raise
            on_step(f"{error.message}; trying again for a minute")
            await fleet.clock.pause(2.0)
            continue
        if answer.get("state") != "running":
            return answer
        if not wait or fleet.clock.monotonic() - start > limit_s:
            raise StillRunningError(f"{verb} on {node.name} goes on", hint="see `reprieve operations list`")
        on_step(f"{node.name}: {answer.get('step') or verb} goes on")
        await fleet.clock.pause(0.2)

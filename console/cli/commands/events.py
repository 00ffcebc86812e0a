"""`events`: the history of the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backends.clock import parse_utc
from backends.errors import ReprieveError
from backends.records.event import Event
from console.cli.session import on_fleet

if TYPE_CHECKING:
    from console.cli.invocation import Invocation
    from console.operations.fleet import Fleet

TAIL_S = 1.0


def _document(event: Event) -> dict[str, Any]:
    return {
        "schema": "reprieve/event/v1",
        "name": event.id,
        "time": event.time,
        "kind": event.kind,
        "node": event.node,
        "job": event.job,
        "text": event.text,
        "data": event.data,
    }


def _wanted(invocation: Invocation, event: Event) -> bool:
    arguments = invocation.arguments
    kind = arguments.get("kind")
    return (
        arguments.get("node") in (None, event.node)
        and arguments.get("job") in (None, event.job)
        and (kind is None or event.kind == kind or event.kind.startswith(f"{kind}."))
    )


def _recent(event: Event, since: float | None) -> bool:
    if since is None:
        return True
    try:
        return parse_utc(event.time) >= since
    except ReprieveError:
        return True


async def _fresh(fleet: Fleet) -> None:
    """Take in what the guards' spools hold now."""
    from console.operations.polling import Poller

    poller = Poller(fleet)
    await poller.look(3.0)
    await poller.close()


def list_(invocation: Invocation) -> int:
    """`events list`: oldest first."""
    from console.cli.invocation import Column

    limit, span = invocation.arguments.get("limit") or 50, invocation.arguments.get("since")
    since = None if span is None else invocation.clock.wall() - span

    async def work(fleet: Fleet) -> list[dict[str, Any]]:
        await _fresh(fleet)
        found = [event for _, event in fleet.ledger.events(limit=100_000) if _wanted(invocation, event)]
        kept = sorted((event for event in found if _recent(event, since)), key=lambda event: event.time)
        return [_document(event) for event in kept[-limit:]]

    columns = [
        Column("time"),
        Column("kind"),
        Column("node"),
        Column("job"),
        Column("text"),
        Column("name", wide=True),
    ]
    invocation.emit_listing("event", on_fleet(invocation, work), columns)
    return 0


def tail(invocation: Invocation) -> int:
    """`events tail`: until interrupted."""
    from console.operations.polling import Poller

    async def work(fleet: Fleet) -> None:
        poller = Poller(fleet)
        last = max((number for number, _ in fleet.ledger.events(limit=1)), default=0)
        try:
            while True:
                await poller.look(TAIL_S)
                for number, event in fleet.ledger.events(limit=100_000, after=last):
                    last = number
                    if _wanted(invocation, event):
                        words = "  ".join(
                            filter(None, (event.time, event.kind, event.node, event.job, event.text))
                        )
                        invocation.emit_line(_document(event), words)
                await fleet.clock.pause(TAIL_S)
        finally:
            await poller.close()

    on_fleet(invocation, work)
    return 0

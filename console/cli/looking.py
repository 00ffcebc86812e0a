"""A view of the fleet for listings, and the line that says whether a controller lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.clock import format_utc
from console.cli.session import on_fleet

if TYPE_CHECKING:
    from console.cli.invocation import Invocation
    from console.operations.fleet import Fleet
    from console.operations.view import FleetView

_AT_REST = ("unprotected", "stopped", "finished")


def look(invocation: Invocation) -> tuple[FleetView, dict[str, dict[str, str]]]:
    """One view of the fleet, and the labels of its nodes."""
    from console.operations.observe import Observer

    async def work(fleet: Fleet) -> tuple[FleetView, dict[str, dict[str, str]]]:
        observer = Observer(fleet)
        try:
            view = await observer.view(wait_s=6.0)
        finally:
            await observer.close()
        return view, {name: dict(node.labels) for name, node in fleet.records.nodes().items()}

    return on_fleet(invocation, work)


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

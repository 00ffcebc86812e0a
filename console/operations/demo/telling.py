"""A story on a running practice fleet: its context, its fleet, its roles."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

from backends.clock import Clock
from backends.clouds.practice.client import PracticeClient
from backends.practice.launch import Running
from backends.practice.layout import Layout
from backends.xdg import base
from console.operations.context import Context
from console.operations.demo.cast import roles
from console.operations.demo.story import Story
from console.operations.real.opening import open_fleet

Said = Callable[[str], None]


def context_of(running: Running) -> Context:
    """The practice context of a fleet that was just started."""
    layout = Layout(running.directory)
    return Context(
        "practice",
        layout.fleet,
        layout.state,
        base("CACHE"),
        store=layout.store_url,
        practice_socket=layout.control,
    )


@contextlib.asynccontextmanager
async def telling(
    running: Running,
    clock: Clock,
    said: Said,
    detail: Said,
    *,
    rehearse: bool = False,
    steps: int | None = None,
) -> AsyncIterator[Story]:
    """The story, ready to be told; its fleet is closed at the end."""
    described = running.describe()
    hosts = sorted(host["name"] for host in described["hosts"])
    fleet = open_fleet(context_of(running), clock, "demo")
    cast = roles(
        running.mode,
        running.directory,
        described["metrics"],
        hosts,
        **({} if steps is None else {"steps": steps}),
    )
    try:
        client = PracticeClient(Layout(running.directory).control)
        yield Story(fleet, client, cast, said, detail, rehearse=rehearse)
    finally:
        await fleet.close()

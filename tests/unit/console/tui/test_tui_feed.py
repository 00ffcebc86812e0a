"""The feed, the operations and the threaded source: failures are told, never fatal."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from backends.errors import UnreachableError
from console.operations.view import FleetView
from console.tui.model import plans
from console.tui.model.incoming import Doorman
from console.tui.poll import PATIENCE_S, Feed
from console.tui.source import FleetSource
from console.tui.tasks import Operation, Tasks
from console.tui.threaded import ThreadedSource
from tests.support.tui_fleet import NOON, ScriptedFleet, StillClock, rich_view


async def spin() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_polls_every_two_seconds_and_slower_while_it_fails() -> None:
    clock = StillClock()
    fleet = ScriptedFleet(clock)
    changes: list[str | None] = []
    feed = Feed(fleet, clock, lambda: changes.append(feed.failure))
    running = asyncio.create_task(feed.run())
    await spin()
    assert changes == [None]
    clock.advance(2)
    await spin()
    assert fleet.looks == 2
    fleet.failure = UnreachableError("no route")
    for seconds, looks in ((2, 3), (2, 3), (2, 4), (7.9, 4), (0.2, 5)):
        clock.advance(seconds)
        await spin()
        assert fleet.looks == looks
    assert feed.failure == "no route"
    assert feed.view is not None
    feed.refresh()
    await spin()
    assert fleet.looks == 6
    running.cancel()


async def test_a_hanging_source_is_given_up_and_asked_again() -> None:
    clock = StillClock()
    fleet = ScriptedFleet(clock)
    fleet.hanging = True
    feed = Feed(fleet, clock, lambda: None)
    looking = asyncio.create_task(feed.look())
    await spin()
    assert not looking.done()
    clock.advance(PATIENCE_S)
    await spin()
    assert looking.done()
    assert feed.failure == "no answer for 20 s"


async def test_now_goes_on_steadily_whatever_the_wall_clock_does() -> None:
    clock = StillClock()
    feed = Feed(ScriptedFleet(clock), clock, lambda: None)
    await feed.look()
    clock.jump(-5000)
    clock.advance(3)
    assert feed.now == NOON + 3
    assert feed.elapsed_s == 3


async def test_held_until_asked() -> None:
    clock = StillClock()
    fleet = ScriptedFleet(clock)
    feed = Feed(fleet, clock, lambda: None)
    feed.paused = True
    running = asyncio.create_task(feed.run())
    for _ in range(5):
        clock.advance(2)
        await spin()
    assert fleet.looks == 0
    feed.refresh()
    await spin()
    assert fleet.looks == 1
    running.cancel()


def test_unchanged_records_keep_their_identity() -> None:
    doorman = Doorman()
    first = doorman.admit(rich_view())
    second = doorman.admit(rich_view())
    assert all(one is two for one, two in zip(first.jobs, second.jobs, strict=True))


def _step(view: FleetView, name: str = "llama-ft") -> plans.Step:
    job = next(job for job in view.jobs if job.name == name)
    return plans.save(view, [job], NOON).steps[0]


async def test_an_operation_reports_steps_and_its_end() -> None:
    clock = StillClock()
    fleet = ScriptedFleet(clock)
    seen: list[tuple[str, str]] = []
    tasks = Tasks(fleet, clock, lambda operation: seen.append((operation.state, operation.step)))
    tasks.start(_step(fleet.current))
    assert tasks.running == 1
    await spin()
    assert seen == [
        ("running", "freezing"),
        ("running", "uploading 212 MiB"),
        ("done", "llama-ft: jobs save done"),
    ]
    assert tasks.running == 0


async def test_closing_cancels_and_waits() -> None:
    clock = StillClock()
    fleet = ScriptedFleet(clock)
    fleet.gate = asyncio.Event()
    ended: list[Operation] = []
    tasks = Tasks(fleet, clock, ended.append)
    operation = tasks.start(_step(fleet.current))
    await spin()
    await tasks.close()
    assert operation.state == "cancelled"


async def test_only_so_many_finished_operations_are_kept() -> None:
    clock = StillClock()
    fleet = ScriptedFleet(clock)
    tasks = Tasks(fleet, clock, lambda _operation: None)
    for _ in range(130):
        tasks.start(_step(fleet.current))
        await spin()
    assert len(tasks.operations) <= 101


class Threaded(ScriptedFleet):
    """Notes the thread it is used in."""

    threads: set[int]

    async def view(self) -> FleetView:
        self.threads.add(threading.get_ident())
        return await super().view()

    async def perform(self, words: str, arguments: dict[str, Any], on_step: Callable[[str], None]) -> str:
        self.threads.add(threading.get_ident())
        return await super().perform(words, arguments, on_step)


async def test_a_threaded_source_never_runs_in_our_thread() -> None:
    inner = Threaded(StillClock())
    inner.threads = set()

    async def opened() -> FleetSource:
        inner.threads.add(threading.get_ident())
        return inner

    source = ThreadedSource(opened)
    view, again = await asyncio.gather(source.view(), source.view())
    assert view.jobs == again.jobs == inner.current.jobs
    steps: list[str] = []
    assert await source.perform("jobs save", {"name": "a"}, steps.append) == "a: jobs save done"
    assert steps == list(inner.steps)
    await source.close()
    assert inner.closed
    assert inner.threads
    assert threading.get_ident() not in inner.threads


async def test_a_source_that_cannot_be_opened_is_tried_again() -> None:
    tries: list[int] = []
    inner = ScriptedFleet(StillClock())

    async def opened() -> FleetSource:
        tries.append(1)
        if len(tries) == 1:
            raise UnreachableError("the ledger is locked")
        return inner

    source = ThreadedSource(opened)
    with pytest.raises(UnreachableError, match="locked"):
        await source.view()
    assert (await source.view()).jobs
    await source.close()

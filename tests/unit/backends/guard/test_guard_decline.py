"""A guard that declines an epoch: promised for good, never against something that it has begun."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from backends.clock import SystemClock
from backends.engines.port import Engine, Process, RestoreRequest
from backends.errors import EngineError, FencedError, UnreachableError
from backends.guard.decide.model import Mind
from backends.guard.disk import durable
from backends.guard.disk.freezes import Freezes
from backends.guard.disk.layout import Identity, Layout
from backends.guard.disk.requests import Task
from backends.guard.disk.spool import Spool
from backends.guard.jobs import restoring
from backends.guard.jobs.beginning import decline, mark_started, nothing_left
from backends.guard.jobs.book import Book
from backends.guard.jobs.record import JobRecord, save_grant, save_record
from backends.guard.jobs.recovery import recover
from backends.guard.jobs.tools import Tools
from backends.guard.vault import Fetched
from backends.records.grant import Grant
from backends.records.job import Job
from tests.support.guard_engine import StopEngine

UID = "a" * 20
JOB = Job("count", "n", uid=UID, interval_s=3600.0)
GRANT = Grant("file:///nowhere", 2, "ab", "cd", "ef", "1.4")


class Vault:
    """A store that has every checkpoint and tells nothing else; `fetching` is called while one is fetched."""

    def __init__(self, fetching: Callable[[], object] = lambda: None) -> None:
        self.fetching = fetching

    def may_start(self, *_: object) -> None:
        """Always."""

    def fetch(self, *_: object) -> Fetched:
        self.fetching()
        return Fetched("fake", (), {})

    def maker(self, checkpoint: str) -> str | None:
        return None

    def place(self, *_: object) -> Any:
        raise UnreachableError("silent")

    ship = consolidate = recover = place


class Failing(StopEngine):
    """An engine whose restores fail."""

    ran = 0

    def restore(self, request: RestoreRequest) -> Process:
        self.ran += 1
        raise EngineError("the image does not fit")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    found = Layout(tmp_path)
    found.prepare()
    return found


def book_of(
    layout: Layout, boot: str = "boot", vault: Vault | None = None, engine: Engine | None = None
) -> Book:
    """A guard that has just started, over what lies in `layout`."""
    clock, store = SystemClock(), cast("Any", vault or Vault())
    engines: dict[str, Engine] = {"fake": engine or StopEngine()}
    spool, freezes = Spool(layout.spool, "g", "n", clock), Freezes(layout.frozen)
    return Book(
        Tools(layout, Identity("g", "n"), boot, clock, engines, lambda job, grant: store, spool, freezes)
    )


def record_of(epoch: int, phase: str = "restoring") -> JobRecord:
    now = SystemClock().monotonic()
    mind = replace(Mind(epoch=epoch, began_at=now, contact_at=now), phase=cast("Any", phase))
    return JobRecord(JOB, "fake", mind, "boot")


def test_a_declined_epoch_never_starts_and_is_declined_again_after_a_restart(layout: Layout) -> None:
    assert decline(book_of(layout), UID, 2)
    later = book_of(layout, "boot after")
    with pytest.raises(FencedError, match="epoch 2 of job count was declined by this node and never starts"):
        mark_started(later.tools, JOB, GRANT)
    assert decline(later, UID, 2)
    mark_started(later.tools, JOB, replace(GRANT, epoch=3))
    assert (layout.started / f"{UID}.2").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("epoch", "phase", "declined"),
    [
        (1, "running", True),
        (2, "restoring", False),
        (2, "running", False),
        (2, "failed", False),
        (3, "running", False),
    ],
)
def test_what_is_here_is_not_declined(layout: Layout, epoch: int, phase: str, declined: bool) -> None:
    book = book_of(layout)
    unit = book.open(record_of(epoch, phase), GRANT)
    unit.close()  # it is in the book, nobody watches it
    assert decline(book, UID, 2) is declined
    assert (layout.started / f"{UID}.2").exists() is declined


def test_what_was_begun_is_declined_only_once_nothing_of_it_is_left(layout: Layout) -> None:
    book = book_of(layout)
    mark_started(book.tools, JOB, GRANT)
    assert not decline(book, UID, 2), "its record was dropped: nothing tells whether its process lives"
    assert decline(book_of(layout, "boot after"), UID, 2), "no process outlives its boot"
    nothing_left(book.tools, UID, 2)
    assert decline(book, UID, 2)
    with pytest.raises(FencedError, match="never starts twice"):
        mark_started(book.tools, JOB, GRANT)


@pytest.mark.parametrize("marked", [True, False])
def test_a_restore_that_a_crash_cut_is_declined_and_may_begin_again_before_its_engine_ran(
    layout: Layout, marked: bool
) -> None:
    save_grant(layout, UID, GRANT)
    save_record(layout, record_of(2))
    if marked:
        mark_started(book_of(layout).tools, JOB, GRANT)
    book = book_of(layout)
    recover(book)
    assert (durable.read(layout.started / f"{UID}.2") or {}).get("declined", False) is marked
    assert decline(book, UID, 2)


def test_a_restore_that_begins_beside_the_promise_loses_and_its_engine_never_runs(layout: Layout) -> None:
    looked_before = book_of(
        layout
    )  # the promise is given on what was seen before the restore was written down
    vault, engine = Vault(lambda: decline(looked_before, UID, 2)), Failing()
    book = book_of(layout, vault=vault, engine=engine)
    answer = restoring.restore(book, restoring.Order(JOB, GRANT, "1.4"), Task(lambda: None))
    assert (answer["state"], engine.ran) == ("failed", 0)
    assert "was declined by this node" in answer["error"]
    assert decline(book, UID, 2)


def test_a_restore_that_failed_in_its_engine_is_declined(layout: Layout) -> None:
    engine = Failing()
    book = book_of(layout, vault=Vault(), engine=engine)
    answer = restoring.restore(book, restoring.Order(JOB, GRANT, "1.4"), Task(lambda: None))
    assert (answer["state"], engine.ran) == ("failed", 1)
    assert decline(book_of(layout), UID, 2)

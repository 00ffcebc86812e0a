"""What a guard finds when it starts: half-begun work is ended, jobs of this boot are taken up, older ones told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from backends.clock import SystemClock
from backends.engines.port import Engine, Process, start_ticks
from backends.errors import DamagedError, UnreachableError
from backends.guard.decide.model import Durable, Mind
from backends.guard.disk import durable
from backends.guard.disk.freezes import Entry, Freezes
from backends.guard.disk.layout import Identity, Layout
from backends.guard.disk.spool import Spool
from backends.guard.jobs.book import Book
from backends.guard.jobs.record import JobRecord, Pending, load, save_grant, save_record
from backends.guard.jobs.recovery import recover
from backends.guard.jobs.tools import Tools
from backends.guard.vault import Place
from backends.records.grant import Grant
from backends.records.job import Job
from tests.support.guard_engine import StopEngine, stopped
from tests.support.guard_node import wait_for

UID = "a" * 20
GRANT = Grant("file:///nowhere", 2, "ab", "cd", "ef", "genesis")
Start = Callable[..., Process]


class Vault:
    """A store that knows one checkpoint, or none, or does not answer."""

    def __init__(self, found: str | None = None) -> None:
        self.found = found
        self.asked: list[tuple[int, str | None]] = []

    def recover(self, epoch: int, after: str | None) -> str | None:
        self.asked.append((epoch, after))
        return self.found

    def place(self, epoch: int, guard: str, last: str | None) -> Place:
        raise UnreachableError("silent")

    def rehearsed(self) -> bool:
        return False

    def ship(self, *_: object) -> Any:
        raise UnreachableError("silent")

    consolidate = fetch = may_start = maker = ship


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    found = Layout(tmp_path)
    found.prepare()
    return found


@pytest.fixture
def start() -> Iterator[Start]:
    children: list[subprocess.Popen[bytes]] = []

    def begin(*arguments: str, **environment: str) -> Process:
        argv = [sys.executable, "-c", "import time; time.sleep(60)", *arguments]
        child = subprocess.Popen(argv, env={**os.environ, **environment}, start_new_session=True)
        children.append(child)
        wait_for(
            "it runs",
            lambda: Path(f"/proc/{child.pid}/cmdline").read_bytes().count(b"\0") == 3 + len(arguments),
        )
        ticks = start_ticks(child.pid)
        assert ticks is not None
        return Process(child.pid, ticks)

    yield begin
    for child in children:
        child.kill()
        child.wait(10)


def runs(pid: int) -> bool:
    return not stopped(pid)


def book_of(layout: Layout, vault: Vault | None = None) -> Book:
    clock = SystemClock()
    chosen: Any = vault or Vault()
    engines: dict[str, Engine] = {"fake": StopEngine()}
    spool = Spool(layout.spool, "g", "n", clock)
    freezes = Freezes(layout.frozen)
    return Book(
        Tools(layout, Identity("g", "n"), "boot", clock, engines, lambda job, grant: chosen, spool, freezes)
    )


def record_of(**changes: Any) -> JobRecord:
    now = SystemClock().monotonic()
    mind = Mind(epoch=2, began_at=now, contact_at=now)
    mind = replace(mind, **changes.pop("mind", {}))
    base = JobRecord(Job("count", "n", uid=UID, interval_s=3600.0), "fake", mind, "boot")
    return replace(base, **changes)


def written(layout: Layout, record: JobRecord) -> None:
    save_grant(layout, UID, GRANT)
    save_record(layout, record)


def kinds(book: Book) -> list[str]:
    return [event.kind for event in book.tools.spool.events(0, 100)[0]]


def test_records_survive_the_way_to_disk_and_back(layout: Layout) -> None:
    saved = Durable("2.3", 5.0, 6.0, 0.5, 10, 1.0)
    record = record_of(
        mind={"durable": saved, "invalid_told": (3,), "zombie_freezes": (1.0, 2.0), "frozen": "zombie"},
        process=Process(5, 6, 7, 8),
        pending=Pending(1.0, 2.0, 3.0, 4, None),
    )
    written(layout, record)
    assert load(layout) == [(record, GRANT)]
    for path in (layout.desired / f"{UID}.json", layout.keys / f"{UID}.json"):
        assert path.stat().st_mode & 0o777 == 0o600
    assert "cd" not in (layout.desired / f"{UID}.json").read_text().replace("record", "")


@pytest.mark.parametrize("text", ["{", "{}", '{"format": 2}'])
def test_state_that_cannot_be_understood_stops_the_guard(layout: Layout, text: str) -> None:
    (layout.desired / f"{UID}.json").write_text(text)
    with pytest.raises(DamagedError, match=UID):
        recover(book_of(layout))
    assert (layout.desired / f"{UID}.json").read_text() == text


def test_a_record_without_its_key_stops_the_guard(layout: Layout) -> None:
    save_record(layout, record_of())
    with pytest.raises(DamagedError, match="is missing"):
        recover(book_of(layout))


def test_a_half_restored_job_is_ended_wherever_it_is(layout: Layout, start: Start) -> None:
    by_path = start(str(layout.engines / "count.12" / "init.json"))
    by_mark = start(REPRIEVE_UID=UID, REPRIEVE_EPOCH="2")
    other_job = start(str(layout.engines / "count.more.1" / "init.json"))
    other_epoch = start(REPRIEVE_UID=UID, REPRIEVE_EPOCH="1")
    written(layout, record_of(mind={"phase": "restoring", "restored_from": "1.4"}))
    (layout.staging / f"{UID}.2.restore").mkdir()
    book = book_of(layout)
    recover(book)
    assert book.all() == []
    wait_for("both are gone", lambda: start_ticks(by_path.pid) is None and start_ticks(by_mark.pid) is None)
    assert start_ticks(other_job.pid) is not None
    assert start_ticks(other_epoch.pid) is not None
    assert not list(layout.staging.iterdir())
    assert not list(layout.desired.iterdir())
    assert "restore.failed" in kinds(book)


def test_a_half_started_job_is_found_and_taken_up(layout: Layout, start: Start) -> None:
    process = start(REPRIEVE_UID=UID, REPRIEVE_EPOCH="2")
    written(layout, record_of(mind={"phase": "restoring"}, launched=True))
    book = book_of(layout)
    recover(book)
    unit = book.get("count")
    assert unit.process == process
    assert unit.mind.phase == "running"
    unit.close()


def test_what_was_frozen_for_a_save_is_thawed_and_a_zombie_is_not(layout: Layout, start: Start) -> None:
    for reason, frozen in (("save", None), ("zombie", "zombie")):
        process = start()
        os.kill(process.pid, 19)
        wait_for("it stands still", partial(stopped, process.pid))
        Freezes(layout.frozen).enter(Entry(UID, process, "fake", reason, 0.0, "boot", 300.0))
        written(layout, record_of(process=process, mind={"frozen": frozen, "saving_since": 1.0}))
        book = book_of(layout)
        recover(book)
        if frozen is None:
            wait_for("it runs", partial(runs, process.pid))
            assert book.get("count").mind.saving_since is None
        else:
            assert stopped(process.pid)
            assert Freezes(layout.frozen).entries()[0].reason == "zombie"
        book.get("count").close()


@pytest.mark.parametrize(("found", "counts"), [("2.4", "2.4"), (None, "2.3")])
def test_a_save_on_its_way_counts_when_the_store_has_it_whole(
    layout: Layout, start: Start, found: str | None, counts: str
) -> None:
    now = SystemClock().monotonic()
    older = Durable("2.3", now - 50, 1.0, 0.5, 10, 1.0)
    pending = Pending(now - 5, 2.0, 0.25, 20, "2.3")
    written(layout, record_of(process=start(), mind={"durable": older, "saving_since": now}, pending=pending))
    vault = Vault(found)
    book = book_of(layout, vault)
    recover(book)
    unit = book.get("count")
    wait_for("the store was asked", lambda: unit.record.pending is None)
    assert vault.asked == [(2, "2.3")]
    assert unit.mind.durable is not None
    assert unit.mind.durable.checkpoint == counts
    assert unit.mind.durable.frozen_at == (now - 5 if found else now - 50)
    assert unit.mind.saving_since is None
    unit.close()


def test_after_a_reboot_the_job_is_gone_and_its_save_is_dated_by_the_wall(layout: Layout) -> None:
    clock = SystemClock()
    older = Durable("2.3", 1e9, clock.wall() - 100, 0.5, 10, 1.0)
    written(
        layout,
        record_of(boot_id="earlier", process=Process(1, 1), mind={"durable": older, "frozen": "zombie"}),
    )
    book = book_of(layout)
    recover(book)
    unit = book.get("count")
    assert unit.mind.phase == "ended_unknown"
    assert unit.process is None
    saved = unit.status().saved
    assert saved is not None
    assert 99 <= saved.age_s <= 110
    assert "job.ended_unknown" in kinds(book)
    status = unit.status()
    assert status.rebooted
    assert status.error == "the node was restarted (its boot id changed): the process is gone"
    unit.close()


def test_contact_is_remembered_over_a_restart(layout: Layout, start: Start) -> None:
    now = SystemClock().monotonic()
    durable.write(layout.heartbeat, {"boot_id": "boot", "contacts": {UID: now - 3}})
    written(layout, record_of(process=start(), mind={"contact_at": now - 500}))
    book = book_of(layout)
    recover(book)
    assert book.get("count").mind.contact_at == now - 3
    book.get("count").close()

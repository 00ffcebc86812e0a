"""Two requests that bring one job to one guard at the same moment: one goes on, the other is refused with a plain line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from backends.engines.port import Process, RestoreRequest
from backends.errors import UsageError
from backends.guard.disk.layout import Layout
from backends.guard.disk.requests import Task
from backends.guard.jobs import beginning, restoring
from backends.guard.jobs.book import Book
from backends.records.job import Job
from tests.support.guard_engine import StopEngine
from tests.unit.backends.guard.test_guard_decline import GRANT, JOB, Vault, book_of

ORDER = restoring.Order(JOB, GRANT, "1.4")
NAMESAKE = replace(JOB, uid="b" * 20)
BEGUN: list[str] = []  # requests written down as being carried out


class Reviving(StopEngine):
    """Says which process it brought back, and counts."""

    ran = 0

    def restore(self, request: RestoreRequest) -> Process:
        self.ran += 1
        return Process(1, 1)


class Meeting(Vault):
    """While the first request asks the store whether it may start, another comes."""

    def __init__(self, other: Callable[[], object]) -> None:
        super().__init__()
        self.other, self.met = other, False

    def may_start(self, *_: object) -> None:
        if not self.met:
            self.met = True
            self.other()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    found = Layout(tmp_path)
    found.prepare()
    return found


def task(name: str) -> Task:
    return Task(lambda: BEGUN.append(name))


def restored(book: Book, epoch: int = 2) -> dict[str, object]:
    order = replace(ORDER, grant=replace(GRANT, epoch=epoch))
    return restoring.restore(book, order, task("other"))


def started(book: Book, job: Job = JOB) -> object:
    return beginning.start(book, replace(job, command=("true",)), GRANT, task("other"))


@pytest.mark.parametrize(
    "other",
    [
        restored,
        lambda book: restored(book, 3),
        started,
        lambda book: started(book, NAMESAKE),
        lambda book: beginning.protect(book, JOB, GRANT, task("other")),
    ],
    ids=["the same restore", "a later epoch", "a start", "a job of the same name", "protect"],
)
def test_the_second_of_two_requests_is_refused(layout: Layout, other: Callable[[Book], object]) -> None:
    BEGUN.clear()
    engine = Reviving()

    def comes() -> None:
        with pytest.raises(UsageError) as refused:
            other(book)
        assert str(refused.value) == (
            "job count is being brought onto this node by another request; wait until that has ended"
        )

    book = book_of(layout, vault=Meeting(comes), engine=engine)
    answer = restoring.restore(book, ORDER, task("first"))
    assert (answer["state"], answer["pid"], engine.ran) == ("restored", 1, 1)
    (unit,) = book.all()
    unit.close()
    assert (unit.record.job.uid, unit.mind.epoch, unit.mind.phase) == (JOB.uid, 2, "running")
    assert BEGUN == ["first"], "a refusal changed nothing: the request may be repeated"


def test_a_request_that_was_refused_leaves_the_way_free(layout: Layout) -> None:
    def refuse() -> None:
        raise UsageError("the store names another guard")

    book = book_of(layout, vault=Meeting(refuse), engine=Reviving())
    with pytest.raises(UsageError, match="names another guard"):
        restoring.restore(book, ORDER, task("first"))
    assert restored(book)["state"] == "restored"
    for unit in book.all():
        unit.close()

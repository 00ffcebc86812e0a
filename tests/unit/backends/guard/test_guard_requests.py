"""Requests: carried out once, answered again from the record, over a restart too; refusals may be repeated."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from backends.clock import SystemClock
from backends.errors import EngineError, UsageError
from backends.guard.disk.requests import Answer, Requests, Task


def table(path: Path) -> Requests:
    return Requests(path, SystemClock())


def test_once_and_the_same_answer_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def work(task: Task) -> Answer:
        task.begin()
        calls.append(1)
        return {"state": "saved", "n": len(calls)}

    requests = table(tmp_path)
    first = requests.run("r1", "save", {"job": "a"}, work, 5)
    assert requests.run("r1", "save", {"job": "a", "wait_s": 9}, work, 5) == first
    assert table(tmp_path).run("r1", "save", {"job": "a"}, work, 5) == first
    assert calls == [1]


def test_another_document_under_the_same_id_is_refused(tmp_path: Path) -> None:
    def work(task: Task) -> Answer:
        task.begin()
        return {}

    requests = table(tmp_path)
    requests.run("r1", "save", {"job": "a"}, work, 5)
    with pytest.raises(UsageError, match="r1 was used"):
        requests.run("r1", "save", {"job": "b"}, work, 5)


def test_a_refusal_changes_nothing_and_may_be_repeated(tmp_path: Path) -> None:
    ready = False

    def work(task: Task) -> Answer:
        if not ready:
            raise UsageError("not yet")
        task.begin()
        return {"state": "saved"}

    requests = table(tmp_path)
    with pytest.raises(UsageError, match="not yet"):
        requests.run("r1", "save", {}, work, 5)
    assert not list(tmp_path.iterdir())
    ready = True
    assert requests.run("r1", "save", {}, work, 5) == {"state": "saved"}


def test_a_failure_after_the_beginning_is_the_outcome(tmp_path: Path) -> None:
    def work(task: Task) -> Answer:
        task.begin()
        raise EngineError("broken")

    requests = table(tmp_path)
    answer = requests.run("r1", "start", {}, work, 5)
    assert answer["error"]["message"] == "broken"
    assert table(tmp_path).run("r1", "start", {}, work, 5) == answer


def test_running_with_its_step_until_done(tmp_path: Path) -> None:
    go_on = threading.Event()
    noted = threading.Event()

    def work(task: Task) -> Answer:
        task.begin()
        task.note(step="fetch")
        noted.set()
        assert go_on.wait(10)
        return {"state": "restored"}

    requests = table(tmp_path)
    requests.run("r1", "restore", {}, work, 0)
    assert noted.wait(10)
    assert requests.run("r1", "restore", {}, work, 0) == {"state": "running", "step": "fetch"}
    go_on.set()
    assert requests.run("r1", "restore", {}, work, 10) == {"state": "restored"}


def test_a_request_that_a_crash_cut_off_is_looked_at_again(tmp_path: Path) -> None:
    started = threading.Event()

    def hang(task: Task) -> Answer:
        task.begin()
        started.set()
        threading.Event().wait(30)
        return {}

    table(tmp_path).run("r1", "restore", {}, hang, 0)
    assert started.wait(10)
    fresh = table(tmp_path)  # a guard that was started again

    def again(task: Task) -> Answer:
        task.begin()
        return {"state": "restored"}

    assert fresh.run("r1", "restore", {}, again, 5) == {"state": "restored"}
    assert table(tmp_path).run("r1", "restore", {}, hang, 5) == {"state": "restored"}


@pytest.mark.parametrize("name", ["", "../x", "a/b", "x" * 200, ".hidden", "a b"])
def test_ids_become_no_paths(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="request id"):
        table(tmp_path).run(name, "save", {}, lambda task: {}, 1)

"""The line below the guide's sentence, and rows that do not contradict themselves."""

from __future__ import annotations

import dataclasses

from console.operations.demo.awaited import Awaited, steps_left
from console.operations.view import FleetView, JobRow, NodeRow
from console.tui.model import columns
from console.tui.model.meanwhile import KEYS, meanwhile
from tests.support.tui_fleet import rich_view

NOW = 1000.0
NODE = NodeRow("n1", "ok", "", None, "practice", 0.0, "none", None, ("j",), "g", "n1")


def row(**changes: object) -> JobRow:
    found = next(job for job in rich_view().jobs if job.state == "protected")
    plain = dataclasses.replace(found, name="j", reason="rehearsed on n2", interval_s=6.0, stale=False)
    return dataclasses.replace(
        plain,
        risk_base_s=1.0,
        observed_at=NOW,
        next_save_at=NOW + 5.0,
        **changes,  # type: ignore[arg-type] # fields by name, each test gives its own
    )


def test_what_is_awaited_the_next_saves_and_the_keys() -> None:
    view = FleetView("practice", NOW, (NODE,), (row(),))
    assert meanwhile("n1 is next", view, NOW + 2.0) == f"Now: n1 is next · next save: j in 3s · {KEYS}"
    assert "next save: j under way" in meanwhile("", view, NOW + 6.0)
    assert meanwhile("", None, NOW) == ""


def test_an_announced_end_counts_down_and_is_told_once() -> None:
    doomed = dataclasses.replace(NODE, notice="notice", notice_left_s=12.0)
    view = FleetView("practice", NOW, (doomed,), ())
    assert meanwhile("", view, NOW + 2.0) == "Now: n1 will be taken in 10s"
    assert meanwhile("n1 will be taken in 10s", view, NOW + 2.0).count("n1") == 1
    assert meanwhile("", view, NOW + 20.0) == "", "what should have come is not announced any more"


def test_jobs_that_save_no_more_have_no_next_save() -> None:
    view = FleetView("practice", NOW, (NODE,), (row(state="finished"),))
    assert "next save" not in meanwhile("", view, NOW)


def test_a_wait_tells_its_time_only_while_there_is_some() -> None:
    assert Awaited("n1 will be taken", 12.0).words(2.0) == "n1 will be taken in 10s"
    assert Awaited("n1 will be taken", 12.0).words(12.5) == "n1 will be taken"
    assert Awaited("the guard is copied").words(0.0) == "the guard is copied"


def test_the_end_of_the_jobs_is_the_slower_ones() -> None:
    steps = {"a": 100, "b": 100}
    told = steps_left({"a": 90, "b": 50}, steps, 0.5, 1000.0).words(1000.0)
    assert told == "a at step 90 of 100, b at step 50 of 100; the end comes in no less than 25s"
    unknown = steps_left({"a": 90, "b": None}, steps, 0.5, 1000.0).words(1000.0)
    assert unknown == "a at step 90 of 100, b at step unknown of 100"


def test_a_job_that_is_not_late_by_its_guard_is_no_alarm_and_says_why_more_is_at_risk() -> None:
    late = NOW + 10.0  # 11 s at risk of 6 s
    assert columns.risk_tone(row(), late) == "warn"
    assert columns.why(row(), late) == (
        "rehearsed on n2; a save is due and not late yet: taking and storing one has its time too"
    )
    assert columns.why(row(), NOW) == "rehearsed on n2"
    assert columns.risk_tone(row(state="overdue"), late) == "bad"
    assert columns.risk_tone(dataclasses.replace(row(), stale=True), late) == "bad", (
        "nobody says that it is in time"
    )


def test_a_lost_host_announces_nothing() -> None:
    gone = dataclasses.replace(NODE, state="lost", notice="notice", notice_left_s=0.0)
    assert columns.notice(gone, NOW, NOW).text == "–"

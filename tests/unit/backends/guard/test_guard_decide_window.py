"""The window between a notice and the reclaim: a save now, later, both, the program's own, or none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from backends.guard.decide.interval import wake_at
from backends.guard.decide.job import step
from backends.guard.decide.model import (
    AskOwnSave,
    Costs,
    Decision,
    Durable,
    Mind,
    Notice,
    NoticeIs,
    Policy,
    Report,
    SaveDone,
    SaveFailed,
    StartSave,
    Tick,
)
from backends.guard.decide.window import decide, fits, latest_start

NOW = 1000.0


def durable(frozen_at: float, checkpoint: str = "1.1") -> Durable:
    return Durable(checkpoint, frozen_at, 1e9 + frozen_at, 0.5, 1000, 2.0)


def mind(save_s: float | None, age_s: float = 600.0, **changes: object) -> Mind:
    base = Mind(
        epoch=1,
        began_at=0.0,
        contact_at=9e9,
        policy=Policy(interval_s=86400.0),
        durable=durable(NOW - age_s),
        costs=Costs(0.5, 2.0, save_s),
    )
    return replace(base, **changes)  # type: ignore[arg-type]  # fields are named by each test


def noticed(left_s: float, serial: int = 1) -> NoticeIs:
    return NoticeIs(Notice("notice", NOW + left_s, serial))


def saves(decisions: tuple[Decision, ...]) -> list[str]:
    return [decision.reason for decision in decisions if isinstance(decision, StartSave)]


def told(decisions: tuple[Decision, ...]) -> list[tuple[str, object]]:
    return [
        (decision.kind, decision.data.get("plan"))
        for decision in decisions
        if isinstance(decision, Report) and decision.kind.startswith("notice.")
    ]


@pytest.mark.parametrize(
    ("save_s", "age_s", "left_s", "plan"),
    [
        (3.0, 600.0, 120.0, "now_and_later"),
        (40.0, 600.0, 120.0, "now_and_later"),  # 62.9 s of waiting for 40 s of saving
        (60.0, 600.0, 120.0, "now"),  # only one fits, and ten minutes of work are at risk
        (60.0, 20.0, 120.0, "later"),  # begun 34 s later it keeps those 34 s beside the 20
        (84.0, 600.0, 120.0, "now"),  # 0.7 of the window to the second
        (84.1, 600.0, 120.0, "leave"),
        (4.0, 600.0, 5.0, "leave"),  # RunPod's five seconds
        (None, 600.0, 120.0, "now"),
        (3.0, 600.0, 0.0, "leave"),
    ],
)
def test_the_plan(save_s: float | None, age_s: float, left_s: float, plan: str) -> None:
    after, decisions = step(mind(save_s, age_s), noticed(left_s), NOW)
    assert [word for _, word in told(decisions)] == [plan]
    assert saves(decisions) == (["final"] if plan.startswith("now") else [])
    assert after.final_owed == (plan in ("now_and_later", "later"))


def test_both_saves_are_taken_and_the_last_at_its_latest_start() -> None:
    current, decisions = step(mind(3.0), noticed(120.0), NOW)
    assert saves(decisions) == ["final"]
    current, decisions = step(current, SaveDone(durable(NOW + 0.1, "1.2"), 3.5), NOW + 3.5)
    assert saves(decisions) == []
    latest = latest_start(current)
    assert latest == pytest.approx(NOW + 120.0 - 3.5 / 0.7)  # by the newest measured time
    assert wake_at(current, NOW + 10.0) == latest
    assert saves(step(current, Tick(), latest - 0.01)[1]) == []
    current, decisions = step(current, Tick(), latest + 0.05)
    assert saves(decisions) == ["final"]
    assert told(decisions) == [("notice.final_save", "last")]
    current, decisions = step(current, SaveDone(durable(latest, "1.3"), 3.5), NOW + 119.0)
    assert (saves(decisions), told(decisions)) == ([], [])


def test_a_last_save_that_no_longer_fits_is_dropped_with_a_word() -> None:
    current, _ = step(mind(3.0), noticed(120.0), NOW)
    current, decisions = step(current, SaveFailed("the store is full", engine=False), NOW + 118.0)
    assert saves(decisions) == []
    assert told(decisions) == [("notice.no_final_save", "leave")]
    assert not current.final_owed


def test_a_deadline_that_moves_closer_moves_the_last_save() -> None:
    current, _ = step(mind(3.0), noticed(120.0), NOW)
    current, _ = step(current, SaveDone(durable(NOW + 0.1, "1.2"), 3.0), NOW + 3.0)
    current, decisions = step(current, noticed(60.0), NOW + 5.0)
    assert saves(decisions) == []
    assert saves(step(current, Tick(), NOW + 56.0)[1]) == ["final"]


def test_a_save_under_way_is_let_run_and_a_last_one_may_follow() -> None:
    busy = mind(3.0, saving_since=NOW - 1.0)
    current, decisions = step(busy, noticed(60.0), NOW)
    assert (saves(decisions), told(decisions)) == ([], [("notice.save_under_way", "finish")])
    current, decisions = step(current, SaveDone(durable(NOW - 1.0, "1.2"), 4.0), NOW + 3.0)
    assert saves(decisions) == []
    assert saves(step(current, Tick(), NOW + 60.0 - 4.0 / 0.7)[1]) == ["final"]


def test_a_program_that_can_is_asked_to_save_itself_when_a_save_does_not_fit() -> None:
    able = mind(90.0, policy=Policy(interval_s=86400.0, own_save=True))
    _, decisions = step(able, noticed(60.0), NOW)
    assert [decision for decision in decisions if isinstance(decision, AskOwnSave)] == [AskOwnSave()]
    assert told(decisions) == [("notice.own_save", "own_save")]
    assert not saves(decisions)
    _, decisions = step(able, noticed(0.0), NOW)  # nothing can be written any more
    assert told(decisions) == [("notice.no_final_save", "leave")]


def test_a_withdrawn_notice_drops_the_last_save_and_the_interval_goes_on() -> None:
    current, _ = step(mind(3.0, policy=Policy(interval_s=30.0)), noticed(120.0), NOW)
    current, _ = step(current, SaveDone(durable(NOW, "1.2"), 3.0), NOW + 3.0)
    current, decisions = step(current, NoticeIs(Notice("none", serial=1)), NOW + 5.0)
    assert not current.final_owed
    assert (saves(decisions), told(decisions)) == ([], [])
    current, decisions = step(current, Tick(), NOW + 30.0)
    assert saves(decisions) == ["interval"]
    current, _ = step(current, SaveDone(durable(NOW + 30.0, "1.3"), 3.0), NOW + 33.0)
    _, decisions = step(current, noticed(300.0, serial=2), NOW + 200.0)
    assert saves(decisions) == ["final"]


def test_an_interval_save_gives_way_to_the_last_one() -> None:
    current, _ = step(mind(3.0, policy=Policy(interval_s=30.0)), noticed(61.0), NOW)
    current, _ = step(current, SaveDone(durable(NOW, "1.2"), 3.0), NOW + 3.0)
    current, decisions = step(current, Tick(), NOW + 30.0)
    assert saves(decisions) == ["interval"]
    current, _ = step(current, SaveDone(durable(NOW + 25.0, "1.3"), 3.0), NOW + 33.0)
    current, decisions = step(current, Tick(), NOW + 55.0)  # due, but the last one begins in 1.7 s
    assert saves(decisions) == []
    assert saves(step(current, Tick(), NOW + 56.75)[1]) == ["final"]


@pytest.mark.parametrize("what", [{"frozen": "zombie"}, {"behind": 3}, {"policy": Policy(paused=True)}])
def test_what_must_not_be_saved_is_not(what: dict[str, object]) -> None:
    current, decisions = step(replace(mind(3.0), **what), noticed(120.0), NOW)  # type: ignore[arg-type]  # by name
    assert told(decisions) == [("notice.no_final_save", "suspended")]
    assert saves(step(current, Tick(), NOW + 110.0)[1]) == []


def test_no_interval_save_runs_across_a_pause_of_the_machine() -> None:
    current = mind(3.0, policy=Policy(interval_s=30.0), notice=Notice("none", quiet=(NOW, NOW + 5.0)))
    assert saves(step(current, Tick(), NOW - 3.5)[1]) == ["interval"]
    assert saves(step(current, Tick(), NOW - 2.5)[1]) == []
    assert saves(step(current, Tick(), NOW + 4.9)[1]) == []
    assert saves(step(current, Tick(), NOW + 5.0)[1]) == ["interval"]


@given(st.floats(0.001, 200), st.floats(0, 2000), st.floats(0, 300))
def test_what_is_planned_ends_in_time_if_saves_take_what_they_took(
    save_s: float, age_s: float, left_s: float
) -> None:
    current = mind(save_s, age_s, notice=Notice("notice", NOW + left_s, 1))
    window = decide(current, NOW)
    latest = latest_start(current)
    assert latest is not None
    if window.plan in ("now", "now_and_later"):
        assert save_s <= left_s
    if window.plan == "now_and_later":
        assert NOW + save_s <= latest + 1e-6
    if window.plan in ("later", "now_and_later"):
        assert latest >= NOW
        assert latest + save_s <= NOW + left_s
        assert fits(current, latest - 1e-6)
    assume(window.plan == "leave")
    assert save_s > 0.7 * left_s - 1e-9

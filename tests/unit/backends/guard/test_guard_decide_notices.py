"""The node's notice machine: earliest deadline, repeats, hints that expire, unreadable as a state of its own."""

from __future__ import annotations

from backends.guard.decide.notices import NoticeMind, observe
from backends.guard.notices.port import Reading

NONE = Reading("none")
UNREADABLE = Reading("unreadable", "HTTP 403")


def notice(left_s: float | None, action: str = "terminate", window_s: float = 120.0) -> Reading:
    return Reading("notice", action, left_s=left_s, window_s=window_s)


def run(
    readings: list[tuple[float, Reading]], mind: NoticeMind | None = None
) -> tuple[NoticeMind, list[str]]:
    current, kinds = mind or NoticeMind(), []
    for now, reading in readings:
        current, reports = observe(current, reading, now)
        kinds += [report.kind for report in reports]
    return current, kinds


def test_nothing_is_known_before_the_first_reading() -> None:
    assert NoticeMind().notice.state == "unreadable"
    assert run([(0, NONE)])[0].notice.state == "none"


def test_a_notice_keeps_its_earliest_deadline_and_is_told_once() -> None:
    mind, kinds = run([(0, NONE), (5, notice(120)), (10, notice(122)), (15, notice(100)), (20, notice(119))])
    assert kinds == ["notice.seen"]
    assert mind.notice.deadline_at == 115
    assert mind.notice.serial == 1


def test_the_documented_window_bounds_a_deadline_far_away() -> None:
    mind, _ = run([(5, notice(900))])  # a node clock that is 13 minutes slow
    assert mind.notice.deadline_at == 125


def test_an_unknown_deadline_is_the_shortest_documented_window() -> None:
    assert run([(5, notice(None))])[0].notice.deadline_at == 125


def test_hibernation_has_no_window_and_past_deadlines_are_now() -> None:
    assert run([(5, notice(0, "hibernate", 0))])[0].notice.deadline_at == 5
    assert run([(5, notice(-90))])[0].notice.deadline_at == 5


def test_a_notice_that_vanishes_stands_until_its_deadline_has_passed() -> None:
    mind, kinds = run([(0, notice(120)), (5, NONE), (140, NONE)])
    assert mind.notice.state == "notice"
    mind, kinds = run([(151, NONE)], mind)
    assert mind.notice.state == "none"
    assert kinds == ["notice.withdrawn"]


def test_a_notice_called_off_ends_at_once_and_the_next_is_another() -> None:
    mind, kinds = run([(0, notice(120)), (5, Reading("none", withdrawn=True)), (300, notice(60))])
    assert kinds == ["notice.seen", "notice.withdrawn", "notice.seen"]
    assert mind.notice.serial == 2


def test_unreadable_after_three_in_a_row_and_told_once() -> None:
    mind, kinds = run([(0, NONE), (5, UNREADABLE), (10, UNREADABLE)])
    assert mind.notice.state == "none"
    assert kinds == []
    mind, kinds = run([(15, UNREADABLE), (20, UNREADABLE)], mind)
    assert mind.notice.state == "unreadable"
    assert kinds == ["notice.unreadable"]
    mind, kinds = run([(25, NONE)], mind)
    assert (mind.notice.state, kinds) == ("none", ["notice.readable"])


def test_an_unreadable_service_does_not_hide_a_notice() -> None:
    mind, _ = run([(0, notice(120)), *[(float(at), UNREADABLE) for at in range(5, 50, 5)]])
    assert mind.notice.state == "notice"


def test_hints_expire_and_flapping_ones_renew() -> None:
    hint = Reading("hint", mark="09:00")
    mind, kinds = run([(0, hint), (60, hint), (1799, hint)])
    assert (mind.notice.state, kinds) == ("hint", ["notice.hint"])
    mind, _ = run([(1801, hint)], mind)
    assert mind.notice.state == "none"
    mind, kinds = run([(1900, Reading("hint", mark="09:10"))], mind)
    assert (mind.notice.state, kinds) == ("hint", ["notice.hint"])


def test_a_notice_after_a_hint_wins() -> None:
    mind, kinds = run([(0, Reading("hint", mark="a")), (5, notice(120))])
    assert mind.notice.state == "notice"
    assert kinds == ["notice.hint", "notice.seen"]

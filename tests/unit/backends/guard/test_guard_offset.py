"""The controller's clock as a node hears it."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.clock import format_utc
from backends.fakes.clock import FakeClock
from backends.guard.disk.offset import ControllerClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def heard(place: Path, clock: FakeClock, boot: str = "boot") -> ControllerClock:
    return ControllerClock(place / "clock.json", clock, boot)


def offset(known: ControllerClock, clock: FakeClock, ahead_s: float = 0.0) -> float | None:
    return known.offset_s(clock.wall() + ahead_s, clock.monotonic())


def test_unknown_until_it_is_heard(tmp_path: Path, clock: FakeClock) -> None:
    known = heard(tmp_path, clock)
    assert offset(known, clock) is None
    known.hear(None)
    known.hear("soon")
    assert offset(known, clock) is None


def test_the_offset_shows_and_so_does_a_later_jump_of_our_wall_clock(
    tmp_path: Path, clock: FakeClock
) -> None:
    known = heard(tmp_path, clock)
    known.hear(format_utc(clock.wall() - 90.0))  # the controller is 90 s behind us
    assert offset(known, clock) == pytest.approx(90.0, abs=0.01)
    clock.advance(1000)
    assert offset(known, clock) == pytest.approx(90.0, abs=0.01)
    assert offset(known, clock, ahead_s=300.0) == pytest.approx(390.0, abs=0.01)


def test_a_word_that_was_long_under_way_does_not_replace_a_quicker_one(
    tmp_path: Path, clock: FakeClock
) -> None:
    known = heard(tmp_path, clock)
    sent = format_utc(clock.wall())
    known.hear(sent)
    clock.advance(20)
    known.hear(sent)  # the same call, repeated
    assert offset(known, clock) == pytest.approx(0.0, abs=0.01)
    clock.advance(4000)
    known.hear(format_utc(clock.wall() - 5.0))  # later it counts: clocks drift
    assert offset(known, clock) == pytest.approx(5.0, abs=0.01)


def test_it_survives_a_restart_and_not_a_reboot(tmp_path: Path, clock: FakeClock) -> None:
    heard(tmp_path, clock).hear(format_utc(clock.wall() - 7.0))
    assert offset(heard(tmp_path, clock), clock) == pytest.approx(7.0, abs=0.01)
    assert offset(heard(tmp_path, clock, "another"), clock) is None
    (tmp_path / "clock.json").write_text("[")
    assert offset(heard(tmp_path, clock), clock) is None


def test_the_way_from_the_node_command_to_the_guard_does_not_count(tmp_path: Path, clock: FakeClock) -> None:
    known = heard(tmp_path, clock)
    sent, came_at = format_utc(clock.wall()), clock.monotonic()
    clock.advance(3.0)  # a slow interpreter
    known.hear(sent, came_at)
    assert offset(known, clock) == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize("odd", [-1e9, 1e12, float("nan")])
def test_an_instant_that_cannot_be_is_taken_as_now(tmp_path: Path, clock: FakeClock, odd: float) -> None:
    known = heard(tmp_path, clock)
    known.hear(format_utc(clock.wall()), odd)
    assert offset(known, clock) == pytest.approx(0.0, abs=0.01)

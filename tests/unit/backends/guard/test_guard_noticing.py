"""The guard's ears: SIGTERM is a notice where a provider sends it, the end of the guard elsewhere."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

import pytest

from backends.clock import SystemClock
from backends.guard.decide.model import Report
from backends.guard.notices.port import NoticeSource, Reading
from backends.guard.noticing import Noticing


class Source:
    """A source that says what it is told to say."""

    period_s = 0.01

    def __init__(self, reading: Reading, signal: Reading | None) -> None:
        self.reading, self.signal, self.fail = reading, signal, 0

    def read(self) -> Reading:
        if self.fail:
            self.fail -= 1
            raise RuntimeError("what nobody thought of")
        return self.reading

    def signalled(self) -> Reading | None:
        return self.signal


def kept_going() -> contextlib.AbstractContextManager[None]:
    return contextlib.suppress(Exception)


class Ears:
    def __init__(self, source: NoticeSource | None) -> None:
        self.told: list[Report] = []
        self.stop = threading.Event()
        self.busy = False
        self.noticing = Noticing(source, SystemClock(), self.told.extend, kept_going)
        self.noticing.start(self.stop, self.stop.set, lambda: not self.busy)

    def wait_for(self, what: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + 20
        while not what():
            assert time.monotonic() < give_up_at
            time.sleep(0.01)


@pytest.mark.parametrize("source", [None, Source(Reading("none"), None)])
def test_sigterm_is_the_operators_word_to_end(source: NoticeSource | None) -> None:
    ears = Ears(source)
    ears.noticing.signal()
    assert ears.stop.wait(20)
    assert ears.told == []


def test_sigterm_is_a_notice_where_the_provider_sends_it_and_the_guard_stays() -> None:
    ears = Ears(Source(Reading("none"), Reading("notice", "SIGTERM to the pod", window_s=5.0)))
    ears.noticing.signal()
    ears.noticing.signal()
    ears.wait_for(lambda: ears.noticing.notice.state == "notice")
    assert [report.kind for report in ears.told] == ["notice.seen"]
    assert not ears.stop.is_set()
    ears.stop.set()


def test_a_machine_that_goes_down_ends_the_guard_once_nothing_is_being_saved() -> None:
    ears = Ears(
        Source(Reading("none"), Reading("notice", "the system is going down", window_s=30.0, last=True))
    )
    ears.busy = True
    ears.noticing.signal()
    ears.wait_for(lambda: ears.noticing.notice.state == "notice")
    assert not ears.stop.wait(0.5)
    ears.busy = False
    assert ears.stop.wait(20)


def test_a_reading_that_breaks_does_not_end_the_ears() -> None:
    source = Source(Reading("notice", "x", window_s=120.0), None)
    source.fail = 1
    ears = Ears(source)
    ears.wait_for(lambda: ears.noticing.notice.state == "notice")
    assert source.fail == 0
    ears.stop.set()

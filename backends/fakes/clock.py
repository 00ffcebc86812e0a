"""A clock that only moves when it is told to, and an event loop that runs on it.

`run` drives a coroutine in virtual time: every `asyncio.sleep`, time-out and `Clock.pause` inside it takes no real
time, and the interleaving depends on nothing but the program.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class FakeClock:
    """Wall and monotonic time in seconds, moved by `advance`, `sleep` and the loop of `run`."""

    def __init__(self, wall: float = 1_800_000_000.0) -> None:
        self._wall = wall
        self._elapsed = 1000.0

    def wall(self) -> float:
        """Seconds since 1970."""
        return self._wall

    def monotonic(self) -> float:
        """Seconds since some moment."""
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self._wall += seconds
        self._elapsed += seconds

    def set_wall(self, seconds: float) -> None:
        """Step the wall clock; monotonic time does not move."""
        self._wall = seconds

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass at once."""
        self.advance(seconds)

    async def pause(self, seconds: float) -> None:
        """Let other tasks of the loop run for `seconds` of virtual time."""
        await asyncio.sleep(seconds)


class _Selector(selectors.SelectSelector):
    """Instead of waiting for the next timer it moves the clock there."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Events of real files now; raise RuntimeError when nothing can ever happen."""
        if timeout is None:
            events = super().select(10.0)
            if not events:
                raise RuntimeError("every task waits and no timer is set: a deadlock in virtual time")
            return events
        events = super().select(0)
        if not events and timeout > 0:
            self._clock.advance(timeout)
        return events


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: FakeClock) -> None:
        self._fake_clock = clock
        super().__init__(_Selector(clock))

    def time(self) -> float:
        """Virtual monotonic seconds."""
        return self._fake_clock.monotonic()


def run(clock: FakeClock, main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end on a fresh loop in the virtual time of `clock`."""
    with asyncio.Runner(loop_factory=lambda: _Loop(clock)) as runner:
        return runner.run(main)

"""Time: the only place that reads a clock or sleeps.

Everything else takes a `Clock`. Intervals use `monotonic`, display uses `wall`; neither orders checkpoints.
"""

from __future__ import annotations

import time
from typing import Protocol

from backends.clean import clean
from backends.errors import UsageError


class Clock(Protocol):
    """What the program knows of time."""

    def wall(self) -> float:
        """Seconds since 1970-01-01 UTC by this machine's wall clock; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds by a clock that never goes backwards; only differences mean something."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block for `seconds`."""
        ...

    async def pause(self, seconds: float) -> None:
        """Let other tasks run for `seconds`."""
        ...


class SystemClock:
    """The machine's own clocks; monotonic time counts suspend where the system offers it."""

    def wall(self) -> float:
        """Seconds since 1970-01-01 UTC."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds by CLOCK_BOOTTIME (Linux) or the monotonic clock."""
        boot = getattr(time, "CLOCK_BOOTTIME", None)
        return time.monotonic() if boot is None else time.clock_gettime(boot)

    def sleep(self, seconds: float) -> None:
        """Block for `seconds`."""
        time.sleep(seconds)

    async def pause(self, seconds: float) -> None:
        """Let other tasks run for `seconds`."""
        import asyncio  # 40 ms at start-up, which most commands never need

        await asyncio.sleep(seconds)


def format_utc(seconds: float) -> str:
    """RFC 3339 in UTC with milliseconds: 2026-12-01T03:12:00.250Z."""
    import datetime  # not at start-up: most commands show no time

    moment = datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_utc(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 time with a zone; raise UsageError on anything else."""
    import datetime

    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise UsageError(
            f"time {clean(text, limit=80)!r} is not RFC 3339 with a zone, such as 2026-12-05T00:00:00Z"
        )
    return moment.timestamp()

"""Numbers and times as people read them in a table: short, right-aligned, unknown is `–`, zero is zero."""

from __future__ import annotations

import datetime
import math

UNKNOWN = "–"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def duration(seconds: float | None) -> str:
    """A length of time in two units at most: `42s`, `4m 12s`, `1h 07m`, `2d 03h`; a minus for negative ones."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    whole = int(abs(seconds))
    sign = "-" if seconds <= -1 else ""
    if whole < 60:
        return f"{sign}{whole}s"
    if whole < 3600:
        return f"{sign}{whole // 60}m {whole % 60:02d}s"
    if whole < 86400:
        return f"{sign}{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{sign}{whole // 86400}d {whole % 86400 // 3600:02d}h"


def brief(seconds: float | None) -> str:
    """A length of time in one unit, rounded down: `42s`, `4m`, `1h`, `2d`."""
    text = duration(seconds)
    return text.split(" ", 1)[0]


def pause(seconds: float | None) -> str:
    """How long a job stood still: milliseconds below one second, one decimal below ten."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 10 else duration(seconds)


def size(count: int | None) -> str:
    """A number of bytes in binary units with three digits at most: `512 B`, `1.5 GiB`, `212 MiB`."""
    if count is None:
        return UNKNOWN
    value = float(count)
    for unit in _UNITS:
        if abs(value) < 1000 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" or abs(value) >= 10 else f"{value:.1f} {unit}"


def time_of_day(wall: float | None, now: float | None = None) -> str:
    """A moment as UTC `13:57:59`; with `now`, moments of another day carry their date: `11-30 13:57`."""
    if wall is None:
        return UNKNOWN
    try:
        moment = datetime.datetime.fromtimestamp(wall, tz=datetime.UTC)
        today = None if now is None else datetime.datetime.fromtimestamp(now, tz=datetime.UTC).date()
    except (OverflowError, ValueError, OSError):
        return UNKNOWN
    if today is not None and moment.date() != today:
        return moment.strftime("%m-%d %H:%M")
    return moment.strftime("%H:%M:%S")


def seconds_of(time: str) -> float | None:
    """Seconds since 1970 of an RFC 3339 time, None when it is not one."""
    try:
        moment = datetime.datetime.fromisoformat(time)
    except ValueError:
        return None
    return None if moment.tzinfo is None else moment.timestamp()


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 job`, `3 jobs`: a number with its noun."""
    return f"{number} {one if number == 1 else many or one + 's'}"

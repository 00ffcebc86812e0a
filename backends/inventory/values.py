"""Readers of single values of a fleet file: each takes TOML's value and returns the record's, or says what is wrong."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from typing import Any

from backends.clock import parse_utc
from planner.quantities import parse_duration, parse_fraction, parse_hours

Reader = Callable[[Any], Any]
_CLOCK = re.compile(r"(\d+):(\d\d)(?::(\d\d))?\Z")
# An alias, or [user@]host[:port] of at most 253 characters, as DNS allows; no character that a shell or an option parser could act on.
_HOST = r"(?!-)[\w.-]{1,253}"
_V6 = r"\[?[0-9A-Fa-f:]*:[0-9A-Fa-f:.]+(?:%[\w.-]{1,32})?\]?"
_SSH = re.compile(rf"(?:(?!-)[\w.-]{{1,64}}@)?(?:{_V6}|{_HOST})(?::\d{{1,5}})?\Z")
_URL = re.compile(r"[a-z][a-z0-9+-]*://\S+\Z")
_CREDENTIALS = re.compile(r"[A-Za-z0-9+-]+://[^/]*@")
_TRANSPORT = re.compile(r"(?:[A-Za-z0-9_][\w.+-]{0,63}@)?(?:aws-ssm|gcp-iap):(?!-)[\w./-]{1,253}\Z")


def text(value: Any) -> str:
    """Text without control characters, at least one character."""
    if not isinstance(value, str):
        raise ValueError(f"text expected, found {kind(value)}")
    if not value or any(ord(char) < 32 or ord(char) == 127 for char in value):
        raise ValueError("text of at least one character and without control characters expected")
    return value


def boolean(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"true or false expected, found {kind(value)}")
    return value


def integer(value: Any) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"a whole number expected, found {kind(value)}")
    return value


def number(value: Any) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"a number expected, found {kind(value)}")
    if not math.isfinite(value):
        raise ValueError(f"a finite number expected, found {value}")
    return float(value)


def duration(value: Any) -> float:
    """A duration with its unit, in seconds."""
    if isinstance(value, datetime.time):
        hint = f"{value.hour}h{value.minute}m{value.second}s"
        raise ValueError(
            f'a duration in quotes expected, such as "10m"; found the time of day {value}: write "{hint}"'
        )
    if not isinstance(value, str):
        raise ValueError(f'a duration in quotes with its unit expected, such as "10m"; found {kind(value)}')
    match = _CLOCK.match(value)
    if match:
        hours, minutes, seconds = match.group(1), match.group(2), match.group(3) or "00"
        raise ValueError(f'{value!r} is no duration: write "{hours}h{minutes}m{seconds}s"')
    return float(parse_duration(value))


def interval(value: Any) -> float | None:
    """A duration in seconds, or None for "auto"."""
    return None if value == "auto" else duration(value)


def hours(value: Any) -> float:
    """Hours as a bare number or a duration; more than 0."""
    result = float(parse_hours(value)) if isinstance(value, str) else number(value)
    if result <= 0:
        raise ValueError(f"more than 0 hours expected, found {value}")
    return result


def fraction(value: Any) -> float:
    """A share from 0 to 1, as 0.05 or "5%"."""
    result = float(parse_fraction(value)) if isinstance(value, str) else number(value)
    if not 0 <= result <= 1:
        raise ValueError(f'a share from 0 to 1 expected, such as 0.05 or "5%"; found {value}')
    return result


def instant(value: Any) -> str:
    """An RFC 3339 instant with a zone."""
    if isinstance(value, datetime.datetime):
        value = value.isoformat()
    result = text(value)
    parse_utc(result)
    return result


def argv(value: Any) -> tuple[str, ...]:
    """A list of texts: a command with its arguments, or paths."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f'a list of texts expected, such as ["python", "train.py"]; found {kind(value)}')
    if any("\0" in item for item in value):
        raise ValueError("a NUL character cannot stand in an argument")
    return tuple(value)


def paths(value: Any) -> tuple[str, ...]:
    """A list of absolute paths."""
    result = argv(value)
    for path in result:
        if not path.startswith("/"):
            raise ValueError(f"absolute paths expected, found {path!r}")
    return result


def texts(value: Any) -> dict[str, str]:
    """A table of texts."""
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ValueError(f'a table of texts expected, such as {{ team = "ml" }}; found {kind(value)}')
    return dict(value)


def ssh(value: Any) -> str:
    """An alias from ssh_config, [user@]host[:port], or [user@]aws-ssm:… and gcp-iap:…; never a command or an option."""
    result = text(value)
    if not (_TRANSPORT.match(result) or _SSH.match(result)):
        raise ValueError(
            f"{result!r} is no ssh address: an alias from ~/.ssh/config or user@host:port expected"
        )
    return result


def url(value: Any) -> str:
    """A store's URL, without credentials: those come from the environment of the store's own tools."""
    result = text(value)
    if _CREDENTIALS.match(result):
        raise ValueError("a store URL holds no credentials: scheme://bucket/prefix expected")
    if not _URL.match(result):
        raise ValueError(f"{result!r} is no store URL, such as file:///srv/reprieve or s3://bucket/prefix")
    return result


def restore(value: Any) -> str:
    """owned, same-pool, any-pool or on-demand-after=DURATION (also as { on-demand-after = "2h" })."""
    if isinstance(value, dict) and list(value) == ["on-demand-after"]:
        value = f"on-demand-after={value['on-demand-after']}"
    if value in ("owned", "same-pool", "any-pool"):
        return str(value)
    if isinstance(value, str) and value.startswith("on-demand-after="):
        duration(value.removeprefix("on-demand-after="))
        return value
    raise ValueError(
        f'"owned", "same-pool", "any-pool" or {{ on-demand-after = "2h" }} expected, found {value!r}'
    )


def kind(value: Any) -> str:
    """What TOML calls the type of `value`, with the value where it is short."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    return f"{value!r}" if isinstance(value, (str, int, float)) else f"{value}"


def write_duration(seconds: float) -> str:
    """A duration that `duration` reads back to exactly `seconds`: whole hours, minutes, else seconds."""
    for unit, length in (("h", 3600), ("m", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{int(seconds) // length}{unit}"
    from decimal import Decimal  # only writing needs it, and most commands only read

    exact = format(Decimal(repr(seconds)), "f")
    return f"{exact.rstrip('0').rstrip('.') if '.' in exact else exact}s"

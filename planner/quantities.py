"""Durations, sizes, rates and fractions: parse what people type, format what they read.

Every parser raises `QuantityError`, a ValueError whose one line names the value and the form expected.
"""

from __future__ import annotations

import math
import re

SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
SIZES = {
    "": 1, "B": 1,
    "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50,
}  # fmt: skip

_NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
# Compiled, and kept by `re`, when first needed: most commands read few kinds of quantity.
_PLAIN = rf"-?{_NUMBER}\Z"
_PART = rf"({_NUMBER})(ms|min|[smhdw])"
_ISO = rf"P(?:({_NUMBER})W)?(?:({_NUMBER})D)?(?:T(?=[0-9.])(?:({_NUMBER})H)?(?:({_NUMBER})M)?(?:({_NUMBER})S)?)?\Z"
_SIZE = rf"({_NUMBER})\s*([A-Za-z]*)\Z"


class QuantityError(ValueError):
    """A text is not the quantity expected."""


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…").encode("ascii", "backslashreplace").decode()


def _finite(value: float, text: str) -> float:
    if not math.isfinite(value):
        raise QuantityError(f"{_shown(text)} is too large to be a number here")
    return value


def parse_number(text: str) -> float:
    """A plain decimal number, NaN and infinities refused."""
    if not re.match(_PLAIN, text.strip()):
        raise QuantityError(f"{_shown(text)} is not a number, such as 3 or 0.125")
    return _finite(float(text), text)


def parse_duration(text: str) -> float:
    """Seconds of a duration with units: `90s`, `10m`, `1h30m`, `2.5h`, `P1DT2H`; never negative, never bare."""
    value = text.strip()
    iso = re.match(_ISO, value) if value.startswith("P") else None
    if iso and any(iso.groups()):
        weights = (604800.0, 86400.0, 3600.0, 60.0, 1.0)
        parts = zip(iso.groups(), weights, strict=True)
        return _finite(sum(float(part) * weight for part, weight in parts if part), text)
    position, total, last = 0, 0.0, math.inf
    while position < len(value):
        match = re.match(_PART, value[position:])
        if match is None or SECONDS[match.group(2)] >= last:
            break
        last = SECONDS[match.group(2)]
        total += float(match.group(1)) * last
        position += match.end()
    if not value or position != len(value):
        raise QuantityError(f"{_shown(text)} is not a duration, such as 90s, 10m, 1h30m, 2.5h or P1DT2H")
    return _finite(total, text)


def parse_hours(text: str) -> float:
    """Hours of a bare number (`24`) or of a duration (`24h`, `1d`)."""
    if re.match(_PLAIN, text.strip()):
        return parse_number(text)
    return parse_duration(text) / 3600.0


def parse_seconds(text: str) -> float:
    """Seconds of a bare number (`120`) or of a duration (`2m`)."""
    if re.match(_PLAIN, text.strip()):
        return parse_number(text)
    return parse_duration(text)


def parse_size(text: str) -> int:
    """Bytes of a size: `670GiB`, `32GB`, a bare number of bytes."""
    match = re.match(_SIZE, text.strip())
    if match is None or match.group(2) not in SIZES:
        raise QuantityError(f"{_shown(text)} is not a size, such as 670GiB, 32GB or 1048576 (bytes)")
    return round(_finite(float(match.group(1)) * SIZES[match.group(2)], text))


def parse_rate(text: str) -> float:
    """Bytes per second of a rate: `10GB/s`, `400MiB/s`."""
    value = text.strip()
    if not value.endswith("/s"):
        raise QuantityError(f"{_shown(text)} is not a rate, such as 10GB/s or 400MiB/s")
    try:
        return float(parse_size(value[:-2]))
    except QuantityError:
        raise QuantityError(f"{_shown(text)} is not a rate, such as 10GB/s or 400MiB/s") from None


def parse_fraction(text: str) -> float:
    """A fraction: `0.7` or `70%`; may be negative (a discount can be), range is the caller's matter."""
    value = text.strip()
    try:
        return parse_number(value[:-1]) / 100.0 if value.endswith("%") else parse_number(value)
    except QuantityError:
        raise QuantityError(f"{_shown(text)} is not a fraction, such as 0.7 or 70%") from None


def format_duration(seconds: float | None, *, digits: int = 2) -> str:
    """Seconds for people: at most `digits` units (`1h 02m`, `4m 12s`, `850ms`); None is `–`, infinite `∞`."""
    if seconds is None or math.isnan(seconds):
        return "–"
    if math.isinf(seconds):
        return "∞" if seconds > 0 else "-∞"
    sign, value = ("-" if seconds < 0 else ""), abs(seconds)
    if value < 1:
        return f"{sign}{value * 1000:.0f}ms" if value else "0s"
    if value < 10:
        return f"{sign}{value:.1f}s".replace(".0s", "s")
    whole = round(value)
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s")]
    while len(parts) > 1 and parts[0][0] == 0:
        parts.pop(0)
    shown = parts[:digits]
    text = f"{shown[0][0]}{shown[0][1]}" + "".join(f" {count:02d}{unit}" for count, unit in shown[1:])
    return sign + text


def format_size(size_bytes: float | None) -> str:
    """Bytes for people in binary units: `4.2 GiB`; None is `–`."""
    if size_bytes is None:
        return "–"
    value, unit = float(size_bytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(value) < 1024 or unit == "PiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" or abs(value) >= 100 else f"{value:.1f} {unit}"


def format_fraction(value: float | None, *, digits: int = 1) -> str:
    """A fraction as per cent: `69.4 %`; None is `–`."""
    return "–" if value is None else f"{value * 100:.{digits}f} %"

"""Version texts of kernels, drivers and tools: ordered by their numbers, equal only as whole texts."""

from __future__ import annotations

import re

_NUMBERS = re.compile(r"\d{1,9}(?:\.\d{1,9})*")


def numbers(text: str | None) -> tuple[int, ...] | None:
    """The leading dotted numbers (`6.8.0-45-generic` → 6, 8, 0); None for no text or none in front."""
    match = _NUMBERS.match(text or "")
    return tuple(int(part) for part in match.group().split(".")) if match else None


def older(one: str, other: str) -> bool | None:
    """Whether `one` comes before `other` by their numbers; missing parts count as 0. None: cannot be told."""
    left, right = numbers(one), numbers(other)
    if left is None or right is None:
        return None
    width = max(len(left), len(right))
    return left + (0,) * (width - len(left)) < right + (0,) * (width - len(right))

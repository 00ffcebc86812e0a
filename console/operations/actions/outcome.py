"""What came of an action, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

OnStep = Callable[[str], None]
Arguments = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """One sentence, the document behind it, and the exit code."""

    message: str
    document: dict[str, Any] = field(default_factory=dict)
    exit_code: int = 0

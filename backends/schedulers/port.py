"""What operations ask of another restarter: will it, or did it, start this job again by itself?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

Word = Literal["no", "will", "did", "unknown"]


@dataclass(frozen=True)
class Answer:
    """`no` only where the scheduler itself says so; what cannot be asked is `unknown`."""

    word: Word
    detail: str  # one sentence for people
    remedy: str = ""  # what the operator can type against it


class Restarter(Protocol):
    """One kind of scheduler. Blocking; never raises."""

    def ask(self, identity: str) -> Answer:
        """About the job that the scheduler knows by `identity`."""
        ...

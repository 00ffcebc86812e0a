"""What the guard asks of a provider's notice source: one reading at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from backends.records.node import NoticeState


@dataclass(frozen=True)
class Reading:
    """One look at the provider's notices. `unreadable` is an answer of its own and never means `none`."""

    state: NoticeState
    reason: str = ""  # one short clause: the provider's word or why it could not be read
    left_s: float | None = None  # seconds left by the node's wall clock; may be negative; None: not told
    window_s: float = 0.0  # the documented window, an upper bound of what is left
    mark: str | None = None  # tells one hint from the next
    withdrawn: bool = False  # the provider says that the announced reclaim is called off


class NoticeSource(Protocol):
    """A provider's way to announce a reclaim. Never raises: what cannot be read is `unreadable`."""

    @property
    def period_s(self) -> float:
        """Seconds between two readings."""
        ...

    def read(self) -> Reading:
        """Look once; returns within a few seconds."""
        ...

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
    pause: tuple[float, float] | None = None  # the machine will stand still: in so many seconds, for so many
    last: bool = False  # the machine goes down: the guard ends too, once nothing is being saved


class NoticeSource(Protocol):
    """A provider's way to announce a reclaim. Never raises: what cannot be read is `unreadable`."""

    @property
    def period_s(self) -> float:
        """Seconds from the end of one reading to the next."""
        ...

    def read(self) -> Reading:
        """Look once; may wait for a change, for half a minute at most (the very first look: two minutes)."""
        ...

    def signalled(self) -> Reading | None:
        """What a SIGTERM that the guard just got means here: a notice; None: the guard is told to end."""
        ...


def seconds(value: object) -> float | None:
    """A number of seconds, 0 or more and below a day; None for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 86400:
        return float(value)
    return None

"""An event: something that happened, said once by whoever saw it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """One line of the history. Text in `data` is cleaned where the event enters the program."""

    id: str  # unique: "<source>/<number>"
    time: str  # RFC 3339 UTC by the source's wall clock
    kind: str  # dotted lower case: save.committed, notice.seen, job.zombie, restore.done …
    node: str | None = None
    job: str | None = None
    text: str = ""  # one plain sentence for people
    data: dict[str, Any] = field(default_factory=dict)  # snake_case with units

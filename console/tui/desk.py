"""What every screen works with: the feed, the operations, the clock, the words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from backends.clock import Clock
from console.registry.model import Command
from console.tui.looks import Looks
from console.tui.model.header import Header
from console.tui.model.incoming import safe
from console.tui.model.meanwhile import meanwhile
from console.tui.poll import Feed
from console.tui.tasks import Tasks


@dataclass
class Wish:
    """What one screen hands to the next: a job to restore, from which save; figures to plan with."""

    job: str | None = None
    checkpoint: str | None = None
    number: int = 0  # grows with every new wish
    pool: dict[str, str] | None = None
    plan_job: str | None = None

    def begin(self, job: str | None, checkpoint: str | None = None) -> None:
        """A new restore."""
        self.job, self.checkpoint = job, checkpoint
        self.number += 1


@dataclass
class Desk:
    """Shared by all screens of one console."""

    feed: Feed
    tasks: Tasks
    looks: Looks
    clock: Clock
    commands: Sequence[Command] = ()
    guide: str | None = None  # the sentence of the guide strip
    awaited: Callable[[], str] | None = None  # what a demo waits for, for the line below that sentence
    wish: Wish = field(default_factory=Wish)

    def meanwhile(self) -> str:
        """The line below the guide's sentence; empty where nobody tells what is awaited."""
        if self.awaited is None:
            return ""
        return meanwhile(safe(self.awaited()), self.feed.view, self.feed.now)

    def header(self) -> Header:
        """The state of the context bar now."""
        feed = self.feed
        return Header(feed.view, feed.now, feed.elapsed_s, feed.failure, feed.paused, self.tasks.running)

"""What every screen works with: the feed, the operations, the clock, the words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backends.clock import Clock
from console.registry.model import Command
from console.tui.model.header import Header
from console.tui.poll import Feed
from console.tui.tasks import Tasks


@dataclass
class Desk:
    """Shared by all screens of one console."""

    feed: Feed
    tasks: Tasks
    clock: Clock
    commands: Sequence[Command] = ()
    guide: str | None = None  # the sentence of the guide strip

    def header(self) -> Header:
        """The state of the context bar now."""
        feed = self.feed
        return Header(feed.view, feed.now, feed.elapsed_s, feed.failure, feed.paused, self.tasks.running)

"""A hold that lives: its state, and whoever waits for it to change."""

from __future__ import annotations

import threading
from collections.abc import Callable

from backends.guard.decide.hold import Hold


class Held:
    """The live side of one hold; all changes go through `change`."""

    def __init__(self, hold: Hold, number: int) -> None:
        self.number = number  # of the save
        self.changed = threading.Condition()
        self._hold = hold

    @property
    def hold(self) -> Hold:
        """As it is now."""
        with self.changed:
            return self._hold

    def change(self, change: Callable[[Hold], Hold]) -> Hold:
        """Replace it by `change(hold)` and wake whoever waits."""
        with self.changed:
            self._hold = change(self._hold)
            self.changed.notify_all()
            return self._hold

    def wait(self, seconds: float) -> None:
        """Until it changes, at most so long."""
        with self.changed:
            self.changed.wait(seconds)

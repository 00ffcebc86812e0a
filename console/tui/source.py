"""What the console asks of the fleet: a snapshot, the answer to a look, and to perform a named command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from console.operations.view import FleetView


class FleetSource(Protocol):
    """Where snapshots come from and commands go to."""

    async def view(self) -> FleetView:
        """The newest snapshot; may take seconds and may raise ReprieveError."""
        ...

    async def perform(self, words: str, arguments: dict[str, Any], on_step: Callable[[str], None]) -> str:
        """Run the command named by `words` (`jobs save`) and return one sentence on what came of it.

        `on_step` is called with each step's words and may be called from another thread. Raises ReprieveError.
        """
        ...

    async def ask(self, words: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer to a look (`console.operations.looks.api`): reads only; may take seconds, may raise ReprieveError."""
        ...

    async def close(self) -> None:
        """Let go of connections; called once, when the console ends."""
        ...


@runtime_checkable
class Following(Protocol):
    """A source that tells of changes by itself: there is nothing to be asked again and again."""

    pace_s: float  # between two snapshots that are taken from it

    async def following(self) -> FleetView:
        """The next snapshot that was not given yet; may raise ReprieveError."""
        ...

    def hurry(self) -> None:
        """Look at once; the next snapshot comes the sooner."""
        ...

"""What the console asks of a node: one call with a fixed verb and a JSON document."""

from __future__ import annotations

from typing import Any, Protocol


class NodeLink(Protocol):
    """A connection to one node's guard."""

    async def call(self, verb: str, document: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """Run one verb and return its answer.

        Raises:
            UnreachableError: no connection, no answer in time, or the guard is not running.
            ReprieveError (of the kind the node named): the verb was refused or failed there.
        """
        ...

    async def close(self) -> None:
        """Drop the connection."""
        ...

"""What the ledger asks of a database: statements with `?` for each value, in the SQL that SQLite and PostgreSQL share."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol


class Writer(Protocol):
    """One transaction under way."""

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> int:
        """Run a statement; returns how many rows it changed."""
        ...


class Database(Protocol):
    """One database of one fleet; calls from several threads take turns."""

    def writing(self, *, durable: bool = True) -> AbstractContextManager[Writer]:
        """A transaction: committed and durable when the block ends, rolled back when it raises.

        Without `durable` a crash of the machine may undo the newest ones, which is allowed for what nodes and store
        tell again.

        Raises:
            ReprieveError: the database cannot be written; nothing of the block is kept.
        """
        ...

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """All rows of a query; ReprieveError when they cannot be read."""
        ...

    def stamp(self) -> object | None:
        """Differs once another connection has committed; None where that cannot be told cheaply."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...

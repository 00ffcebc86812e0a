"""A ledger's database in memory: it outlives the consoles that use it, as a file outlives theirs."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backends.ledger import schema
from backends.ledger.sqlite import SqliteDatabase


class MemoryDatabase(SqliteDatabase):
    """The same tables and statements as the file's, without its system calls; closing it leaves it as it is."""

    def __init__(self) -> None:
        self.path = Path(":memory:")
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._durable = True
        for statement in [*schema.statements("sqlite"), *schema.added("sqlite")]:
            self._connection.execute(statement)

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[SqliteDatabase]:
        """See `Database`; nothing here is ever synced."""
        with super().writing() as connection:
            yield connection

    def stamp(self) -> object | None:
        """See `Database`; every console writes by this one connection."""
        return self._connection.total_changes

    def close(self) -> None:
        """The console ends; the database goes with the practice."""

"""The ledger in one SQLite file."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backends.ledger import schema
from backends.ledger.history import SqlLedger


class SqliteDatabase:
    """One file, one connection, one writer at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._connection = schema.connect(path)
        self._durable = True  # schema.connect sets synchronous=FULL

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> int:
        """Run a statement of the transaction under way; returns how many rows it changed."""
        return self._connection.execute(statement, values).rowcount

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[SqliteDatabase]:
        """See `Database`."""
        with self._lock:
            try:
                if durable is not self._durable:
                    self._connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                    self._durable = durable
                self._connection.execute("BEGIN IMMEDIATE")
                yield self
                self._connection.execute("COMMIT")
            except BaseException as error:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise schema.unreadable(self.path, error) from None
                raise

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """See `Database`."""
        with self._lock:
            try:
                return list(self._connection.execute(query, values))
            except sqlite3.Error as error:
                raise schema.unreadable(self.path, error) from None

    def stamp(self) -> object | None:
        """See `Database`."""
        return int(self.rows("PRAGMA data_version")[0][0])

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()


class SqliteLedger(SqlLedger):
    """History and current state of one fleet in one file."""

    def __init__(self, path: Path) -> None:
        super().__init__(SqliteDatabase(path))

"""The operations journal on SQLite: record, act, observe."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backends.ledger import schema
from backends.ledger.records import Item, ItemState, Run, RunState, Step


def pack(value: object) -> str:
    """JSON text of a plain value as it is kept in a column."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


class SqliteJournal:
    """Runs, items and steps; one connection, one writer at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._connection = schema.connect(path)
        self._durable = True  # schema.connect sets synchronous=FULL

    @contextmanager
    def _writing(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """One transaction.

        `durable`: it is on disk when this returns; else a crash of the machine may undo the newest ones, which is
        allowed for what nodes and store tell again.
        """
        with self._lock:
            try:
                if durable is not self._durable:
                    self._connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
                    self._durable = durable
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException as error:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise schema.unreadable(self.path, error) from None
                raise

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return list(self._connection.execute(query, values))
            except sqlite3.Error as error:
                raise schema.unreadable(self.path, error) from None

    def open_run(self, run: Run, items: Iterable[Item]) -> None:
        """Begin a run with all its items in one transaction."""
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO runs VALUES (?,?,?,?,?,?,?)",
                (
                    run.id,
                    run.kind,
                    run.created_at,
                    pack(run.arguments),
                    run.state,
                    run.finished_at,
                    run.detail,
                ),
            )
            connection.executemany(
                "INSERT INTO items VALUES (?,?,?,?,?,?,?)",
                [(i.run, i.item, i.job, pack(i.arguments), i.state, i.reason, pack(i.result)) for i in items],
            )

    def find_run(self, run: str) -> Run | None:
        """The run of this id, or None."""
        rows = self._rows("SELECT * FROM runs WHERE id = ?", run)
        return _run(rows[0]) if rows else None

    def runs(self, limit: int = 100) -> list[Run]:
        """The newest runs, newest first."""
        return [_run(row) for row in self._rows("SELECT * FROM runs ORDER BY rowid DESC LIMIT ?", limit)]

    def items(self, run: str) -> list[Item]:
        """The items of a run in their order."""
        rows = self._rows("SELECT * FROM items WHERE run = ? ORDER BY rowid", run)
        return [
            Item(row[0], row[1], row[2], json.loads(row[3]), row[4], row[5], json.loads(row[6]))
            for row in rows
        ]

    def intend(self, run: str, item: str, step: str, data: dict[str, Any], at: float) -> None:
        """Record what is about to be done; durable on return."""
        self._step(run, item, step, "intended", data, at)

    def observe(self, run: str, item: str, step: str, data: dict[str, Any], at: float) -> None:
        """Record what came of it; durable on return."""
        self._step(run, item, step, "observed", data, at)

    def _step(self, run: str, item: str, step: str, phase: str, data: dict[str, Any], at: float) -> None:
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO steps SELECT ?, ?, coalesce(max(number), 0) + 1, ?, ?, ?, ?"
                " FROM steps WHERE run = ? AND item = ?",
                (run, item, step, phase, at, pack(data), run, item),
            )

    def steps(self, run: str, item: str) -> list[Step]:
        """All records of one item in their order."""
        rows = self._rows("SELECT * FROM steps WHERE run = ? AND item = ? ORDER BY number", run, item)
        return [Step(row[0], row[1], row[2], row[3], row[4], row[5], json.loads(row[6])) for row in rows]

    def close_item(self, run: str, item: str, state: ItemState, reason: str, result: dict[str, Any]) -> None:
        """Set an item's state and result."""
        with self._writing() as connection:
            connection.execute(
                "UPDATE items SET state = ?, reason = ?, result = ? WHERE run = ? AND item = ?",
                (state, reason, pack(result), run, item),
            )

    def close_run(self, run: str, state: RunState, detail: str, at: float) -> None:
        """Set a run's state."""
        with self._writing() as connection:
            connection.execute(
                "UPDATE runs SET state = ?, detail = ?, finished_at = ? WHERE id = ?",
                (state, detail, None if state == "running" else at, run),
            )

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()


def _run(row: tuple[Any, ...]) -> Run:
    return Run(row[0], row[1], row[2], json.loads(row[3]), row[4], row[5], row[6])

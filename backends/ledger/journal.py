"""The operations journal in SQL: record, act, observe."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from backends.ledger.database import Database
from backends.ledger.records import Item, ItemState, Run, RunState, Step


def pack(value: object) -> str:
    """JSON text of a plain value as it is kept in a column."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


class SqlJournal:
    """Runs, items and steps. A record is durable when the call returns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open_run(self, run: Run, items: Iterable[Item]) -> None:
        """Begin a run with all its items in one transaction."""
        with self._database.writing() as connection:
            connection.execute(
                "INSERT INTO runs (id, kind, created_at, arguments, state, finished_at, detail) VALUES (?,?,?,?,?,?,?)",
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
            for i in items:
                connection.execute(
                    "INSERT INTO items (run, item, job, arguments, state, reason, result) VALUES (?,?,?,?,?,?,?)",
                    (i.run, i.item, i.job, pack(i.arguments), i.state, i.reason, pack(i.result)),
                )

    def find_run(self, run: str) -> Run | None:
        """The run of this id, or None."""
        rows = self._database.rows(
            "SELECT id, kind, created_at, arguments, state, finished_at, detail FROM runs WHERE id = ?", run
        )
        return _run(rows[0]) if rows else None

    def runs(self, limit: int = 100) -> list[Run]:
        """The newest runs, newest first."""
        return [
            _run(row)
            for row in self._database.rows(
                "SELECT id, kind, created_at, arguments, state, finished_at, detail FROM runs ORDER BY rowid DESC LIMIT ?",
                limit,
            )
        ]

    def items(self, run: str) -> list[Item]:
        """The items of a run in their order."""
        rows = self._database.rows(
            "SELECT run, item, job, arguments, state, reason, result FROM items WHERE run = ? ORDER BY rowid",
            run,
        )
        return [_item(row) for row in rows]

    def find_item(self, run: str, item: str) -> Item | None:
        """One item as it is now, or None."""
        rows = self._database.rows(
            "SELECT run, item, job, arguments, state, reason, result FROM items WHERE run = ? AND item = ?",
            run,
            item,
        )
        return _item(rows[0]) if rows else None

    def intend(self, run: str, item: str, step: str, data: dict[str, Any], at: float) -> None:
        """Record what is about to be done; durable on return."""
        self._step(run, item, step, "intended", data, at)

    def observe(self, run: str, item: str, step: str, data: dict[str, Any], at: float) -> None:
        """Record what came of it; durable on return."""
        self._step(run, item, step, "observed", data, at)

    def _step(self, run: str, item: str, step: str, phase: str, data: dict[str, Any], at: float) -> None:
        with self._database.writing() as connection:
            connection.execute(
                "INSERT INTO steps (run, item, number, step, phase, at, data) SELECT CAST(? AS TEXT), CAST(? AS TEXT), coalesce(max(number), 0) + 1,"
                " CAST(? AS TEXT), CAST(? AS TEXT), ?, CAST(? AS TEXT) FROM steps WHERE run = ? AND item = ?",
                (run, item, step, phase, at, pack(data), run, item),
            )

    def steps(self, run: str, item: str) -> list[Step]:
        """All records of one item in their order."""
        rows = self._database.rows(
            "SELECT run, item, number, step, phase, at, data FROM steps WHERE run = ? AND item = ? ORDER BY number",
            run,
            item,
        )
        return [Step(row[0], row[1], row[2], row[3], row[4], row[5], json.loads(row[6])) for row in rows]

    def close_item(self, run: str, item: str, state: ItemState, reason: str, result: dict[str, Any]) -> None:
        """Set an item's state and result."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE items SET state = ?, reason = ?, result = ? WHERE run = ? AND item = ?",
                (state, reason, pack(result), run, item),
            )

    def close_run(self, run: str, state: RunState, detail: str, at: float) -> None:
        """Set a run's state."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE runs SET state = ?, detail = ?, finished_at = ? WHERE id = ?",
                (state, detail, None if state == "running" else at, run),
            )

    def close(self) -> None:
        """Close the connection."""
        self._database.close()


def _item(row: tuple[Any, ...]) -> Item:
    return Item(row[0], row[1], row[2], json.loads(row[3]), row[4], row[5], json.loads(row[6]))


def _run(row: tuple[Any, ...]) -> Run:
    return Run(row[0], row[1], row[2], json.loads(row[3]), row[4], row[5], row[6])

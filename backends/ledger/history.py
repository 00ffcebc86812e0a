"""The ledger in SQL: events, current state, reclaims, saves, observed hours, typed words, the journal."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from backends.ledger.journal import SqlJournal, pack
from backends.ledger.records import JobCurrent, NodeSeen, Reclaim, SaveMeasure, Word
from backends.records.event import Event


class SqlLedger(SqlJournal):
    """History and current state of one fleet in one database."""

    def add_event(self, event: Event) -> bool:
        """Keep an event; False when one of this id is there already."""
        with self._database.writing() as connection:
            added = connection.execute(
                "INSERT INTO events (id, time, kind, node, job, text, data) VALUES (?,?,?,?,?,?,?)"
                " ON CONFLICT (id) DO NOTHING",
                (event.id, event.time, event.kind, event.node, event.job, event.text, pack(event.data)),
            )
            return added == 1

    def events(
        self, *, limit: int = 500, after: int = 0, job: str | None = None, kinds: tuple[str, ...] = ()
    ) -> list[tuple[int, Event]]:
        """The newest `limit` events after number `after`, oldest first, with their numbers; of `kinds`, if given."""
        one_of = f" AND kind IN ({','.join('?' * len(kinds))})" if kinds else ""
        rows = self._database.rows(
            "SELECT number, id, time, kind, node, job, text, data FROM events"  # noqa: S608 - only question marks are put in
            f" WHERE number > ? AND (CAST(? AS TEXT) IS NULL OR job = ?){one_of} ORDER BY number DESC LIMIT ?",
            after,
            job,
            job,
            *kinds,
            limit,
        )
        return [
            (row[0], Event(row[1], row[2], row[3], row[4], row[5], row[6], json.loads(row[7])))
            for row in reversed(rows)
        ]

    def put_job(self, job: JobCurrent) -> None:
        """Keep the current state of a job."""
        with self._database.writing() as connection:
            connection.execute(
                "INSERT INTO jobs (uid, name, record) VALUES (?,?,?)"
                " ON CONFLICT (uid) DO UPDATE SET name = excluded.name, record = excluded.record",
                (job.uid, job.name, pack(asdict(job))),
            )

    def jobs(self) -> dict[str, JobCurrent]:
        """Current states by uid."""
        return {
            row[0]: JobCurrent(**json.loads(row[1]))
            for row in self._database.rows("SELECT uid, record FROM jobs")
        }

    def forget_job(self, uid: str) -> None:
        """Drop a job's current state; its history stays."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM jobs WHERE uid = ?", (uid,))

    def put_node(self, node: NodeSeen) -> None:
        """Keep a node's last answer."""
        with self._database.writing() as connection:
            connection.execute(
                "INSERT INTO nodes (name, record) VALUES (?,?)"
                " ON CONFLICT (name) DO UPDATE SET record = excluded.record",
                (node.name, pack(asdict(node))),
            )

    def nodes(self) -> dict[str, NodeSeen]:
        """Last answers by node name."""
        return {
            row[0]: NodeSeen(**json.loads(row[1]))
            for row in self._database.rows("SELECT name, record FROM nodes")
        }

    def put_reclaim(self, reclaim: Reclaim) -> None:
        """Keep a reclaim; the same key replaces its earlier record."""
        with self._database.writing() as connection:
            connection.execute(
                "INSERT INTO reclaims (key, at, uid, record) VALUES (?,?,?,?)"
                " ON CONFLICT (key) DO UPDATE SET at = excluded.at, uid = excluded.uid, record = excluded.record",
                (reclaim.key, reclaim.at, reclaim.uid, pack(asdict(reclaim))),
            )

    def reclaims(self) -> list[Reclaim]:
        """All reclaims, oldest first."""
        return [
            Reclaim(**json.loads(row[0]))
            for row in self._database.rows("SELECT record FROM reclaims ORDER BY at, key")
        ]

    def add_save(self, save: SaveMeasure) -> None:
        """Keep one save's measures; repeating one changes nothing."""
        with self._database.writing() as connection:
            connection.execute(
                "INSERT INTO saves (uid, checkpoint, at, freeze_s, upload_s, size_bytes) VALUES (?,?,?,?,?,?) ON CONFLICT (uid, checkpoint) DO NOTHING",
                (save.uid, save.checkpoint, save.at, save.freeze_s, save.upload_s, save.size_bytes),
            )

    def saves(self, uid: str) -> list[SaveMeasure]:
        """A job's measured saves, oldest first."""
        rows = self._database.rows(
            "SELECT uid, checkpoint, at, freeze_s, upload_s, size_bytes FROM saves WHERE uid = ? ORDER BY at, checkpoint",
            uid,
        )
        return [SaveMeasure(*row) for row in rows]

    def add_observed(self, node: str, pool: str, seconds: float) -> None:
        """Add observed running time of a node."""
        with self._database.writing() as connection:
            connection.execute(
                "INSERT INTO observed (node, pool, seconds) VALUES (?,?,?) ON CONFLICT (node, pool) DO UPDATE"
                " SET seconds = observed.seconds + excluded.seconds",
                (node, pool, seconds),
            )

    def observed_hours(self) -> dict[str, float]:
        """Observed node-hours by pool."""
        rows = self._database.rows("SELECT pool, sum(seconds) FROM observed GROUP BY pool ORDER BY pool")
        return {row[0]: row[1] / 3600 for row in rows}

    def add_word(self, word: Word) -> None:
        """Keep the operator's typed word."""
        with self._database.writing() as connection:
            connection.execute("INSERT INTO words (record) VALUES (?)", (pack(asdict(word)),))

    def words(self) -> list[Word]:
        """All typed words, oldest first."""
        rows: list[tuple[Any, ...]] = self._database.rows("SELECT record FROM words ORDER BY number")
        return [Word(**json.loads(row[0])) for row in rows]

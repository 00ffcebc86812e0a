"""The ledger in SQL: events, current state, reclaims, saves, observed hours, typed words, the journal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from backends.ledger.journal import SqlJournal, pack
from backends.ledger.records import JobCurrent, NodeSeen, Reclaim, SaveMeasure, Word, Work
from backends.records.event import Event

Record = TypeVar("Record")


def _read_anew(
    rows: Iterable[Any], before: Mapping[str, tuple[str, Record]], make: Callable[..., Record]
) -> dict[str, tuple[str, Record]]:
    """Records by key with their texts; of a text that is as before nothing is parsed again."""
    found = {}
    for key, text in rows:
        known = before.get(key)
        found[key] = known if known is not None and known[0] == text else (text, make(**json.loads(text)))
    return found


class SqlLedger(SqlJournal):
    """History and current state of one fleet in one database."""

    _jobs: tuple[object, dict[str, JobCurrent]] | None = (
        None  # what was read last, and the stamp it belongs to
    )
    _jobs_written = 0
    _job_texts: Mapping[str, tuple[str, JobCurrent]] = MappingProxyType({})  # by uid, as read last
    _node_texts: Mapping[str, tuple[str, NodeSeen]] = MappingProxyType({})  # by name

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
        with self._database.writing(durable=False) as connection:
            connection.execute(
                "INSERT INTO jobs (uid, name, record) VALUES (?,?,?)"
                " ON CONFLICT (uid) DO UPDATE SET name = excluded.name, record = excluded.record",
                (job.uid, job.name, pack(job.__dict__)),
            )
            self._jobs_written += 1

    def jobs(self) -> dict[str, JobCurrent]:
        """Current states by uid; where the database can tell, read again only after somebody wrote."""
        found = self._database.stamp()
        stamp = None if found is None else (found, self._jobs_written)
        if stamp is None or self._jobs is None or self._jobs[0] != stamp:
            rows = self._database.rows("SELECT uid, record FROM jobs")
            self._job_texts = _read_anew(rows, self._job_texts, JobCurrent)
            self._jobs = (stamp, {uid: job for uid, (_, job) in self._job_texts.items()})
        return dict(self._jobs[1])

    def forget_job(self, uid: str) -> None:
        """Drop a job's current state; its history stays."""
        with self._database.writing(durable=False) as connection:
            connection.execute("DELETE FROM jobs WHERE uid = ?", (uid,))
            self._jobs_written += 1

    def put_node(self, node: NodeSeen) -> None:
        """Keep a node's last answer."""
        with self._database.writing(durable=False) as connection:
            connection.execute(
                "INSERT INTO nodes (name, record) VALUES (?,?)"
                " ON CONFLICT (name) DO UPDATE SET record = excluded.record",
                (node.name, pack(node.__dict__)),
            )

    def nodes(self) -> dict[str, NodeSeen]:
        """Last answers by node name."""
        rows = self._database.rows("SELECT name, record FROM nodes")
        self._node_texts = _read_anew(rows, self._node_texts, NodeSeen)
        return {name: node for name, (_, node) in self._node_texts.items()}

    def put_reclaim(self, reclaim: Reclaim) -> None:
        """Keep a reclaim; the same key replaces its earlier record."""
        with self._database.writing() as connection:
            connection.execute(
                "INSERT INTO reclaims (key, at, uid, record) VALUES (?,?,?,?)"
                " ON CONFLICT (key) DO UPDATE SET at = excluded.at, uid = excluded.uid, record = excluded.record",
                (reclaim.key, reclaim.at, reclaim.uid, pack(reclaim.__dict__)),
            )

    def reclaims(self) -> list[Reclaim]:
        """All reclaims, oldest first."""
        return [
            Reclaim(**json.loads(row[0]))
            for row in self._database.rows("SELECT record FROM reclaims ORDER BY at, key")
        ]

    def add_save(self, save: SaveMeasure) -> None:
        """Keep one save's measures; repeating one changes nothing."""
        with self._database.writing(durable=False) as connection:
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
        with self._database.writing(durable=False) as connection:
            connection.execute(
                "INSERT INTO observed (node, pool, seconds) VALUES (?,?,?) ON CONFLICT (node, pool) DO UPDATE"
                " SET seconds = observed.seconds + excluded.seconds",
                (node, pool, seconds),
            )

    def observed_hours(self) -> dict[str, float]:
        """Observed node-hours by pool."""
        rows = self._database.rows("SELECT pool, sum(seconds) FROM observed GROUP BY pool ORDER BY pool")
        return {row[0]: row[1] / 3600 for row in rows}

    def add_work(self, works: Iterable[Work]) -> None:
        """Add running time of jobs; the same job, pool, market and month are summed."""
        with self._database.writing(durable=False) as connection:
            for w in works:
                connection.execute(
                    "INSERT INTO work (uid, job, pool, market, month, seconds) VALUES (?,?,?,?,?,?)"
                    " ON CONFLICT (uid, pool, market, month) DO UPDATE"
                    " SET seconds = work.seconds + excluded.seconds, job = excluded.job",
                    (w.uid, w.job, w.pool, w.market, w.month, w.seconds),
                )

    def work(self) -> list[Work]:
        """All running time, by job, pool, market and month."""
        rows = self._database.rows(
            "SELECT uid, job, pool, market, month, seconds FROM work ORDER BY job, uid, pool, market, month"
        )
        return [Work(*row) for row in rows]

    def add_word(self, word: Word) -> None:
        """Keep the operator's typed word."""
        with self._database.writing() as connection:
            connection.execute("INSERT INTO words (record) VALUES (?)", (pack(word.__dict__),))

    def words(self) -> list[Word]:
        """All typed words, oldest first."""
        rows: list[tuple[Any, ...]] = self._database.rows("SELECT record FROM words ORDER BY number")
        return [Word(**json.loads(row[0])) for row in rows]

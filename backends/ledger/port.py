"""What operations ask of a ledger; SQLite or PostgreSQL answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from backends.ledger.records import (
    Item,
    ItemState,
    JobCurrent,
    NodeSeen,
    Reclaim,
    Run,
    RunState,
    SaveMeasure,
    Step,
    Word,
    Work,
)
from backends.records.event import Event


class Journal(Protocol):
    """Durable operations: a record is on disk when the call returns."""

    def open_run(self, run: Run, items: Iterable[Item]) -> None:
        """Begin a run with all its items in one transaction."""
        ...

    def find_run(self, run: str) -> Run | None:
        """The run of this id, or None."""
        ...

    def runs(self, limit: int = 100) -> list[Run]:
        """The newest runs, newest first."""
        ...

    def items(self, run: str) -> list[Item]:
        """The items of a run in their order."""
        ...

    def find_item(self, run: str, item: str) -> Item | None:
        """One item as it is now, or None."""
        ...

    def intend(self, run: str, item: str, step: str, data: dict[str, Any], at: float) -> None:
        """Record what is about to be done."""
        ...

    def observe(self, run: str, item: str, step: str, data: dict[str, Any], at: float) -> None:
        """Record what came of it."""
        ...

    def steps(self, run: str, item: str) -> list[Step]:
        """All records of one item in their order."""
        ...

    def close_item(self, run: str, item: str, state: ItemState, reason: str, result: dict[str, Any]) -> None:
        """Set an item's state and result."""
        ...

    def close_run(self, run: str, state: RunState, detail: str, at: float) -> None:
        """Set a run's state."""
        ...


class Ledger(Journal, Protocol):
    """History and current state of one fleet."""

    def add_event(self, event: Event) -> bool:
        """Keep an event; False when one of this id is there already."""
        ...

    def events(
        self, *, limit: int = 500, after: int = 0, job: str | None = None, kinds: tuple[str, ...] = ()
    ) -> list[tuple[int, Event]]:
        """The newest `limit` events after number `after`, oldest first, with their numbers; of `kinds`, if given."""
        ...

    def put_job(self, job: JobCurrent) -> None:
        """Keep the current state of a job."""
        ...

    def jobs(self) -> dict[str, JobCurrent]:
        """Current states by uid."""
        ...

    def forget_job(self, uid: str) -> None:
        """Drop a job's current state; its history stays."""
        ...

    def put_node(self, node: NodeSeen) -> None:
        """Keep a node's last answer."""
        ...

    def nodes(self) -> dict[str, NodeSeen]:
        """Last answers by node name."""
        ...

    def put_reclaim(self, reclaim: Reclaim) -> None:
        """Keep a reclaim; the same key replaces its earlier record."""
        ...

    def reclaims(self) -> list[Reclaim]:
        """All reclaims, oldest first."""
        ...

    def add_save(self, save: SaveMeasure) -> None:
        """Keep one save's measures; repeating one changes nothing."""
        ...

    def saves(self, uid: str) -> list[SaveMeasure]:
        """A job's measured saves, oldest first."""
        ...

    def add_observed(self, node: str, pool: str, seconds: float) -> None:
        """Add observed running time of a node."""
        ...

    def observed_hours(self) -> dict[str, float]:
        """Observed node-hours by pool."""
        ...

    def add_work(self, works: Iterable[Work]) -> None:
        """Add running time of jobs; the same job, pool, market and month are summed."""
        ...

    def work(self) -> list[Work]:
        """All running time, by job, pool, market and month."""
        ...

    def add_word(self, word: Word) -> None:
        """Keep the operator's typed word."""
        ...

    def words(self) -> list[Word]:
        """All typed words, oldest first."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...

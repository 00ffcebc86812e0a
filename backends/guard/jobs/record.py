"""The desired state of one job on this node: a versioned file that survives the guard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from backends.engines.port import Process
from backends.errors import DamagedError, ReprieveError
from backends.guard.decide.model import Mind
from backends.guard.disk import durable
from backends.guard.disk.layout import Layout
from backends.records.grant import Grant
from backends.records.job import Job
from backends.records.strict import read, to_document
from backends.store.fileops import RealOps
from backends.store.format.table import drop_table

FORMAT: Literal[1] = 1


@dataclass(frozen=True)
class Pending:
    """A save on its way to the store: what it would count as, should the guard die before it can say so."""

    frozen_at: float  # boot clock
    frozen_wall: float
    freeze_s: float
    size_bytes: int
    after: str | None  # the newest durable checkpoint before it


@dataclass(frozen=True)
class Acknowledged:
    """The guard's word that it ended this epoch's process itself: a confirmed stop."""

    guard: str
    epoch: int
    time: str  # RFC 3339 by the node's wall clock


@dataclass(frozen=True)
class JobRecord:
    """Everything about one job that must survive a crash of the guard; the grant is kept apart, in `keys/`."""

    job: Job
    engine: str
    mind: Mind
    boot_id: str
    process: Process | None = None
    started_at: str | None = None  # RFC 3339
    launched: bool = False  # started by this guard, so its log is ours
    pending: Pending | None = None
    stopped: Acknowledged | None = None
    error: str | None = None  # last failure, one line
    format: Literal[1] = FORMAT


def save_record(layout: Layout, record: JobRecord) -> None:
    """Write the record durably."""
    durable.write(layout.desired / f"{record.job.uid}.json", to_document(record))


def save_grant(layout: Layout, uid: str, grant: Grant) -> None:
    """Write a job's grant durably, readable by the owner only."""
    durable.write(layout.keys / f"{uid}.json", to_document(grant))


def drop(layout: Layout, uid: str) -> None:
    """Forget a job: its record first, then its key and page table."""
    durable.remove(layout.desired / f"{uid}.json")
    durable.remove(layout.keys / f"{uid}.json")
    drop_table(RealOps(layout.pages), uid)


def leased(layout: Layout, boot_id: str) -> list[JobRecord]:
    """The running jobs of this boot that have promised to stand still; what cannot be read is left out."""
    found = []
    for path in sorted(layout.desired.glob("*.json")):
        try:
            record = read(JobRecord, durable.read(path), what=str(path))
        except ReprieveError:
            continue
        if record.mind.lease is not None and record.mind.phase == "running" and record.boot_id == boot_id:
            found.append(record)
    return found


def load(layout: Layout) -> list[tuple[JobRecord, Grant]]:
    """All jobs this node has.

    Raises:
        DamagedError: a record or grant cannot be understood; the guard stops and says so, it never starts over it.
    """
    found = []
    for path in sorted(layout.desired.glob("*.json")):
        record = read(JobRecord, durable.read(path), what=str(path))
        key = layout.keys / path.name
        grant = durable.read(key)
        if grant is None:
            raise DamagedError(f"{key} is missing although {path} needs it; protect the job again")
        found.append((record, read(Grant, grant, what=str(key))))
    return found

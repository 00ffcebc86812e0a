"""Bringing a job back on this node, and rehearsing it without an epoch."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from backends.clock import format_utc
from backends.engines.port import Engine, Process, RestoreRequest
from backends.errors import EngineError, FullError, UsageError
from backends.guard.decide.model import Costs, Mind
from backends.guard.disk.requests import Task
from backends.guard.jobs import ahead
from backends.guard.jobs.beginning import hear, mark_started, marks, nothing_left, policy_of
from backends.guard.jobs.book import Book
from backends.guard.jobs.record import JobRecord
from backends.guard.jobs.tools import Tools, trouble
from backends.guard.jobs.unit import JobUnit
from backends.guard.vault import Fetched
from backends.ids import CheckpointId
from backends.records.grant import Grant
from backends.records.job import Job

DEADLINE_S = 900.0  # of one engine run


@dataclass(frozen=True)
class Order:
    """A restore or rehearsal as the console asks for it."""

    job: Job
    grant: Grant
    checkpoint: str

    def check(self) -> None:
        """Raise UsageError unless the order makes sense in itself."""
        CheckpointId.parse(self.checkpoint)
        if not self.job.uid:
            raise UsageError(f"job {self.job.name} has no uid; nothing of it can be fetched")


def restore(book: Book, order: Order, task: Task) -> dict[str, Any]:
    """Fetch, bring back, prove alive, take under guard; the first new save follows at once.

    A failure leaves nothing behind and says why; once its engine has been run that is a promise, kept by
    `nothing_left`, that the epoch never starts here.
    """
    tools, job, grant = book.tools, order.job, order.grant
    order.check()
    here = book.running(job, grant.epoch)
    if here is not None and here.mind.restored_from == order.checkpoint:
        return _outcome(here, None, here.mind.costs.restore_s, None)
    with book.arriving(job):
        unit = _admit(book, order, task)
    now = unit.mind.began_at
    directory = restore_directory(tools, job, grant)
    marked = False
    try:
        directory.mkdir(mode=0o700)
        task.note(step="fetch")
        vault = tools.open_vault(job, grant)
        fetched = vault.fetch(order.checkpoint, directory, ahead.directory(tools, job.uid))
        elsewhere = vault.maker(order.checkpoint) not in (None, tools.identity.guard)
        fetch_s = tools.clock.monotonic() - now
        engine = engine_of(tools, fetched)
        task.note(step="engine", fetch_s=fetch_s)
        mark_started(tools, job, grant)
        marked = True
        resumed_at = tools.clock.monotonic()
        process = engine.restore(_request(tools, order, fetched, directory, None))
    except Exception as error:  # noqa: BLE001 - every failure becomes an answer that says why
        failure = trouble(error)
        if marked:
            nothing_left(tools, job.uid, grant.epoch)
        book.forget(job.name)
        tools.spool.add("restore.failed", f"the restore failed: {failure.message}", job.name)
        return {"state": "failed", "step": task.noted.get("step"), "error": failure.message}
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        ahead.drop(tools, job.uid)
    ended_at = tools.clock.monotonic()
    costs = Costs(restore_s=ended_at - now)
    unit.engine = engine
    unit.change(
        lambda old: replace(
            old,
            engine=engine.name,
            process=process,
            started_at=format_utc(tools.clock.wall() - (ended_at - resumed_at)),
            mind=replace(
                old.mind,
                phase="running",
                began_at=resumed_at,
                contact_at=ended_at,
                costs=costs,
                rehearsed=elsewhere,
            ),
        )
    )
    outcome = _outcome(unit, fetch_s, ended_at - now, ended_at - resumed_at, fetched)
    text = f"checkpoint {order.checkpoint} runs again as process {process.pid}"
    tools.spool.add("restore.done", text, job.name, {**outcome, "checkpoint": order.checkpoint})
    return outcome


def _admit(book: Book, order: Order, task: Task) -> JobUnit:
    """The unit of a restore that may begin; raises before anything has changed when it may not."""
    tools, job, grant = book.tools, order.job, order.grant
    vault = tools.open_vault(job, grant)
    vault.may_start(grant.epoch, tools.identity.guard, grant.nonce, order.checkpoint)
    if (tools.layout.started / f"{job.uid}.{grant.epoch}").exists():
        mark_started(tools, job, grant)  # raises: this epoch has been here before
    task.begin()
    hear(tools, grant)
    now = tools.clock.monotonic()
    mind = Mind(
        epoch=grant.epoch,
        began_at=now,
        contact_at=now,
        policy=policy_of(job),
        phase="restoring",
        restored_from=order.checkpoint,
    )
    record = JobRecord(job, next(iter(tools.engines)), mind, tools.boot_id)
    unit = book.open(record, grant)
    tools.spool.add("restore.started", f"restore of checkpoint {order.checkpoint} begins", job.name)
    return unit


def _outcome(
    unit: JobUnit,
    fetch_s: float | None,
    restore_s: float | None,
    engine_s: float | None,
    fetched: Fetched | None = None,
) -> dict[str, Any]:
    """The answer for a job that is back; what an earlier guard measured and took with it is None."""
    process = unit.process
    return {
        "state": "restored",
        "step": "running",
        "pid": None if process is None else process.pid,
        "error": None,
        "restore_s": restore_s,
        "fetch_s": fetch_s,
        "engine_s": engine_s,
        "ahead_bytes": None if fetched is None else fetched.ahead_bytes,
        "moved_bytes": None if fetched is None else fetched.moved_bytes,
    }


def rehearse(tools: Tools, order: Order, task: Task) -> dict[str, Any]:
    """Restore on scratch copies without an epoch, prove alive, kill, clean up; never commits."""
    order.check()
    vault = tools.open_vault(order.job, order.grant)
    task.begin()
    began_at = tools.clock.monotonic()
    directory = _directory(tools, f"{order.job.uid}.rehearsal.")
    try:
        task.note(step="fetch")
        fetched = vault.fetch(order.checkpoint, directory)
        engine = engine_of(tools, fetched)
        task.note(step="engine")
        scratch = directory / "scratch"
        scratch.mkdir(mode=0o700)
        process = engine.restore(_request(tools, order, fetched, directory, scratch))
        seconds = tools.clock.monotonic() - began_at
        _end(engine, process)
    except Exception as error:  # noqa: BLE001 - every failure becomes an answer that says why
        failure = trouble(error)
        tools.spool.add("rehearsal.failed", f"the rehearsal failed: {failure.message}", order.job.name)
        return {"state": "failed", "seconds": tools.clock.monotonic() - began_at, "error": failure.message}
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    text = f"checkpoint {order.checkpoint} ran on this node after {seconds:.1f} s"
    data = {"checkpoint": order.checkpoint, "seconds": seconds}
    tools.spool.add("rehearsal.done", text, order.job.name, data)
    return {"state": "rehearsed", "seconds": seconds, "error": None}


def restore_directory(tools: Tools, job: Job, grant: Grant) -> Path:
    """Where a restore works; its name marks every process that the restore makes."""
    return tools.layout.staging / f"{job.uid}.{grant.epoch}.restore"


def _directory(tools: Tools, prefix: str) -> Path:
    try:
        return Path(mkdtemp(prefix=prefix, dir=tools.layout.staging))
    except OSError as error:
        raise FullError(f"{tools.layout.staging} takes no new directory: {error.strerror}") from None


def engine_of(tools: Tools, fetched: Fetched) -> Engine:
    """The engine that made a checkpoint; EngineError when this node lacks it."""
    engine = tools.engines.get(fetched.engine)
    if engine is None:
        raise EngineError(
            f"the checkpoint was made by engine {fetched.engine!r}, which this node does not have"
        )
    return engine


def _request(
    tools: Tools, order: Order, fetched: Fetched, directory: Path, scratch: Path | None
) -> RestoreRequest:
    aside = directory / "aside"
    if scratch is None:
        aside = tools.layout.run / "aside" / f"{order.job.uid}.{order.grant.epoch}"
    aside.mkdir(parents=True, exist_ok=True, mode=0o700)
    return RestoreRequest(
        job=replace(order.job, environment={**order.job.environment, **marks(order.job, order.grant.epoch)}),
        directory=directory,
        files=fetched.files,
        details=fetched.details,
        deadline_s=DEADLINE_S,
        aside=aside,
        scratch=scratch,
    )


def _end(engine: Engine, process: Process) -> None:
    engine.end(process)

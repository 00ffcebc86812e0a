"""How a job comes under this guard: attached to a running process, or started from its command."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from backends.clean import clean
from backends.clock import format_utc
from backends.engines.port import Engine, HoldsContainers, Process, process_of, start_ticks
from backends.environment import without_credentials
from backends.errors import EngineError, FencedError, FullError, UsageError
from backends.guard.decide.model import Mind, Policy
from backends.guard.disk import durable
from backends.guard.disk.requests import Task
from backends.guard.engines import choose
from backends.guard.jobs.book import Book
from backends.guard.jobs.progress import log_path
from backends.guard.jobs.record import JobRecord
from backends.guard.jobs.tools import Tools
from backends.guard.jobs.unit import JobUnit
from backends.records.grant import Grant
from backends.records.job import Job
from backends.store.prices import list_price

# Slurm announces a kill by SIGTERM to every process of the job: one that means to live until it is saved ignores it. A
# program with a handler of its own still gets it.
_DEAF = ("/bin/sh", "-c", "trap '' TERM; exec \"$@\"", "sh")
SETTLE_S = 1.0  # a started process gets this long before its trial save


def policy_of(job: Job) -> Policy:
    """The part of a job's record that decisions depend on."""
    return Policy(
        interval_s=job.interval_s,
        max_overhead=job.max_overhead,
        on_isolated=job.on_isolated,
        lease_s=job.lease_s,
        paused=job.paused,
        own_save=job.marker is not None,
        max_freeze_s=job.max_freeze_s,
        max_store_usd_per_day=job.max_store_usd_per_day,
        price=list_price(job.store),
        keep_last=job.keep_last,
        min_age_s=job.min_age_s,
    )


def hear(tools: Tools, grant: Grant) -> None:
    """Take in the controller's time."""
    if tools.controller is not None:
        tools.controller.hear(grant.sent_at, grant.heard_at)


def mark_started(tools: Tools, job: Job, grant: Grant) -> None:
    """Write down, synced, that this epoch is about to start here: it never starts twice.

    Raises:
        FencedError: it was started here before, or declined.
    """
    path = tools.layout.started / f"{job.uid}.{grant.epoch}"
    document = {"nonce": grant.nonce, "time": format_utc(tools.clock.wall()), "boot_id": tools.boot_id}
    if not durable.create(path, document):
        begun = "nonce" in (durable.read(path) or {})
        what = (
            "was started on this node before and never starts twice"
            if begun
            else "was declined by this node and never starts here"
        )
        raise FencedError(f"epoch {grant.epoch} of job {job.name} {what}; restore it under a new epoch")


def decline(book: Book, uid: str, epoch: int) -> bool:
    """Promise, synced, that this epoch never starts here; False when it was begun, or its restore is under way.

    Without the promise a call that broke off proves nothing: it may still arrive. A restore that is just about to begin
    loses against the promise in `mark_started`, before its engine is run.
    """
    tools = book.tools
    if any(unit.record.job.uid == uid and unit.record.mind.epoch >= epoch for unit in book.all()):
        return False
    path = tools.layout.started / f"{uid}.{epoch}"
    promise = {"declined": True, "time": format_utc(tools.clock.wall()), "boot_id": tools.boot_id}
    if durable.create(path, promise):
        return True
    before = durable.read(path) or {}
    # What an earlier boot of this node began is gone with it.
    return before.get("declined") is True or before.get("boot_id", tools.boot_id) != tools.boot_id


def nothing_left(tools: Tools, uid: str, epoch: int) -> None:
    """Turn the mark of a begin that left no process into the promise of `decline`; without a mark nothing is promised.

    A full disk keeps the mark as it is.
    """
    path = tools.layout.started / f"{uid}.{epoch}"
    with contextlib.suppress(FullError):
        before = durable.read(path)
        if before is not None:
            durable.write(path, {**before, "declined": True})


def attached_process(job: Job, engines: Mapping[str, Engine]) -> Process:
    """The process a job attaches to, pinned by its start time; for a container the first one in it.

    Raises:
        UsageError: it is not there, or the job attaches to something this version cannot find.
    """
    attach = job.attach
    if attach is None:
        raise UsageError(f"job {job.name} names no running process to attach to")
    if attach.pid is not None:
        pid = attach.pid
    elif attach.pid_file is not None:
        pid = _pid_from(attach.pid_file)
    elif attach.container is not None:
        pid = _pid_in(attach.container, job, engines)
    else:
        raise UsageError(
            f"job {job.name}: attaching to Slurm jobs comes with a later version: give its --pid"
        )
    found = process_of(pid)
    if found is None:
        raise UsageError(f"job {job.name}: there is no process {pid} on this node")
    return found


def _pid_in(container: str, job: Job, engines: Mapping[str, Engine]) -> int:
    """The first process of a container that one of the runtimes here knows."""
    runtimes = {name: each for name, each in engines.items() if isinstance(each, HoldsContainers)}
    for each in runtimes.values():
        pid = each.first_pid(container)
        if pid is not None:
            return pid
    asked = ", ".join(runtimes) or "none is on this node with CRIU"
    raise UsageError(f"job {job.name}: no runtime here has a living container {clean(container)} ({asked})")


def _pid_from(path: str) -> int:
    try:
        return int(Path(path).read_text()[:32].strip())
    except (OSError, ValueError):
        raise UsageError(f"pid file {clean(path)} does not hold a process number") from None


def born_at(process: Process, now: float) -> float:
    """Boot-clock instant at which a process began; `now` where the kernel's answer makes no sense."""
    at = process.start_ticks / os.sysconf("SC_CLK_TCK")
    return at if 0 <= at <= now else now


def protect(book: Book, job: Job, grant: Grant, task: Task) -> JobUnit:
    """Take a running process under guard; its trial save starts at once."""
    tools = book.tools
    here = book.running(job, grant.epoch)
    if here is not None:
        return here
    with book.arriving(job):
        process = attached_process(job, tools.engines)
        engine = choose(job, process, tools.engines)
        tools.open_vault(job, grant).may_start(grant.epoch, tools.identity.guard, grant.nonce, None)
        task.begin()
        hear(tools, grant)
        mark_started(tools, job, grant)
        now = tools.clock.monotonic()
        began_at = born_at(process, now)
        mind = Mind(epoch=grant.epoch, began_at=began_at, contact_at=now, policy=policy_of(job))
        started_at = format_utc(tools.clock.wall() - (now - began_at))
        record = JobRecord(job, engine.name, mind, tools.boot_id, process, started_at)
        unit = book.open(record, grant)
    tools.spool.add("job.protected", f"process {process.pid} is under guard", job.name, {"pid": process.pid})
    return unit


def start(book: Book, job: Job, grant: Grant, task: Task) -> JobUnit:
    """Start a job's command in a session of its own and take it under guard."""
    tools = book.tools
    here = book.running(job, grant.epoch)
    if here is not None:
        return here
    with book.arriving(job):
        if not job.command:
            raise UsageError(f"job {job.name} has no command to start")
        engine = choose(job, None, tools.engines)
        tools.open_vault(job, grant).may_start(grant.epoch, tools.identity.guard, grant.nonce, None)
        task.begin()
        hear(tools, grant)
        mark_started(tools, job, grant)
        now = tools.clock.monotonic()
        mind = Mind(
            epoch=grant.epoch,
            began_at=now,
            contact_at=now,
            policy=policy_of(job),
            phase="restoring",
            first_delay_s=SETTLE_S,
        )
        record = JobRecord(
            job, engine.name, mind, tools.boot_id, None, format_utc(tools.clock.wall()), launched=True
        )
        unit = book.open(record, grant)
    try:
        child, process = _launch(tools, job, grant.epoch)
    except EngineError:
        book.forget(job.name)
        raise
    book.children[job.uid] = child
    unit.change(lambda old: replace(old, process=process, mind=replace(old.mind, phase="running")))
    tools.spool.add("job.started", f"started as process {process.pid}", job.name, {"pid": process.pid})
    return unit


def marks(job: Job, epoch: int) -> dict[str, str]:
    """What tells a started process's environment which job and epoch it is."""
    return {"REPRIEVE_JOB": job.name, "REPRIEVE_UID": job.uid, "REPRIEVE_EPOCH": str(epoch)}


def _environment(job: Job, epoch: int) -> dict[str, str]:
    """The guard's environment without what was set for the guard alone, the job's own, and the marks."""
    own = (
        "PYTHONPATH", "PYTHONNOUSERSITE", "PYTHONSAFEPATH", "REPRIEVE_NODE_ROOT", "REPRIEVE_METADATA_URL",
        "REPRIEVE_SUPERVISOR",
    )  # fmt: skip
    inherited = {name: value for name, value in without_credentials(os.environ).items() if name not in own}
    return {**inherited, **job.environment, **marks(job, epoch)}


def _launch(tools: Tools, job: Job, epoch: int) -> tuple[subprocess.Popen[bytes], Process]:
    path = log_path(tools.layout, job.uid)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    argv = (*_DEAF, *job.command) if os.environ.get("SLURM_JOB_ID") else job.command
    try:
        child = subprocess.Popen(
            list(argv),
            cwd=job.cwd,
            env=_environment(job, epoch),
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=handle,
            start_new_session=True,
            close_fds=True,
        )
    except OSError as error:
        what = clean(error.filename or job.command[0])
        raise EngineError(f"job {job.name} cannot be started: {what}: {error.strerror}") from None
    finally:
        os.close(handle)
    ticks = start_ticks(child.pid)
    if ticks is None:
        code = child.wait()
        raise EngineError(f"job {job.name} ended at once with status {code}; its output is in {path}")
    return child, Process(child.pid, ticks)

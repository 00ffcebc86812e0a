"""What a guard does when it starts: take up its jobs again, thaw what it froze for a save, clear what was half done."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

from backends.engines.port import alive
from backends.errors import ReprieveError
from backends.guard.decide.job import ENDED
from backends.guard.decide.lease import ends_at
from backends.guard.decide.model import Durable, Mind, Recovered
from backends.guard.disk import durable
from backends.guard.jobs.beginning import nothing_left
from backends.guard.jobs.book import Book
from backends.guard.jobs.leftovers import by_argument, by_environment, kill
from backends.guard.jobs.record import JobRecord, Pending, drop, load
from backends.guard.jobs.tools import Tools, trouble
from backends.guard.jobs.unit import JobUnit
from backends.records.grant import Grant

RECOVER_TRIES = 5
RECOVER_WAIT_S = 2.0


def recover(book: Book) -> None:
    """Adopt every job on record.

    Raises:
        DamagedError: a record cannot be understood; nothing is started over it.
    """
    tools = book.tools
    contacts = _contacts(tools)
    for record, grant in load(tools.layout):
        uid = record.job.uid
        if record.mind.phase == "restoring":
            _half_begun(book, record, grant)
        elif record.boot_id != tools.boot_id:
            tools.freezes.leave(uid)
            book.adopt(_after_reboot(tools, record), grant)
        else:
            _take_up(book, record, grant, contacts.get(uid))
    for left in tools.layout.staging.iterdir():
        shutil.rmtree(left, ignore_errors=True)


def _contacts(tools: Tools) -> dict[str, float]:
    """When each job's store last answered, from the heartbeat of this boot."""
    try:
        heartbeat = durable.read(tools.layout.heartbeat)
    except ReprieveError:
        return {}
    if heartbeat is None or heartbeat.get("boot_id") != tools.boot_id:
        return {}
    contacts = heartbeat.get("contacts")
    return {str(uid): float(at) for uid, at in contacts.items()} if isinstance(contacts, dict) else {}


def _take_up(book: Book, record: JobRecord, grant: Grant, contact_at: float | None) -> None:
    """A job of this boot: its process is looked for by the service; what was frozen for a save is thawed."""
    tools, mind = book.tools, record.mind
    if mind.phase in ENDED:
        book.adopt(record, grant)
        return
    now = tools.clock.monotonic()
    pending = record.pending
    mind = replace(
        mind,
        asked=False,
        saving_since=now if pending is not None else None,
        contact_at=max(mind.contact_at, contact_at or mind.contact_at),
    )
    ends = ends_at(mind)
    if ends is not None and now > ends and mind.frozen is None:
        mind = replace(
            mind, frozen="isolated"
        )  # nobody kept its promise meanwhile: it must not run for a moment more
        text = "its lease ran out while the guard was down: frozen until the store has been heard"
        tools.spool.add("job.isolated", text, record.job.name)
    unit = book.adopt(replace(record, mind=mind), grant)
    _set_right(unit)
    if pending is not None:
        unit.do(lambda: _count_pending(unit, pending))
    tools.spool.add("job.adopted", "the guard was restarted and has taken the job up again", record.job.name)


def _set_right(unit: JobUnit) -> None:
    """Frozen as a zombie or isolated: so it stays. Else it runs, whatever the dead guard was doing to it."""
    process, frozen = unit.process, unit.mind.frozen
    if process is None or not alive(process):
        return
    if frozen is not None:
        unit.enter_freeze(process, frozen)
        unit.engine.freeze(process)
    else:
        unit.engine.thaw(process)
        unit.tools.freezes.leave(unit.record.job.uid)


def _count_pending(unit: JobUnit, pending: Pending) -> None:
    """Ask the store whether the save that was on its way counts."""
    checkpoint = None
    for _ in range(RECOVER_TRIES):
        try:
            checkpoint = unit.vault.recover(unit.mind.epoch, pending.after)
            break
        except Exception as error:  # noqa: BLE001 - without an answer the save does not count, which is safe
            unit.silence = trouble(error).message
            unit.tools.clock.sleep(RECOVER_WAIT_S)
    found = None
    if checkpoint is not None:
        found = Durable(
            checkpoint=checkpoint,
            frozen_at=pending.frozen_at,
            frozen_wall=pending.frozen_wall,
            freeze_s=pending.freeze_s,
            size_bytes=pending.size_bytes,
            upload_s=0.0,
        )
    unit.take(Recovered(found))
    unit.change(lambda record: replace(record, pending=None))


def _half_begun(book: Book, record: JobRecord, grant: Grant) -> None:
    """A start or restore that the crash cut: adopt what a start left running, else leave nothing."""
    tools, job, mind = book.tools, record.job, record.mind
    if record.launched and record.boot_id == tools.boot_id:
        found = by_environment(job.uid, mind.epoch)
        if found:
            mind = replace(mind, phase="running")
            book.adopt(replace(record, process=found[0], mind=mind), grant)
            return
    # Engines keep each incarnation's init under run/engines/<job>.<number>/ and no other process of this job may live.
    kill(by_argument(rf"{re.escape(str(tools.layout.engines))}/{re.escape(job.name)}\.[0-9]+/init\.json"))
    kill([process.pid for process in by_environment(job.uid, mind.epoch)])
    nothing_left(tools, job.uid, mind.epoch)
    drop(tools.layout, job.uid)
    text = "the guard was restarted while the job was being brought up; nothing of it was left running"
    tools.spool.add("restore.failed", text, job.name)


def _after_reboot(tools: Tools, record: JobRecord) -> JobRecord:
    """The node was restarted: no process of before lives, and boot-clock instants are re-dated by the wall clock."""
    mind = record.mind
    if mind.phase in ENDED:
        return replace(record, boot_id=tools.boot_id)
    done_file = record.job.done_file
    done = done_file is not None and Path(done_file).exists()
    now, wall = tools.clock.monotonic(), tools.clock.wall()
    saved = mind.durable
    if saved is not None:
        saved = replace(saved, frozen_at=now - max(0.0, wall - saved.frozen_wall))
    mind = Mind(
        epoch=mind.epoch,
        began_at=now,
        contact_at=now,
        policy=mind.policy,
        phase="finished" if done else "ended_unknown",
        restored_from=mind.restored_from,
        rehearsed=mind.rehearsed,
        durable=saved,
        lease=mind.lease and replace(mind.lease, renewed_at=now),  # of this epoch, to be withdrawn
        rebooted=not done,
    )
    text = "the node was restarted (its boot id changed): the process is gone"
    data = {"boot_id_before": record.boot_id, "boot_id": tools.boot_id}
    tools.spool.add(f"job.{mind.phase}", text, record.job.name, data)
    error = record.error if done else text
    return replace(record, mind=mind, boot_id=tools.boot_id, process=None, pending=None, error=error)

"""One save: freeze and dump on the engine thread, then pack, upload and read back on a thread of its own."""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp

from backends.engines.port import Saved, SaveRequest
from backends.errors import EngineError, FencedError, FullError, ReprieveError
from backends.guard.decide.model import Durable, SaveDone, SaveFailed
from backends.guard.jobs.held import Held
from backends.guard.jobs.holding import as_held, freeze_at, stay
from backends.guard.jobs.record import JobRecord, Pending
from backends.guard.jobs.tools import trouble
from backends.guard.jobs.unit import JobUnit
from backends.guard.vault import Shipment

SETTLE_S = 30.0  # a job that was just started may need this long until an engine can save it
SETTLE_STEP_S = 0.5


@dataclass(frozen=True)
class _Flight:
    """One save under way."""

    number: int
    begun_at: float
    directory: Path


def save(unit: JobUnit, number: int) -> None:
    """Run save `number` of a job: the dump here, the rest on a new thread; every ending reaches `unit.take`."""
    tools = unit.tools
    flight = None
    try:
        _settle(unit)
        begun_at = tools.clock.monotonic()
        flight = _Flight(number, begun_at, _staging(unit))
        saved = _dump(unit, flight)
    except Exception as error:  # noqa: BLE001 - whatever breaks, the job runs on and the save is over
        _give_up(unit, flight, trouble(error))
        return
    pending = Pending(
        frozen_at=saved.frozen_at_monotonic,
        frozen_wall=saved.frozen_at,
        freeze_s=saved.frozen_s,
        size_bytes=saved.size_bytes,
        after=unit.mind.durable.checkpoint if unit.mind.durable else None,
    )
    ship = threading.Thread(
        target=_ship, args=(unit, flight, saved, pending), name=f"ship-{unit.record.job.name}", daemon=True
    )
    ship.start()


def _settle(unit: JobUnit) -> None:
    """Before a job's first save: wait until the engine says it can (a fresh process is still setting itself up).

    Raises:
        EngineError: it says no for longer than a fresh process may need.
    """
    mind, clock = unit.mind, unit.tools.clock
    process = unit.process
    if mind.durable is not None or mind.restored_from is not None or process is None:
        return
    while True:
        if mind.frozen is not None or unit.mind.frozen is not None:
            raise FencedError(f"job {unit.record.job.name} is to stand still: nothing is saved now")
        verdict = unit.engine.examine(unit.record.job, process)
        if verdict.answer in ("ok", "self_save_only"):
            return
        age_s = clock.monotonic() - mind.began_at
        if not unit.record.launched or age_s > SETTLE_S or unit.closed or unit.ended:
            raise EngineError("; ".join(verdict.reasons) or f"the engine says {verdict.answer}")
        clock.sleep(SETTLE_STEP_S)


def _staging(unit: JobUnit) -> Path:
    layout, record = unit.tools.layout, unit.record
    try:
        return Path(mkdtemp(prefix=f"{record.job.uid}.{record.mind.epoch}.", dir=layout.staging))
    except OSError as error:
        raise FullError(f"{layout.staging} takes no new directory: {error.strerror}") from None


def _dump(unit: JobUnit, flight: _Flight) -> Saved:
    record, tools = unit.record, unit.tools
    process = record.process
    if process is None:
        raise EngineError(f"job {record.job.name} has no process")
    request = SaveRequest(
        job=record.job,
        process=process,
        directory=flight.directory,
        deadline_s=2 * record.job.max_freeze_s + 60.0,
        max_freeze_s=record.job.max_freeze_s,
    )
    if unit.held is not None and unit.held.number == flight.number:
        return _dump_held(unit, unit.held, request)
    hold = unit.hold_number == flight.number
    unit.enter_freeze(process, "stop" if hold else "save")
    try:
        saved = unit.engine.save(request, lambda: None)
        if hold:  # what runs on until it is ended would be lost work
            unit.engine.freeze(process)
    except BaseException:
        unit.engine.thaw(process)
        tools.freezes.leave(record.job.uid)
        raise
    if not hold:
        tools.freezes.leave(record.job.uid)
    return saved


def _dump_held(unit: JobUnit, held: Held, request: SaveRequest) -> Saved:
    """Its part of a group save: it stands still before the dump, and after it until the word comes."""
    try:
        freeze_at(unit, held, request.process)
        saved = unit.engine.save(request, lambda: None)
        stay(unit, held)
        return as_held(unit, held, saved)
    finally:
        if unit.mind.frozen is None:  # else it is to stand still for another reason by now
            unit.engine.thaw(request.process)
        unit.tools.freezes.leave(request.job.uid)


def _ship(unit: JobUnit, flight: _Flight, saved: Saved, pending: Pending) -> None:
    tools, record = unit.tools, unit.record
    try:
        unit.change(lambda old: replace(old, pending=pending))
        shipment = Shipment(
            record.job, record.engine, saved, flight.directory, record.process.pid if record.process else 0
        )
        receipt = unit.vault.ship(shipment, record.mind.epoch)
    except Exception as error:  # noqa: BLE001 - whatever breaks, the job runs on and the save is over
        _give_up(unit, flight, trouble(error))
        return
    ended_at = tools.clock.monotonic()
    durable = Durable(
        checkpoint=receipt.checkpoint,
        frozen_at=saved.frozen_at_monotonic,
        frozen_wall=saved.frozen_at,
        freeze_s=saved.frozen_s,
        size_bytes=receipt.size_bytes,
        upload_s=max(0.0, ended_at - saved.frozen_at_monotonic - saved.frozen_s),
        stored_bytes=receipt.stored_bytes,
        parent=receipt.parent,
    )
    _clear(flight)
    unit.take(SaveDone(durable, ended_at - flight.begun_at))
    unit.change(_not_pending)
    _consolidate(unit, receipt.checkpoint)


def _consolidate(unit: JobUnit, checkpoint: str) -> None:
    """In the background of the job's run: a full save where one is due. Whatever goes wrong costs nothing but that."""
    spool, name = unit.tools.spool, unit.record.job.name
    try:
        told = unit.vault.consolidate(checkpoint)
    except Exception as error:  # noqa: BLE001 - the save itself stands; the next one is a full one then
        spool.add("save.full", f"no full save of {checkpoint} was made: {trouble(error).message}", name)
        return
    if told is not None:
        spool.add("save.full", told, name)


def _give_up(unit: JobUnit, flight: _Flight | None, error: ReprieveError) -> None:
    """The save came to nothing: clean up, let the job run, say why."""
    _clear(flight)
    if flight is not None and unit.hold_number == flight.number:
        unit.do(lambda: _release(unit))
    behind = isinstance(error, FencedError)
    unit.take(SaveFailed(error.message, engine=isinstance(error, EngineError), behind=behind))
    unit.change(_not_pending)
    if behind:
        unit.look_now.set()


def _release(unit: JobUnit) -> None:
    process = unit.process
    if process is not None and unit.mind.frozen is None:
        unit.engine.thaw(process)
        unit.tools.freezes.leave(unit.record.job.uid)


def _not_pending(record: JobRecord) -> JobRecord:
    return replace(record, pending=None)


def _clear(flight: _Flight | None) -> None:
    if flight is not None:
        shutil.rmtree(flight.directory, ignore_errors=True)

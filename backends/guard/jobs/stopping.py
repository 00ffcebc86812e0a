"""Saving on request, and ending a job with a confirmed stop."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from backends.clock import format_utc
from backends.engines.port import alive
from backends.errors import EngineError, FencedError, StillRunningError, UnreachableError, UsageError
from backends.guard.decide.model import Stopped
from backends.guard.disk.requests import Task
from backends.guard.jobs.record import Acknowledged
from backends.guard.jobs.unit import JobUnit, SaveOutcome
from backends.guard.jobs.watching import look
from backends.records.strict import to_document

SAVE_LIMIT_S = 6 * 3600.0  # the longest a save on request is waited for
END_LIMIT_S = 120.0


def check_can_save(unit: JobUnit) -> None:
    """Raise unless a save of this job could count."""
    name, mind = unit.record.job.name, unit.mind
    if mind.phase != "running":
        raise UsageError(f"job {name} is {mind.phase}: there is nothing to save")
    if mind.behind is not None:
        raise FencedError(f"job {name} is behind epoch {mind.behind}: nothing it saves would count")
    if mind.frozen is not None:
        raise UsageError(f"job {name} is frozen ({mind.frozen}); it cannot be saved now")


def save_now(unit: JobUnit, task: Task, *, full: bool = False) -> dict[str, Any]:
    """A save that freezes after now, one that needs no older one if it is to be `full`; returns its outcome."""
    check_can_save(unit)
    task.begin()
    if full:
        unit.vault.start_over()
    return save_answer(unit.save_outcome(unit.ask_save(), SAVE_LIMIT_S))


def save_answer(outcome: SaveOutcome | None) -> dict[str, Any]:
    """How a save ended, as the verbs `save` and `release` say it."""
    if outcome is None or outcome.durable is None:
        error = "the save did not end in 6 hours" if outcome is None else outcome.error
        return {"state": "failed", "checkpoint": None, "error": error}
    done = outcome.durable
    return {
        "state": "saved",
        "checkpoint": done.checkpoint,
        "error": None,
        "freeze_s": done.freeze_s,
        "size_bytes": done.size_bytes,
        "upload_s": done.upload_s,
        "stored_bytes": done.stored_bytes,
        "parent": done.parent,
    }


def stop(unit: JobUnit, final_save: bool, task: Task) -> dict[str, Any]:
    """End a job, after a final save if one is asked for; nothing is ended when that save fails."""
    if unit.mind.phase == "restoring":
        raise StillRunningError(f"job {unit.record.job.name} is being brought back; stop it after that")
    if unit.ended:
        task.begin()
        return _acknowledge(unit)
    if final_save:
        check_can_save(unit)
    task.begin()
    if final_save:
        task.note(step="final save")
        with unit.changed:
            number = unit.ask_save()
            unit.hold_number = number
        outcome = unit.save_outcome(number, SAVE_LIMIT_S)
        if outcome is None or outcome.durable is None:
            unit.hold_number = None
            if not unit.ended:
                error = "the save did not end in 6 hours" if outcome is None else outcome.error
                return {"state": "failed", "checkpoint": None, "error": f"the final save failed: {error}"}
    task.note(step="ending")
    _end(unit)
    unit.take(Stopped())
    return _acknowledge(unit)


def end_zombie(unit: JobUnit, task: Task) -> dict[str, Any]:
    """End an older copy that stands still behind a newer epoch, and nothing else.

    Raises:
        UsageError: it is none, or a newer epoch took this very process up again.
        UnreachableError: the store cannot be asked whether one did.
    """
    if unit.ended:
        task.begin()
        return _acknowledge(unit)
    _check_zombie(unit)
    if not look(unit):
        raise UnreachableError(
            f"job {unit.record.job.name}: the store does not answer, so nobody knows whether a newer epoch goes on with "
            f"this very process ({unit.silence}); nothing was ended"
        )
    _check_zombie(unit)
    task.begin()
    task.note(step="ending")
    _end(unit, zombie=True)
    return _acknowledge(unit)


def _check_zombie(unit: JobUnit) -> None:
    mind = unit.mind
    if mind.phase != "running" or mind.frozen != "zombie" or mind.behind is None:
        raise UsageError(
            f"job {unit.record.job.name} is no zombie on this node (epoch {mind.epoch}, {unit.status().state}): "
            f"nothing was ended"
        )


def _end(unit: JobUnit, *, zombie: bool = False) -> None:
    """End the process on the engine thread and see that it is gone; a `zombie` only while it still is one."""
    process = unit.process
    if process is None:
        return
    ended = threading.Event()

    def work() -> None:
        try:
            if zombie:
                with (
                    unit.changed
                ):  # nothing is decided meanwhile: it cannot be taken up again between look and end
                    _check_zombie(unit)
                    unit.engine.end(process)
                    unit.take(Stopped())
            else:
                unit.engine.end(process)
        finally:
            if not zombie or unit.ended:
                unit.tools.freezes.leave(unit.record.job.uid)
            ended.set()

    unit.do(work)
    if not ended.wait(END_LIMIT_S) or alive(process):
        raise EngineError(f"process {process.pid} of job {unit.record.job.name} could not be ended")


def _acknowledge(unit: JobUnit) -> dict[str, Any]:
    tools = unit.tools
    stopped = unit.record.stopped
    if stopped is None:
        stopped = Acknowledged(tools.identity.guard, unit.mind.epoch, format_utc(tools.clock.wall()))
        acknowledged = stopped
        unit.change(lambda old: replace(old, stopped=acknowledged))
    durable = unit.mind.durable
    return {
        "state": "stopped",
        "checkpoint": durable.checkpoint if durable is not None else unit.mind.restored_from,
        "acknowledged": to_document(stopped),
        "error": None,
    }

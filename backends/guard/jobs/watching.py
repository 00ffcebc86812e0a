"""Reading the lineage of a job in the store, every few seconds, and what a process's end means."""

from __future__ import annotations

import subprocess
from pathlib import Path

from backends.engines.port import alive
from backends.errors import CredentialsError
from backends.guard.decide.lease import renew_in_s, wanted_s
from backends.guard.decide.model import Gone, LeaseBegun, LeaseKept, Rehearsed, Standing
from backends.guard.jobs.tools import trouble
from backends.guard.jobs.unit import JobUnit
from backends.guard.notices.shutdown import going_down

LOOK_EVERY_S = 5.0
SHORTEST_S = 1.0
REHEARSED_EVERY = 6  # looks between two looks for a rehearsal record


def watch(unit: JobUnit) -> None:
    """Read claims until the job ends or is closed; what cannot be read is silence, which has its own clock."""
    count = 0
    while not unit.closed and not unit.ended:
        renew(unit)
        look(unit)
        if count % REHEARSED_EVERY == 0 and not unit.mind.rehearsed:
            _look_for_rehearsal(unit)
        count += 1
        soon = renew_in_s(unit.mind, unit.tools.clock.monotonic())
        unit.look_now.wait(LOOK_EVERY_S if soon is None else min(LOOK_EVERY_S, max(soon, SHORTEST_S)))
        unit.look_now.clear()
    if not unit.closed:
        renew(unit)  # nothing runs any more: nobody is to read its end out of a lease that lapses


def renew(unit: JobUnit) -> None:
    """Renew, make or withdraw the lease when that is due; a failure is silence, and the lease runs out."""
    now, mind = unit.tools.clock.monotonic(), unit.mind
    wanted, first = None if unit.leaving else wanted_s(mind), mind.lease is None
    due = not first if unit.leaving else renew_in_s(mind, now) == 0.0
    if not due or mind.phase == "restoring":
        return
    unit.take(LeaseBegun(wanted, now))
    try:
        unit.vault.keep_lease(unit.mind.epoch, unit.tools.identity.guard, wanted)
    except CredentialsError as error:
        unit.silence = trouble(error).message
        if first:  # refused, so nobody can have read it: nothing is promised
            unit.take(LeaseKept(None, now))
        return
    except Exception as error:  # noqa: BLE001 - silence of the store must not end this thread
        unit.silence = trouble(error).message
        return
    unit.take(LeaseKept(wanted, now))


def look(unit: JobUnit) -> bool:
    """Read the lineage once and take it in; False when the store does not answer."""
    if unit.mind.phase != "running":
        return True
    mind = unit.mind
    asked_at = unit.tools.clock.monotonic()
    last = mind.durable.checkpoint if mind.durable is not None else mind.restored_from
    try:
        place = unit.vault.place(mind.epoch, unit.tools.identity.guard, last)
    except Exception as error:  # noqa: BLE001 - silence of the store must not end this thread
        unit.silence = trouble(error).message
        return False
    unit.silence = None
    unit.take(Standing(asked_at, max(place.newest, mind.epoch), place.returned, place.invalid))
    return True


def _look_for_rehearsal(unit: JobUnit) -> None:
    try:
        found = unit.vault.rehearsed()
    except Exception:  # noqa: BLE001 - asked again later; until then the job stays `unrehearsed`
        return
    if found:
        unit.take(Rehearsed())


def check_process(unit: JobUnit, child: subprocess.Popen[bytes] | None) -> None:
    """Tell the unit when its process is gone."""
    process, mind = unit.process, unit.mind
    if process is None or mind.phase != "running":
        return
    code = child.poll() if child is not None and child.pid == process.pid else None
    if code is None and alive(process):
        return
    if code is None:
        code = _exit_code(unit)
    ruled = unit.record.job.done_file is not None
    done = _done(unit, code)
    unit.take(Gone(done, code, shutdown=not (done and ruled) and going_down(), ruled=ruled))


def _exit_code(unit: JobUnit) -> int | None:
    """The exit code of a process that the engine brought back, where the engine saw it end."""
    outcome = getattr(unit.engine, "outcome", None)
    return outcome(unit.process) if callable(outcome) else None


def _done(unit: JobUnit, code: int | None) -> bool:
    done_file = unit.record.job.done_file
    if done_file is not None:
        return Path(done_file).exists()
    return code == 0

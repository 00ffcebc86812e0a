"""One job's part of a group save: frozen at the instant agreed, saved, and held until the word comes or the limit does."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from backends.engines.port import Process, Saved
from backends.errors import EngineError, ReprieveError, StillRunningError, UsageError
from backends.guard.decide import hold as decide
from backends.guard.decide.hold import new_hold
from backends.guard.disk.requests import Task
from backends.guard.jobs.held import Held
from backends.guard.jobs.stopping import SAVE_LIMIT_S, check_can_save, save_answer
from backends.guard.jobs.unit import JobUnit

GROUPED = ("criu", "fake")  # engines that save a tree which stands still already
MOST_AHEAD_S = 600.0  # an instant further ahead is a mistake
LEDGER_S = 0.25  # before the instant the freeze ledger is written: it is synced, which takes its time
LOOK_S = 0.2
WHY_NOT = {
    "signal": "it saves itself, at a moment of its own: let its program save all ranks together",
    "criu-cuda": "the driver must run the job's own threads to copy its GPU memory, so it cannot stand still first, and "
    "NCCL's connections between nodes do not come back: let its program save itself (engine signal)",
}


class DroppedError(ReprieveError):
    """The save of a group came to nothing; the engine did nothing wrong."""


def hold(unit: JobUnit, identity: str, at: float, hold_s: float, task: Task) -> dict[str, Any]:
    """Freeze at `at` (boot clock), save, stay; answers once the job is held, or is not going to be.

    Raises:
        UsageError: it cannot be part of a group. StillRunningError: a save is under way: ask again.
    """
    name, clock = unit.record.job.name, unit.tools.clock
    check_can_save(unit)
    engine = unit.engine.name
    if engine not in GROUPED:
        why = WHY_NOT.get(engine, f"engine {engine} saves no groups in this version")
        raise UsageError(f"job {name} cannot be saved with its group: {why}")
    if unit.mind.saving_since is not None:
        raise StillRunningError(f"job {name} is being saved; ask again after that")
    ahead_s = at - clock.monotonic()
    if not 0 < hold_s <= 86400 or ahead_s > MOST_AHEAD_S:
        raise UsageError(
            f"job {name}: an instant {ahead_s:.0f} s ahead, held for {hold_s:g} s, is not sensible"
        )
    task.begin()
    with unit.changed:
        number = unit.ask_save()
        held = unit.held = Held(new_hold(identity, at, hold_s, unit.record.job.max_freeze_s), number)
    give_up_at = at + held.hold.limit_s + 2 * unit.record.job.max_freeze_s
    while (now := held.hold).state in ("waiting", "frozen") and clock.monotonic() < give_up_at:
        outcome = unit.save_outcome(number, 0.0)
        if outcome is not None:  # it failed before it came to the freeze
            reason = outcome.error or "the save failed"
            held.change(functools.partial(decide.drop, reason=reason))
        else:
            held.wait(LOOK_S)
    good = now.state in ("held", "kept")
    return {
        "state": "held" if good else "failed",
        "froze": None if now.froze is None else list(now.froze),
        "late": now.late,
        "error": None if good else now.reason or "it was not saved in time",
    }


def release(unit: JobUnit, identity: str, keep: bool, task: Task) -> dict[str, Any]:
    """Let a held job go on: its save counts if `keep` and it was held until now; then as `save` answers.

    A hold that this guard does not know (it was restarted, or thawed it long ago) is over too.
    """
    held = unit.held
    if held is None or held.hold.identity != identity:
        return _dropped("its guard knows nothing of this group save any more: the job runs on")
    task.begin()
    now = held.change(lambda old: decide.word(old, keep=keep))
    outcome = unit.save_outcome(held.number, SAVE_LIMIT_S)
    if now.state != "kept":
        return _dropped(now.reason)
    return save_answer(outcome)


def _dropped(reason: str) -> dict[str, Any]:
    return {"state": "dropped", "checkpoint": None, "error": reason}


def freeze_at(unit: JobUnit, held: Held, process: Process) -> None:
    """Wait for the instant and freeze there.

    Raises:
        DroppedError: the instant had passed, or the group was given up before it came.
    """
    clock, at = unit.tools.clock, held.hold.at
    while not held.hold.over and (left := at - LEDGER_S - clock.monotonic()) > 0 and not unit.closed:
        held.wait(min(left, LOOK_S))
    _check(held)
    unit.enter_freeze(process, "save")
    clock.sleep(max(0.0, at - clock.monotonic()))
    began = clock.monotonic()
    held.change(lambda old: decide.may_freeze(old, began))
    _check(held)
    unit.engine.freeze(process)
    ended = clock.monotonic()
    held.change(lambda old: decide.frozen(old, began, ended))
    _check(held)


def stay(unit: JobUnit, held: Held) -> None:
    """The save is made: stand still until the word comes, or the limit does.

    Raises:
        DroppedError: it is not to be kept.
    """
    clock = unit.tools.clock
    now = held.change(lambda old: decide.saved(old, clock.monotonic()))
    while not now.over and not unit.closed:
        held.wait(min(now.left_s(clock.monotonic()), LOOK_S))
        now = held.change(lambda old: decide.tick(old, clock.monotonic()))
    if unit.closed:
        held.change(lambda old: decide.drop(old, "the job is not under guard any more"))
    _check(held)


def as_held(unit: JobUnit, held: Held, saved: Saved) -> Saved:
    """The save with the stand-still as it was: from the instant agreed to now."""
    froze = held.hold.froze
    if froze is None:
        raise EngineError("the job was never frozen")
    now = unit.tools.clock.monotonic()
    wall = saved.frozen_at - (saved.frozen_at_monotonic - froze[0])
    return replace(
        saved, frozen_at=wall, frozen_at_monotonic=froze[0], frozen_s=now - froze[0], dump_s=now - froze[0]
    )


def _check(held: Held) -> None:
    now = held.hold
    if now.state == "dropped":
        raise DroppedError(f"the save of its group came to nothing here: {now.reason}")

"""Saving a group: all members frozen at one instant, then all saved, then all run on; committed all or nothing.

A console that dies anywhere leaves no group save behind, and every guard lets its job run on by its own clock. Each
member's own checkpoint of that moment may be there; it is an ordinary one of that job.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from backends.errors import EngineError, ReprieveError, StillRunningError, UnreachableError
from backends.ids import new_nonce
from backends.records.group import GroupSave, Member
from backends.records.job import Job
from backends.records.node import Node
from console.operations.common.locate import home
from console.operations.common.runs import Notebook
from console.operations.common.waiting import until_done
from console.operations.decide.groups import Part, Reading, after_drop, after_hold, after_keep, lead_s, skew
from console.operations.fleet import Fleet
from console.operations.flows.group.clocks import read_clocks
from console.operations.flows.group.members import members
from console.operations.flows.save import OnStep, measured

IDLE_S = 600.0  # how long a member's own save under way is waited for
LOOK_S = 0.5
HOLD_S, HOLD_FOR = (
    10.0,
    4.0,
)  # how long a guard waits for the word: so much, and so many times the longest freeze known
UNKNOWN_S = 3600.0  # no freeze is known: the job's max_freeze is the limit, as it always is
DROP_S = 10.0


@dataclass(frozen=True)
class Place:
    """One member and where it runs."""

    job: Job
    node: Node


async def save_group(fleet: Fleet, group: str, run: str, on_step: OnStep) -> GroupSave:
    """Save all jobs of `group` at one instant and return the record that says so.

    Raises:
        UsageError: the group cannot be saved. StillRunningError: another reprieve here works on it.
        EngineError: it was not saved, and why; nothing counts as a group save, every member runs on.
    """
    jobs = members(fleet, group)
    with fleet.locks.only_runner(f"group.{group}", f"group {group}"):
        places = [Place(job, await home(fleet, job)) for job in jobs]
        book = Notebook(fleet, run, "1")
        for tries in range(100):
            hold_s = await _idle(fleet, places, on_step)
            held = await _hold(fleet, group, places, tries, hold_s, book, on_step)
            step = after_hold(held.parts)
            if step.name == "keep":
                return await _commit(fleet, group, places, held, book, on_step)
            await _drop(fleet, places, held, book)
            again = after_drop(held.parts, tries + 1)
            if again.name != "again":
                raise EngineError(
                    f"group {group} was not saved: {step.reason}; every job runs on, and older saves of it stand",
                )
            on_step(f"another instant is agreed: {again.reason}")
    raise AssertionError("after_drop gives up")


@dataclass(frozen=True)
class _Held:
    identity: str
    parts: tuple[Part, ...]


async def _idle(fleet: Fleet, places: list[Place], on_step: OnStep) -> float:
    """Wait until no member is in a save of its own; how long a guard may then wait for the word, seconds."""
    give_up_at, told = fleet.clock.monotonic() + IDLE_S, False
    while True:
        busy, freezes_s = [], []
        for place in places:
            _, status = await fleet.job_status(place.node, place.job.uid)
            if status is not None and status.saving:
                busy.append(place.job.name)
            saved = None if status is None else status.saved
            freezes_s.append(UNKNOWN_S if saved is None else saved.freeze_s)
        if not busy:
            return min(UNKNOWN_S, HOLD_S + HOLD_FOR * max(freezes_s))
        if fleet.clock.monotonic() > give_up_at:
            raise StillRunningError(f"{', '.join(busy)} is still being saved after {IDLE_S / 60:.0f} minutes")
        if not told:
            on_step(f"waiting for the saves of {', '.join(busy)}")
            told = True
        await fleet.clock.pause(LOOK_S)


async def _hold(
    fleet: Fleet, group: str, places: list[Place], tries: int, hold_s: float, book: Notebook, on_step: OnStep
) -> _Held:
    """Agree on an instant and freeze all there; returns once all are held, or one is not going to be."""
    nodes = list({place.node.name: place.node for place in places}.values())
    readings = await read_clocks(fleet, nodes)
    identity, lead = new_nonce(), lead_s(len(places), tries)
    at = fleet.clock.monotonic() + lead
    book.intend("hold", identity=identity, lead_s=lead, jobs=[place.job.name for place in places])
    on_step(f"group {group}: {len(places)} jobs stand still in {lead:.1f} s, all at one instant")
    parts = {place.job.name: Part(place.job.name) for place in places}
    tasks = {
        asyncio.ensure_future(
            _hold_one(fleet, place, identity, (at, hold_s), readings[place.node.name])
        ): place
        for place in places
    }
    try:
        waiting = set(tasks)
        while waiting and after_hold(list(parts.values())).name == "wait":
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                parts[tasks[task].job.name] = task.result()
    except asyncio.CancelledError:
        with contextlib.suppress(ReprieveError):
            await _drop(fleet, places, _Held(identity, ()), book)  # interrupted: nobody is to stand for it
        raise
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    held = _Held(identity, tuple(parts.values()))
    book.observe("hold", identity=identity, states={each.name: each.state for each in held.parts})
    return held


async def _hold_one(
    fleet: Fleet, place: Place, identity: str, when: tuple[float, float], reading: Reading
) -> Part:
    """One member's answer; a node that is silent has failed: the others are not to stand longer for it."""
    job = place.job
    document = {
        "request": f"hold-{identity}-{job.name}"[:128], "job": job.name, "group": identity,
        "at": when[0] + reading.offset_s, "hold_s": when[1],
    }  # fmt: skip
    try:
        while True:
            wait_s = min(20.0, job.max_freeze_s)
            answer = await fleet.ask(
                place.node, "hold", {**document, "wait_s": wait_s}, timeout_s=wait_s + 20
            )
            if answer.get("state") != "running":
                break
    except StillRunningError as error:
        return Part(job.name, "again", error.message)
    except ReprieveError as error:
        return Part(job.name, "failed", error.message)
    froze = answer.get("froze")
    ours = (
        (froze[0] - reading.offset_s, froze[1] - reading.offset_s)
        if isinstance(froze, list) and len(froze) == 2
        else None
    )
    if answer.get("state") == "held":
        return Part(job.name, "held", "", ours, reading.error_s)
    return Part(job.name, "again" if answer.get("late") else "failed", str(answer.get("error") or ""), ours)


async def _release(
    fleet: Fleet, place: Place, identity: str, keep: bool, on_step: Callable[[str], None]
) -> dict[str, Any]:
    word = "keep" if keep else "drop"
    document = {
        "request": f"{word}-{identity}-{place.job.name}"[:128], "job": place.job.name, "group": identity, "keep": keep,
    }  # fmt: skip
    if keep:
        return await until_done(fleet, place.node, "release", document, on_step)
    return await fleet.ask(place.node, "release", {**document, "wait_s": DROP_S}, timeout_s=2 * DROP_S)


async def _drop(fleet: Fleet, places: list[Place], held: _Held, book: Notebook) -> None:
    """Let all run on; one that cannot be told does so by its own clock."""
    book.intend("drop", identity=held.identity)

    async def one(place: Place) -> str:
        try:
            return str((await _release(fleet, place, held.identity, False, lambda text: None)).get("state"))
        except ReprieveError as error:
            return error.message

    said = await asyncio.gather(*(one(place) for place in places))
    names = [place.job.name for place in places]
    book.observe("drop", identity=held.identity, said=dict(zip(names, said, strict=True)))


async def _commit(
    fleet: Fleet, group: str, places: list[Place], held: _Held, book: Notebook, on_step: OnStep
) -> GroupSave:
    """All stand still and are saved: all run on; once every save is durable, the group save is created."""
    measured_skew = skew(held.parts)
    book.intend("keep", identity=held.identity)
    by_name = {each.name: each for each in held.parts}
    words = f"all stood still within {measured_skew[0] * 1000:.0f} ms (± {measured_skew[1] * 1000:.0f} ms)"
    on_step(f"group {group}: {words}; all run on and their saves are uploaded")

    async def one(place: Place) -> Part:
        part = by_name[place.job.name]
        try:
            answer = await _release(fleet, place, held.identity, True, on_step)
        except (ReprieveError, UnreachableError) as error:
            return replace(part, state="failed", reason=error.message)
        if answer.get("state") != "saved":
            return replace(part, state="dropped", reason=str(answer.get("error") or "it was not saved"))
        measured(fleet, place.job, answer)
        return replace(part, state="saved", checkpoint=str(answer["checkpoint"]))

    parts = await asyncio.gather(*(one(place) for place in places))
    book.observe("keep", identity=held.identity, checkpoints={each.name: each.checkpoint for each in parts})
    step = after_keep(parts)
    if step.name != "commit":
        raise EngineError(
            f"group {group} was not saved: {step.reason}; the saves of the others count for each alone, not for the group"
        )
    nonce = new_nonce()
    book.intend("commit", nonce=nonce)
    record = await fleet.blocking(
        fleet.truth(places[0].job).commit_group,
        group,
        tuple(
            Member(place.job.uid, place.job.name, part.checkpoint or "")
            for place, part in zip(places, parts, strict=True)
        ),
        measured_skew,
        nonce,
    )
    book.observe("commit", number=record.number, skew_s=record.skew_s, uncertain_s=record.uncertain_s)
    text = f"group {group} is saved as {record.number}: {len(places)} jobs, {words}"
    fleet.tell("group.saved", text, data={"group": group, "number": record.number, "skew_s": record.skew_s})
    return record

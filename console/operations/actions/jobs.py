"""Actions on one job: save, restore, move, rehearse, stop, run, protect, verify."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import getpass
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

from backends.errors import NotFoundError, ReprieveError, StillRunningError, UsageError
from backends.ids import CheckpointId
from backends.ledger.records import ItemState, Word
from backends.records.job import Job
from console.operations.actions import groups
from console.operations.actions.outcome import Arguments, OnStep, Outcome
from console.operations.actions.typed import begun
from console.operations.common import runs
from console.operations.common.forcing import forced
from console.operations.common.locate import check_place, check_protected, running_epoch
from console.operations.common.rates import tell_rate
from console.operations.common.scrubs import how_of
from console.operations.decide.upkeep import SAMPLE
from console.operations.fleet import Fleet
from console.operations.flows import move as moving
from console.operations.flows import protect as protecting
from console.operations.flows import rehearse as rehearsing
from console.operations.flows import restore as restoring
from console.operations.flows import save as saving
from console.operations.flows import zombies
from console.operations.flows.lending import take_record
from planner.quantities import format_duration

T = TypeVar("T")
INTERRUPTED = "interrupted; the job is as its row shows, and the same command can be given again"


async def _journalled(
    fleet: Fleet, kind: str, job: Job, work: Callable[[str, str], Awaitable[T]], done: ItemState = "done"
) -> tuple[str, T]:
    """Run `work(run, item)` as a run of one item, closed with what came of it."""
    opened = runs.unfinished(fleet, kind, job.name) or runs.open_run(fleet, kind, [("1", job.name, {})])
    try:
        result = await work(opened.id, "1")
    except StillRunningError as error:
        if not fleet.ledger.steps(opened.id, "1"):  # another one works on the job: nothing was begun here
            fleet.ledger.close_item(opened.id, "1", "refused", error.message, {})
            runs.close(fleet, opened.id)
        raise
    except (asyncio.CancelledError, KeyboardInterrupt):
        fleet.ledger.close_item(opened.id, "1", "cancelled", INTERRUPTED, {})
        runs.close(fleet, opened.id)
        raise
    except ReprieveError as error:
        fleet.ledger.close_item(opened.id, "1", runs.item_state_of(error), error.message, {})
        runs.close(fleet, opened.id)
        raise
    fleet.ledger.close_item(opened.id, "1", done, "", {})
    runs.close(fleet, opened.id)
    return opened.id, result


def _waits(arguments: Arguments) -> bool:
    return not arguments.get("no_wait")


async def save(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`jobs save NAME`, or of a group."""
    groups.check_words(arguments, "jobs save")
    if arguments.get("group") is not None:
        return await groups.save(fleet, arguments, on_step)
    job = fleet.job(arguments["name"])
    run_id, result = await _journalled(
        fleet,
        "save",
        job,
        lambda run, item: saving.save(fleet, job, run, item, on_step, wait=_waits(arguments)),
    )
    document = {"schema": "reprieve/save/v1", "job": job.name, "run": run_id, **result}
    return Outcome(f"{job.name} is saved as {result['checkpoint']}", document)


async def restore(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`jobs restore NAME [--to] [--checkpoint] [--i-know-it-is-dead NAME]`, or of a group."""
    groups.check_words(arguments, "jobs restore")
    if arguments.get("group") is not None:
        word = arguments.get("i_know_it_is_dead")
        if word is not None:
            await _typed_word(fleet, fleet.job(word), word)
        return await groups.restore(fleet, arguments, on_step)
    job = fleet.job(arguments["name"])
    check_protected(job)
    check_place(fleet, arguments.get("to"))
    await _check_checkpoint(fleet, job, arguments.get("checkpoint"))
    await _typed_word(fleet, job, arguments.get("i_know_it_is_dead"))
    wish = restoring.RestoreWish(
        job,
        to=arguments.get("to"),
        checkpoint=arguments.get("checkpoint"),
        force=forced(arguments.get("force") or []),
        wait=_waits(arguments),
    )
    run_id, result = await _journalled(
        fleet,
        "restore",
        job,
        lambda run, item: restoring.restore(fleet, wish, run, item, on_step),
        "restored",
    )
    return _restored(run_id, result)


async def _check_checkpoint(fleet: Fleet, job: Job, wanted: str | None) -> None:
    """NotFoundError when the store holds no checkpoint of this name: nothing else is asked then."""
    if wanted is None:
        return
    CheckpointId.parse(wanted)
    held = await fleet.blocking(fleet.truth(job).names, job.uid)
    if wanted not in held:
        some = ", ".join(held[:3]) or "none"
        raise NotFoundError(
            f"job {job.name} has no checkpoint {wanted}: its newest are {some}; nothing was done",
            hint=f"reprieve checkpoints list {job.name}",
        )


async def _typed_word(fleet: Fleet, job: Job, word: str | None) -> None:
    """Keep the operator's word for the newest epoch, before anything is done on it."""
    if word is None:
        return
    if word != job.name:
        raise UsageError(
            f"--i-know-it-is-dead names {word!r}, but this concerns {job.name!r}: nothing was done"
        )
    epoch = await running_epoch(fleet, job)
    number = epoch.epoch if epoch is not None else None
    who = getpass.getuser()
    fleet.ledger.add_word(Word(fleet.clock.wall(), who, "dead", job.name, job.uid, number))
    fleet.tell("operator.word", f"{who} typed that the old process of {job.name} is dead", job=job.name)


def _restored(run_id: str, result: restoring.Restored) -> Outcome:
    document = {"schema": "reprieve/restore/v1", "run": run_id, **dataclasses.asdict(result)}
    document["notes"] = list(result.notes)
    message = f"{result.job} runs on {result.node} from {result.checkpoint}, epoch {result.epoch}; lost work {result.lost}"
    return Outcome(message, document)


async def move(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`jobs move NAME --to NODE`."""
    job, to = fleet.job(arguments["name"]), arguments.get("to")
    check_protected(job)
    if not to:
        raise UsageError("jobs move needs --to NODE")
    check_place(fleet, to)
    run_id, result = await _journalled(
        fleet,
        "move",
        job,
        lambda run, item: moving.move(fleet, job, to, run, item, on_step, wait=_waits(arguments)),
        "restored",
    )
    done = _restored(run_id, result)
    gap = "" if result.gap_s is None else f"; it did nothing for {format_duration(round(result.gap_s, 1))}"
    return dataclasses.replace(done, message=done.message + gap)


async def rehearse(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`jobs rehearse NAME [--to NODE]`."""
    job = fleet.job(arguments["name"])
    check_place(fleet, arguments.get("to"))
    run_id, result = await _journalled(
        fleet,
        "rehearse",
        job,
        lambda run, item: rehearsing.rehearse(fleet, job, arguments.get("to"), run, item, on_step),
    )
    document = {"schema": "reprieve/rehearsal/v1", "job": job.name, "run": run_id, **result}
    took = "an unknown time" if result["seconds"] is None else format_duration(float(result["seconds"]))
    message = f"{job.name} {result['checkpoint']} is restorable: took {took} on {result['node']}, and was ended there"
    if result["skipped"]:
        message += f"; newer ones are damaged: {', '.join(result['skipped'])}"
    return Outcome(message, document)


async def stop(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`jobs stop NAME [--now]`, and `--zombie-on NODE` for a frozen older copy."""
    job = fleet.job(arguments["name"])
    if arguments.get("zombie_on"):
        return await _end_zombie(fleet, job, arguments["zombie_on"], on_step)
    final = not arguments.get("now")
    run_id, result = await _journalled(
        fleet,
        "stop",
        job,
        lambda run, item: saving.stop(
            fleet, job, run, item, on_step, final_save=final, wait=_waits(arguments)
        ),
    )
    document: dict[str, Any] = {"schema": "reprieve/stop/v1", "job": job.name, "run": run_id, **result}
    saved = f" after save {result['checkpoint']}" if result["checkpoint"] else ", without a last save"
    return Outcome(f"{job.name} was stopped on {result['node']}{saved}", document)


async def _end_zombie(fleet: Fleet, job: Job, node: str, on_step: OnStep) -> Outcome:
    run_id, result = await _journalled(
        fleet, "zombie", job, lambda run, item: zombies.end(fleet, job, node, run, item, on_step)
    )
    document = {"schema": "reprieve/zombie/v1", "job": job.name, "run": run_id, **result}
    message = f"the older copy of {job.name} on {node} (epoch {result['epoch']}) was ended; the job itself is untouched"
    return Outcome(message, document)


async def _begin(
    fleet: Fleet, arguments: Arguments, on_step: OnStep, verb: Literal["start", "protect"]
) -> Outcome:
    words = "jobs run" if verb == "start" else "jobs protect"
    job = begun(fleet.jobs().get(arguments["name"]), words, arguments)
    run_id, status = await _journalled(
        fleet,
        verb,
        job,
        lambda run, item: protecting.protect(fleet, job, verb, run, item, on_step, wait=_waits(arguments)),
    )
    with contextlib.suppress(ReprieveError):  # the controller tells it again
        await tell_rate(fleet, fleet.job(job.name))
    launch = await take_record(fleet, fleet.node(job.node))
    if launch:
        on_step(launch)
    saved = status.saved
    document = {
        "schema": "reprieve/protection/v1",
        "job": status.name,
        "uid": status.uid,
        "run": run_id,
        "node": job.node,
        "epoch": status.epoch,
        "pid": status.pid,
        "engine": status.engine,
        "state": "unrehearsed" if status.state == "protected" else status.state,
        "checkpoint": saved.checkpoint if saved is not None else None,
        "freeze_s": saved.freeze_s if saved is not None else None,
        "size_bytes": saved.size_bytes if saved is not None else None,
        "upload_s": saved.upload_s if saved is not None else None,
    }
    freeze = "–" if saved is None else f"{saved.freeze_s:.2f} s"
    message = f"{job.name} is under guard on {job.node} (pid {status.pid}, engine {status.engine}; paused {freeze} for its first save)"
    return Outcome(message, document)


async def run(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`jobs run NAME [-- COMMAND…]`."""
    return await _begin(fleet, arguments, on_step, "start")


async def protect(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`jobs protect NAME --pid P …`."""
    return await _begin(fleet, arguments, on_step, "protect")


async def verify(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`checkpoints verify NAME [ID] [--sample F | --full]`."""
    job = fleet.job(arguments["name"])
    given, full = arguments.get("sample"), bool(arguments.get("full"))
    if given is not None and full:
        raise UsageError("checkpoints verify: give --sample or --full, not both")
    sample = None if full else SAMPLE if given is None else float(given)
    on_step(f"reading the checkpoint of {job.name} back")
    save = await rehearsing.verify(fleet, job, arguments.get("checkpoint"), sample=sample)
    how = how_of(sample)
    document = {"schema": "reprieve/verification/v1", "job": job.name, "how": how, **dataclasses.asdict(save)}
    found = "is whole" if sample is None else f"shows nothing wrong in a {how} of its frames"
    return Outcome(f"{job.name} {save.checkpoint} {found}", document)

"""Batch restores: a journalled run of items, resumed by observing first; one line an item as it ends.

Several programs may run one batch: each item is worked on by whoever holds its lock, the others tell how it ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import Any

from backends.errors import IncompatibleError, ReprieveError, StillRunningError, UsageError
from backends.ledger.records import Item, ItemState
from backends.records.job import Job
from console.operations.common import runs
from console.operations.common.candidates import find_place
from console.operations.common.forcing import forced
from console.operations.common.locate import check_protected
from console.operations.common.witness import gather
from console.operations.decide.batch import BatchItem, order
from console.operations.decide.loss import why_no_proof, word_hint
from console.operations.fleet import Fleet
from console.operations.flows.restore import Restored, RestoreWish, restore
from console.operations.polling import Poller

OnItem = Callable[[dict[str, Any]], None]
OnStep = Callable[[str], None]
SCHEMA = "reprieve/batch-item/v1"
MANY = 16  # items from which on one look at all nodes serves them all
HEAR_S = 5.0  # from one such look to the next
LOOK_S = 1.0  # how often an item that another program works on is looked at


def begin(fleet: Fleet, items: list[BatchItem], **arguments: Any) -> str:
    """Journal a batch and return its run's id; every job must be known.

    Items run in the order of their jobs' priorities.
    """
    jobs = [fleet.job(item.job) for item in items]
    for item in items:
        forced(item.force, default="batch")
    for job in jobs:
        check_protected(job)
    planned = []
    for index in order([(job.name, job.priority) for job in jobs]):
        item = items[index]
        data = {**asdict(item), "force": list(item.force), "detected_at": fleet.clock.wall()}
        planned.append((str(index + 1), item.job, data))
    return runs.open_run(fleet, "batch", planned, **arguments).id


async def plan(fleet: Fleet, items: list[BatchItem], *, refusals: bool = False) -> list[dict[str, Any]]:
    """What a batch would do now, nothing changed: one row an item with checkpoint, node, and what stands in the way.

    With `refusals` a row's `refused` holds message and hint where there is no proof of death now.
    """

    async def one(item: BatchItem) -> dict[str, Any]:
        row: dict[str, Any] = {"job": item.job, "checkpoint": item.checkpoint, "node": None, "reason": ""}
        try:
            found = await _preview(fleet, fleet.job(item.job), item)
            if not refusals:
                found.pop("refused", None)
            row.update(found)
        except ReprieveError as error:
            row["reason"] = error.message
        return row

    return list(await asyncio.gather(*(one(item) for item in items)))


async def _preview(fleet: Fleet, job: Job, item: BatchItem) -> dict[str, Any]:
    check_protected(job)
    evidence = await gather(fleet, job)
    target = evidence.running.target if evidence.running is not None else None
    if evidence.to_be_asked and evidence.running is not None:
        reason = f"goes on with epoch {evidence.running.epoch}, which was begun there"
        return {"checkpoint": evidence.running.checkpoint, "node": target, "reason": reason}
    refused = None
    if evidence.running is not None and evidence.proof is None:
        why = why_no_proof(job.name, target, evidence.verdict, evidence.guard)
        refused = (why, word_hint(job.name, evidence.guard, item.to, item.checkpoint))
    if evidence.guard.word == "running":
        return {"node": target, "reason": "runs already", "refused": refused}
    saves = await fleet.blocking(fleet.truth(job).saves, job.uid, fleet.job_key(job.uid))
    wanted = next(
        (s for s in saves if s.usable and not s.orphan and item.checkpoint in (None, s.checkpoint)), None
    )
    if wanted is None:
        return {"reason": "no usable checkpoint"}
    silent = {}
    if target is not None and evidence.status is None and evidence.verdict.state != "not_ready":
        silent = {target: f"{evidence.verdict.state}: {evidence.verdict.reason}"}  # it was just asked
    force = forced(item.force, default="batch")
    placement = await find_place(fleet, job, wanted.fingerprint, to=item.to, exclude=silent, force=force)
    reason = "" if evidence.proof is not None or evidence.running is None else "no proof of death yet"
    return {
        "checkpoint": wanted.checkpoint,
        "node": placement.node,
        "refused": refused,
        "reason": reason if placement.node is not None else placement.explain(),
    }


async def proceed(
    fleet: Fleet,
    run: str,
    on_item: OnItem,
    on_step: OnStep,
    *,
    max_parallel: int = 4,
    fail_fast: bool = False,
) -> dict[str, Any]:
    """Run, or go on with, every item of a batch that has no end yet; returns the `batch-run` document.

    Items that ended are told again as they ended, so that the output of a resumed run is whole. An item that another
    program works on is waited for; when that program dies, its lock is free and the item passes on within a second.

    Raises:
        UsageError: there is no such run, or it is no batch.
    """
    if runs.find_run(fleet, run).kind != "batch":
        raise UsageError(f"operation {run} is no batch")
    if max_parallel < 1:
        raise UsageError(f"--max-parallel is {max_parallel}; at least 1 is needed")
    gate = asyncio.Semaphore(max_parallel)
    failed = asyncio.Event()
    items = fleet.ledger.items(run)
    poller = Poller(fleet) if len(items) > MANY else None

    async def one(item: Item) -> None:
        while True:
            async with gate:
                ended = await _take(fleet, item, fail_fast and failed.is_set(), on_item, on_step, poller)
            if ended is not None:
                break
            await fleet.clock.pause(LOOK_S)
        if not ended:
            failed.set()

    async def all_of_them() -> None:
        await asyncio.gather(*(one(item) for item in items))

    await (all_of_them() if poller is None else _listening(poller, all_of_them()))
    return run_document(fleet, run, runs.close(fleet, run))


async def _listening(poller: Poller, work: Coroutine[Any, Any, None]) -> None:
    """Do `work` while all nodes are looked at again and again, so that its items need not ask each of them."""

    async def listen() -> None:
        while True:
            await poller.fleet.clock.pause(HEAR_S)
            await poller.look()

    await poller.look()
    tasks = [asyncio.create_task(work), asyncio.create_task(listen())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await poller.close()


async def _take(
    fleet: Fleet, item: Item, give_up: bool, on_item: OnItem, on_step: OnStep, poller: Poller | None
) -> bool | None:
    """Work on an item unless somebody else does: whether it ended well, None when another program works on it."""
    with ExitStack() as held:
        try:
            held.enter_context(fleet.locks.only_runner(f"item.{item.run}.{item.item}", f"item {item.item}"))
        except StillRunningError:
            return None
        now = fleet.ledger.find_item(item.run, item.item) or item
        if now.state in runs.DONE_STATES or now.state in ("failed", "refused", "cancelled"):
            on_item(_line(now, now.state, now.reason, now.result))
            return now.state in runs.DONE_STATES
        if give_up:
            _close(fleet, now, "cancelled", "an earlier item failed", {}, on_item)
            return True
        return await _restore_one(fleet, now, on_item, on_step, poller)


async def _restore_one(
    fleet: Fleet, item: Item, on_item: OnItem, on_step: OnStep, poller: Poller | None
) -> bool:
    data = item.arguments
    try:
        job = fleet.job(item.job)
        wish = RestoreWish(
            job,
            to=data.get("to"),
            checkpoint=data.get("checkpoint"),
            force=forced(data.get("force", ()), default=f"forced by batch {item.run}"),
            cause="batch",
            detected_at=data.get("detected_at"),
            hearing=poller,
        )
        if not fleet.ledger.steps(item.run, item.item):
            running = await _runs_already(fleet, job)
            if running is not None:
                _close(fleet, item, "already_restored", "it runs", running, on_item)
                return True
        fleet.ledger.close_item(item.run, item.item, "running", "", {})
        result = await _bring_back(fleet, wish, item, lambda text: on_step(f"{item.job}: {text}"))
    except ReprieveError as error:
        _close(fleet, item, runs.item_state_of(error), error.message, {}, on_item)
        return False
    state: ItemState = "restored" if result.state == "restored" else "already_restored"
    _close(fleet, item, state, "; ".join(result.notes), _result(result), on_item)
    return True


async def _bring_back(fleet: Fleet, wish: RestoreWish, item: Item, on_step: OnStep) -> Restored:
    """Restore; where none of the nodes that were heard takes the job, every node is asked: one may just be busy."""
    try:
        return await restore(fleet, wish, item.run, item.item, on_step)
    except IncompatibleError:
        if wish.hearing is None:
            raise
    return await restore(fleet, replace(wish, hearing=None), item.run, item.item, on_step)


async def _runs_already(fleet: Fleet, job: Job) -> dict[str, Any] | None:
    evidence = await gather(fleet, job)
    if evidence.guard.word != "running" or evidence.running is None:
        return None
    status = evidence.status
    return {
        "node": evidence.running.target,
        "epoch": evidence.running.epoch,
        "pid": status.pid if status is not None else None,
        "checkpoint": evidence.running.checkpoint,
    }


def _result(result: Restored) -> dict[str, Any]:
    names = ("checkpoint", "node", "epoch", "pid", "lost_work_s", "restore_s", "wait_s")
    return {name: getattr(result, name) for name in names}


def _close(
    fleet: Fleet, item: Item, state: ItemState, reason: str, result: dict[str, Any], on_item: OnItem
) -> None:
    fleet.ledger.close_item(item.run, item.item, state, reason, result)
    on_item(_line(item, state, reason, result))


def _line(item: Item, state: str, reason: str, result: dict[str, Any]) -> dict[str, Any]:
    line: dict[str, Any] = {
        "schema": SCHEMA,
        "item": item.item,
        "job": item.job,
        "state": state,
        "reason": reason,
    }
    for name in ("checkpoint", "node", "epoch", "pid", "lost_work_s", "restore_s", "wait_s"):
        line[name] = result.get(name)
    return line


def run_document(fleet: Fleet, run: str, state: str) -> dict[str, Any]:
    """The last line of a batch: counts by state."""
    counts: dict[str, int] = dict.fromkeys(
        ("restored", "already_restored", "failed", "refused", "cancelled", "planned", "running"), 0
    )
    for item in fleet.ledger.items(run):
        counts[item.state] = counts.get(item.state, 0) + 1
    total = sum(counts.values())
    return {"schema": "reprieve/batch-run/v1", "run": run, "state": state, "items": total, **counts}


def unfinished(fleet: Fleet, source: str) -> str:
    """The newest batch begun from `source` that has not ended; UsageError when there is none."""
    for run in fleet.ledger.runs(1000):
        if run.kind == "batch" and run.arguments.get("file") == source and run.state == "running":
            return run.id
    raise UsageError(f"no unfinished batch was begun from {source}", hint="see `reprieve batch list`")

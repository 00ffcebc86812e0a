"""Moving a job: what can be done while it runs, then a last save and a confirmed stop here, a restore there.

If there fails, it is started again here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from backends.errors import IncompatibleError, ReprieveError, StillRunningError, UsageError
from backends.records.job import Job
from console.operations.common.candidates import find_place
from console.operations.common.grants import grant, job_document
from console.operations.common.locate import home
from console.operations.common.runs import Notebook
from console.operations.common.waiting import until_done
from console.operations.fleet import Fleet
from console.operations.flows.restore import Restored, RestoreWish, restore
from console.operations.flows.save import save, stop
from planner.quantities import format_size

BACK, BEFORE, AGAIN = (
    "-back",
    "-before",
    "-again",
)  # item names of the way back, and of saves while the job runs
LITTLE = 0.05  # share of the image that the last save may store by what changed before the move; more: a full save first
OnStep = Callable[[str], None]


async def move(
    fleet: Fleet, job: Job, to: str, run: str, item: str, on_step: OnStep, *, wait: bool = True
) -> Restored:
    """Move `job` to node or pool `to` and return where it lives.

    The job does nothing from the freeze of its last save to its proof of life there (`gap_s`): only what changed since
    the save before is saved and fetched in that time.

    Raises:
        UsageError: no node or pool is called `to`, or the job runs there.
        IncompatibleError: nothing there fits; the job was not touched.
        EngineError: the last save failed; the job runs on.
        ReprieveError: the restore there failed; the message says where the job runs now.
    """
    book = Notebook(fleet, run, item)
    started = book.first("source")
    source = started.data["node"] if started is not None else (await home(fleet, job)).name
    if source == to:
        raise UsageError(f"job {job.name} runs on {to} already")
    if started is None:
        target = await _check_there(fleet, job, to)
        book.observe("source", node=source, target=target)
    else:
        target = str(started.data.get("target") or to)
    stopped = [data for data in book.observed("stop") if data.get("state") == "stopped"]
    if not stopped:
        if wait:
            await _ahead(fleet, job, target, book, on_step)
        try:
            last = (await stop(fleet, job, run, item, on_step, wait=wait))["checkpoint"]
        except StillRunningError:
            raise
        except ReprieveError:
            await _prefetch(fleet, job, target, None, book, on_step)
            raise
    else:
        last = stopped[0].get("checkpoint")
    try:
        read_back = frozenset({last} if isinstance(last, str) else ())
        wish = RestoreWish(job, to=target, cause="move", max_tries=1, wait=wait, trusted=read_back)
        result = await restore(fleet, wish, run, item, on_step)
        return _told(result, Notebook(fleet, run, item))
    except StillRunningError:
        raise
    except ReprieveError as error:
        on_step(f"the restore on {target} failed ({error.message}); starting again on {source}")
        back = RestoreWish(dataclasses.replace(job, node=source), to=source, cause="move")
        returned = await restore(fleet, back, run, item + BACK, on_step)
        raise ReprieveError(
            f"job {job.name} could not move to {target}: {error.message}; it runs on {returned.node} again",
            hint=error.hint,
        ) from None


async def _check_there(fleet: Fleet, job: Job, to: str) -> str:
    """The node there that the job fits."""
    truth = fleet.truth(job)
    newest = await fleet.blocking(truth.newest, job.uid)
    fingerprint = {}
    if newest is not None:
        found = await fleet.blocking(truth.look, job.uid, newest, fleet.job_key(job.uid))
        fingerprint = found.fingerprint
    placement = await find_place(fleet, job, fingerprint, to=to, exclude={}, force={})
    if placement.node is None:
        raise IncompatibleError(
            f"job {job.name} cannot move to {to}: {placement.explain()}; it was not touched"
        )
    return placement.node


async def _ahead(fleet: Fleet, job: Job, target: str, book: Notebook, on_step: OnStep) -> None:
    """A save while the job runs, and its packs to the target. Whatever fails here only makes the gap longer."""
    try:
        saved = await save(fleet, job, book.run, book.item + BEFORE, on_step)
        stored = saved["stored_bytes"]
        if saved["parent"] and isinstance(stored, int) and stored > LITTLE * saved["size_bytes"]:
            # The last save stores all that changed since the last full one: that would be moved in the gap.
            saved = await save(fleet, job, book.run, book.item + AGAIN, on_step, full=True)
    except ReprieveError as error:
        on_step(f"no save ahead of the move: {error.message}")
        return
    await _prefetch(fleet, job, target, str(saved["checkpoint"]), book, on_step)


async def _prefetch(
    fleet: Fleet, job: Job, target: str, checkpoint: str | None, book: Notebook, on_step: OnStep
) -> None:
    """Have the target fetch `checkpoint`'s packs, or throw away (None) what it has of them."""
    node = fleet.node(target)
    document = {
        "request": f"prefetch-{book.run}-{book.item}-{checkpoint or 'drop'}",
        "job": job_document(fleet, job, node),
        "grant": grant(fleet, job, 0, "", checkpoint or "genesis"),
        "checkpoint": checkpoint,
    }
    if checkpoint is not None:
        on_step(f"{target}: fetching {checkpoint} while {job.name} runs on")
    try:
        answer = await until_done(fleet, node, "prefetch", document, on_step)
    except ReprieveError as error:
        answer = {"state": "failed", "error": error.message}
    if checkpoint is None:
        return
    book.observe("prefetch", state=answer.get("state"), size_bytes=answer.get("size_bytes"))
    if answer.get("state") != "fetched":
        on_step(f"{target} has fetched nothing ahead: {answer.get('error')}")


def _told(result: Restored, book: Notebook) -> Restored:
    """The result with a note of what was moved before and in the gap."""
    asked = [data for data in book.observed("ask") if data.get("state") == "restored"]
    here, moved = (asked[-1].get(name) if asked else None for name in ("ahead_bytes", "moved_bytes"))
    if not isinstance(here, int) or not isinstance(moved, int):
        return result
    note = f"{format_size(here)} lay there before the freeze, {format_size(moved)} were fetched in the gap"
    return dataclasses.replace(result, notes=(*result.notes, note))

"""Moving a job: a last save and a confirmed stop here, a restore there; back here when there fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from backends.errors import IncompatibleError, ReprieveError, StillRunningError, UsageError
from backends.records.job import Job
from console.operations.common.candidates import find_place
from console.operations.common.locate import home
from console.operations.common.runs import Notebook
from console.operations.fleet import Fleet
from console.operations.flows.restore import Restored, RestoreWish, restore
from console.operations.flows.save import stop

BACK = "-back"  # item name of the way back


async def move(
    fleet: Fleet,
    job: Job,
    to: str,
    run: str,
    item: str,
    on_step: Callable[[str], None],
    *,
    wait: bool = True,
) -> Restored:
    """Move `job` to node or pool `to` and return where it lives.

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
        await _check_there(fleet, job, to)
        book.observe("source", node=source)
    if not any(data.get("state") == "stopped" for data in book.observed("stop")):
        await stop(fleet, job, run, item, on_step, wait=wait)
    try:
        wish = RestoreWish(job, to=to, cause="move", max_tries=1, wait=wait)
        return await restore(fleet, wish, run, item, on_step)
    except StillRunningError:
        raise
    except ReprieveError as error:
        on_step(f"the restore on {to} failed ({error.message}); starting again on {source}")
        back = RestoreWish(dataclasses.replace(job, node=source), to=source, cause="move")
        returned = await restore(fleet, back, run, item + BACK, on_step)
        raise ReprieveError(
            f"job {job.name} could not move to {to}: {error.message}; it runs on {returned.node} again",
            hint=error.hint,
        ) from None


async def _check_there(fleet: Fleet, job: Job, to: str) -> None:
    truth = fleet.truth(job)
    newest = await fleet.blocking(truth.newest, job.uid)
    fingerprint = {}
    if newest is not None:
        save = await fleet.blocking(truth.look, job.uid, newest, fleet.job_key(job.uid))
        fingerprint = save.fingerprint
    placement = await find_place(fleet, job, fingerprint, to=to, exclude={}, force={})
    if placement.node is None:
        raise IncompatibleError(
            f"job {job.name} cannot move to {to}: {placement.explain()}; it was not touched"
        )

"""Actions on a group of jobs: `jobs save --group`, `jobs restore --group`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from backends.clean import clean
from backends.errors import ReprieveError, UsageError
from backends.ledger.records import ItemState
from backends.records import strict
from backends.records.job import Job
from console.operations.actions.outcome import Arguments, OnStep, Outcome
from console.operations.common import runs
from console.operations.common.locate import check_place
from console.operations.fleet import Fleet
from console.operations.flows.group.members import members
from console.operations.flows.group.restore import GroupRestored, document, restore_group
from console.operations.flows.group.save import save_group

T = TypeVar("T")
PARTIAL = 3  # exit code


def check_words(arguments: Arguments, words: str) -> None:
    """UsageError unless exactly one of a job's name and --group is there, and nothing that goes with the other only."""
    name, group = arguments.get("name"), arguments.get("group")
    if (name is None) == (group is None):
        raise UsageError(f"{words} takes the name of a job, or --group NAME: one of the two")
    if group is None and arguments.get("group_save") is not None:
        raise UsageError(f"{words}: --group-save goes with --group")
    if group is not None:
        given = [each for each in ("checkpoint", "force", "no_wait") if arguments.get(each)]
        if given:
            raise UsageError(f"{words} --group does not take --{given[0].replace('_', '-')}")


def number_of(arguments: Arguments) -> int | None:
    """The group save that was asked for; UsageError when it is no number from 1."""
    given = arguments.get("group_save")
    if given is not None and int(given) < 1:
        raise UsageError(f"--group-save is {given}; 1 or more is expected: see `reprieve jobs show NAME`")
    return None if given is None else int(given)


async def save(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`jobs save --group NAME`."""
    group = str(arguments["group"])
    jobs = members(fleet, group)
    run, record = await _journalled(
        fleet, "group-save", jobs, lambda run: save_group(fleet, group, run, on_step), lambda done: {}
    )
    body: dict[str, Any] = {"schema": "reprieve/group-save/v1", "run": run, **strict.to_document(record)}
    message = (
        f"group {group} is saved as {record.number}: {len(record.members)} jobs stood still within "
        f"{record.skew_s * 1000:.0f} ms (± {record.uncertain_s * 1000:.0f} ms)"
    )
    return Outcome(message, body)


async def restore(fleet: Fleet, arguments: Arguments, on_step: OnStep) -> Outcome:
    """`jobs restore --group NAME [--group-save N] [--to]`."""
    group, to, number = str(arguments["group"]), arguments.get("to"), number_of(arguments)
    check_place(fleet, to)
    jobs = members(fleet, group)
    run, result = await _journalled(
        fleet,
        "group-restore",
        jobs,
        lambda run: restore_group(fleet, group, number, to, run, on_step),
        _failures,
    )
    body: dict[str, Any] = {
        "schema": "reprieve/group-restore/v1",
        "run": run,
        "group": group,
        "group_save": result.save.number,
        "group_epoch": result.epoch.number,
        "items": document(result),
    }
    message = f"group {group} goes on from save {result.save.number}, epoch {result.epoch.number}: {len(result.restored)} of {len(jobs)} jobs"
    if result.failed:
        first = next(iter(result.failed.items()))
        message += (
            f"; {first[0]}: {clean(first[1].message)}; `reprieve jobs restore --group {group}` tries again"
        )
    return Outcome(message, body, PARTIAL if result.failed and result.restored else int(bool(result.failed)))


def _failures(result: GroupRestored) -> dict[str, str]:
    return {name: error.message for name, error in result.failed.items()}


async def _journalled(
    fleet: Fleet,
    kind: str,
    jobs: tuple[Job, ...],
    work: Callable[[str], Awaitable[T]],
    failures: Callable[[T], dict[str, str]],
) -> tuple[str, T]:
    """Run `work(run)` as a run with one item a member, closed with what came of it."""
    items = {str(number): job.name for number, job in enumerate(jobs, 1)}
    opened = runs.open_run(fleet, kind, [(item, name, {}) for item, name in items.items()])

    def close(state: ItemState, reason: str) -> None:
        for item in items:
            fleet.ledger.close_item(opened.id, item, state, reason, {})
        runs.close(fleet, opened.id)

    try:
        result = await work(opened.id)
    except (asyncio.CancelledError, KeyboardInterrupt):
        close(
            "cancelled", "interrupted; each job is as its row shows, and the same command can be given again"
        )
        raise
    except ReprieveError as error:
        close(runs.item_state_of(error), error.message)
        raise
    bad = failures(result)
    for item, name in items.items():
        fleet.ledger.close_item(opened.id, item, "failed" if name in bad else "done", bad.get(name, ""), {})
    runs.close(fleet, opened.id)
    return opened.id, result

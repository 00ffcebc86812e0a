"""`jobs` commands that change something: each shows what will happen, asks by its tier, then acts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backends.errors import NoProofError
from console.cli.session import act, checked, on_fleet
from console.operations.actions.groups import check_words, number_of
from console.operations.common.forcing import forced

if TYPE_CHECKING:
    from console.cli.invocation import Invocation
    from console.operations.decide.batch import BatchItem
    from console.operations.fleet import Fleet


def save(invocation: Invocation) -> int:
    """`jobs save NAME`, or --group."""
    check_words(invocation.arguments, "jobs save")
    checked(invocation)
    group = invocation.arguments.get("group")
    if group is not None:
        lines = (
            f"save group {group} now: all its jobs stand still from one instant until the memory of all is copied",
        )
        invocation.confirm(1, lines, group)
        return act(invocation)
    name = invocation.arguments["name"]
    invocation.confirm(1, (f"save {name} now: it stands still while its memory is copied",), name)
    return act(invocation)


def restore(invocation: Invocation) -> int:
    """`jobs restore NAME`: the plan is shown first."""
    arguments = invocation.arguments
    check_words(arguments, "jobs restore")
    if arguments.get("group") is not None:
        return _restore_group(invocation, str(arguments["group"]))
    name = arguments["name"]
    force = forced(arguments.get("force") or [])
    lines = [*_plan(invocation, name)]
    lines += [f"the refusal of {each} is set aside: {reason}" for each, reason in force.items()]
    if arguments.get("i_know_it_is_dead"):
        lines.append(f"your word that the old process of {name} is dead is recorded as the proof")
    invocation.confirm(3 if force else 2, lines, name)
    return act(invocation)


def _restore_group(invocation: Invocation, group: str) -> int:
    """The plan is shown first; ending jobs that live is asked for as what destroys is."""
    from console.operations.flows.group.restore import plan

    checked(invocation)
    number = number_of(invocation.arguments)
    seen = on_fleet(invocation, lambda fleet: plan(fleet, group, number, invocation.progress))
    if seen.refused and not invocation.arguments.get("i_know_it_is_dead") and not invocation.dry_run:
        raise NoProofError(
            f"group {group} cannot be restored: {'; '.join(seen.refused)}",
            hint="proof of death, or your word for one of them with --i-know-it-is-dead NAME",
        )
    begun = "" if seen.epoch is None else f", going on with epoch {seen.epoch.number}"
    lines = [f"restore all {len(seen.jobs)} jobs of group {group} from group save {seen.save.number}{begun}"]
    lines += seen.skipped
    lines += [f"no proof for {text}" for text in seen.refused]
    ended = seen.needs("stop")
    if ended:
        lines.append(f"{', '.join(ended)} lives and is ended first: work since that save is lost")
    invocation.confirm(3 if ended else 2, lines, group)
    return act(invocation)


def _plan(invocation: Invocation, name: str) -> list[str]:
    """What a restore would do now, in lines for people."""
    from console.operations.decide.batch import BatchItem

    arguments = invocation.arguments
    force = tuple(arguments.get("force") or ())
    item = BatchItem(name, arguments.get("checkpoint"), arguments.get("to"), force)
    invocation.progress(f"looking for proof and a place for {name}; a silent node is given a few seconds")
    row = on_fleet(invocation, lambda fleet: _checked(fleet, arguments.get("to"), item))[0]
    refused = row.get("refused")
    if refused is not None and not arguments.get("i_know_it_is_dead") and not invocation.dry_run:
        raise NoProofError(refused[0], hint=refused[1])  # before anybody is asked for a yes
    if row["checkpoint"] is None and row["node"] is not None:
        return [f"{name} runs on {row['node']} already: nothing would be restored"]
    lines = [f"restore {name} from {row['checkpoint'] or 'no checkpoint'} on {row['node'] or 'no node'}"]
    return [*lines, row["reason"]] if row["reason"] else lines


async def _checked(fleet: Fleet, to: str | None, item: BatchItem) -> list[dict[str, Any]]:
    from console.operations.common.locate import check_place
    from console.operations.flows import batch

    check_place(fleet, to)
    return await batch.plan(fleet, [item], refusals=True)


def move(invocation: Invocation) -> int:
    """`jobs move NAME --to NODE`."""
    checked(invocation)
    name, to = invocation.arguments["name"], invocation.arguments["to"]
    lines = (
        f"move {name} to {to}: a last save, a confirmed stop, a restore there",
        "if that fails it starts again here",
    )
    invocation.confirm(2, lines, name)
    return act(invocation)


def rehearse(invocation: Invocation) -> int:
    """`jobs rehearse NAME`."""
    checked(invocation)
    name = invocation.arguments["name"]
    to = invocation.arguments.get("to") or "another compatible node"
    invocation.confirm(1, (f"rehearse {name} on {to}: no network, scratch files, ended afterwards",), name)
    return act(invocation)


def stop(invocation: Invocation) -> int:
    """`jobs stop NAME`; `--now` is irreversible."""
    checked(invocation)
    name, zombie_on = invocation.arguments["name"], invocation.arguments.get("zombie_on")
    if zombie_on:
        lines = (
            f"end the frozen older copy (zombie) of {name} on {zombie_on}; the job itself is not touched",
            "what that copy did after its last save, and has not saved, is lost with it",
        )
        invocation.confirm(3, lines, name)
    elif invocation.arguments.get("now"):
        invocation.confirm(3, (f"end {name} without a save: work since its last save is lost",), name)
    else:
        invocation.confirm(2, (f"save {name}, then end its process",), name)
    return act(invocation)


def run(invocation: Invocation) -> int:
    """`jobs run NAME [-- COMMAND]`."""
    checked(invocation)
    name = invocation.arguments["name"]
    lines = (
        f"start {name} under guard",
        "the trial save follows at once: the job stands still while it is copied",
    )
    invocation.confirm(2, lines, name)
    return act(invocation)


def protect(invocation: Invocation) -> int:
    """`jobs protect NAME`."""
    checked(invocation)
    name = invocation.arguments["name"]
    lines = (
        f"take the running process of {name} under guard",
        "the trial save follows at once: the process stands still while its memory is copied",
        "if it cannot be saved, it runs on and the reason is told",
    )
    invocation.confirm(2, lines, name)
    return act(invocation)


def set_(invocation: Invocation) -> int:
    """`jobs set NAME KEY=VALUE…`."""
    checked(invocation)
    name = invocation.arguments["name"]
    invocation.confirm(1, (f"{name}: set {', '.join(invocation.arguments['changes'])}",), name)
    return act(invocation)


def pause(invocation: Invocation) -> int:
    """`jobs pause NAME`."""
    checked(invocation)
    name = invocation.arguments["name"]
    invocation.confirm(2, (f"suspend the protection of {name}: no saves and no restore until resumed",), name)
    return act(invocation)


def resume(invocation: Invocation) -> int:
    """`jobs resume NAME`."""
    checked(invocation)
    name = invocation.arguments["name"]
    invocation.confirm(1, (f"take up the protection of {name} again",), name)
    return act(invocation)


def unprotect(invocation: Invocation) -> int:
    """`jobs unprotect NAME`."""
    checked(invocation)
    name = invocation.arguments["name"]
    invocation.confirm(
        2, (f"end the protection of {name}: no more saves; process and checkpoints stay",), name
    )
    return act(invocation)


def remove(invocation: Invocation) -> int:
    """`jobs remove NAME`."""
    checked(invocation)
    name = invocation.arguments["name"]
    invocation.confirm(2, (f"forget the record of {name}: process and checkpoints stay",), name)
    return act(invocation)

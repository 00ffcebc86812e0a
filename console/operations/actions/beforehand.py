"""What records and typed words alone refuse: told before anybody is asked for a yes. Changes nothing, asks no node."""

from __future__ import annotations

from console.operations.actions.groups import check_words
from console.operations.actions.outcome import Arguments
from console.operations.actions.typed import begun, changed
from console.operations.common.locate import check_place
from console.operations.common.runs import find_run
from console.operations.fleet import Fleet
from console.operations.flows.group.members import members

_BEGINNING = ("jobs run", "jobs protect")  # their NAME may be a new one


def check(fleet: Fleet, words: str, arguments: Arguments) -> None:
    """Look at what a command names.

    Raises:
        UsageError: a job, node, pool or run that does not exist, or a value that cannot be used.
    """
    noun = words.partition(" ")[0]
    if words in _BEGINNING:
        job = begun(fleet.jobs().get(arguments["name"]), words, arguments)
        if job.node:
            fleet.node(job.node)
    elif words in ("jobs save", "jobs restore") and arguments.get("name") is None:
        check_words(arguments, words)
        members(fleet, str(arguments["group"]))
        check_place(fleet, arguments.get("to"))
    elif noun == "jobs":
        job = fleet.job(arguments["name"])
        check_place(fleet, arguments.get("to"))
        if arguments.get("zombie_on"):
            fleet.node(arguments["zombie_on"])
        if words == "jobs set":
            changed(job, list(arguments["changes"]))
    elif noun == "fleet":
        for name in arguments.get("names") or [arguments["name"]]:
            fleet.node(name)
    elif noun == "batch":
        find_run(fleet, arguments["run"])

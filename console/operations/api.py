"""Performing a named command on an opened fleet: what the terminal app's keys and the command line both call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from backends.errors import UsageError
from console.operations.actions import jobs, nodes, policy
from console.operations.actions.outcome import Arguments, OnStep, Outcome
from console.operations.fleet import Fleet

__all__ = ["Outcome", "perform"]

Action = Callable[[Fleet, Arguments, OnStep], Awaitable[Outcome]]

ACTIONS: dict[str, Action] = {
    "jobs save": jobs.save,
    "jobs restore": jobs.restore,
    "jobs move": jobs.move,
    "jobs rehearse": jobs.rehearse,
    "jobs stop": jobs.stop,
    "jobs run": jobs.run,
    "jobs protect": jobs.protect,
    "jobs set": policy.set_,
    "jobs pause": policy.pause,
    "jobs resume": policy.resume,
    "jobs unprotect": policy.unprotect,
    "jobs remove": policy.remove,
    "jobs thaw": policy.thaw,
    "checkpoints verify": jobs.verify,
    "fleet install": nodes.install,
    "fleet cordon": nodes.cordon,
    "fleet uncordon": nodes.uncordon,
    "fleet remove": nodes.remove,
    "fleet fence": nodes.fence,
}


async def perform(fleet: Fleet, words: str, arguments: Arguments, on_step: OnStep) -> Outcome:
    """Carry out the command named by `words` (`jobs save`) and say what came of it.

    Args:
        fleet: an opened fleet.
        words: noun and verb as typed; the caller has confirmed it.
        arguments: the command's arguments by name, `-` as `_`.
        on_step: hears each step as a short sentence.

    Raises:
        UsageError: no such action. ReprieveError: it was refused or failed.
    """
    action = ACTIONS.get(words)
    if action is None:
        raise UsageError(f"{words!r} is not an action; known: {', '.join(sorted(ACTIONS))}")
    if fleet.context.read_only:
        raise UsageError(f"{words} changes something, and the context {fleet.context.name} is read-only")
    return await action(fleet, arguments, on_step)

"""Asking whoever else would start a job again, before we do."""

from __future__ import annotations

from typing import Any

from backends.clean import clean
from backends.records.node import Node
from backends.schedulers.port import Answer
from console.operations.fleet import Fleet

PROPERTY = "restarter"  # name under which the operator sets the refusal aside


async def ask_restarter(fleet: Fleet, found: Any) -> Answer | None:
    """The word of the scheduler that `found` ({kind, identity}) names; None when the job belongs to none."""
    if not isinstance(found, dict) or not isinstance(found.get("kind"), str):
        return None
    kind, identity = found["kind"], str(found.get("identity"))
    restarter = fleet.restarters.get(kind)
    if restarter is None:
        return Answer("unknown", f"the job belongs to {kind} job {identity}, which cannot be asked from here")
    return await fleet.blocking(restarter.ask, identity)


async def scaling_group(fleet: Fleet, node: Node | None) -> Answer | None:
    """The scaling group that starts a machine in place of `node`; a warning only: what that machine runs is the user's.

    None where there is none, or the provider does not say.
    """
    said = None if node is None else await fleet.instance(node)
    if node is None or said is None or not said.group:
        return None
    group = clean(said.group, limit=120)
    detail = f"scaling group {group} starts a new machine itself when {node.name} ends; see that its boot does not start the job"
    return Answer("will", detail, f"aws autoscaling detach-instances --auto-scaling-group-name {group} …")


def remedy_line(job: str, answer: Answer) -> str:
    """What the operator can do about another restarter."""
    first = f"{answer.remedy}; " if answer.remedy else ""
    return f"{first}then `reprieve jobs restore {job}`, with --force {PROPERTY}=REASON where that is settled otherwise"

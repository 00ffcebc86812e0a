"""Replacement capacity: ask the provider once per lost node, install the guard on what comes, add it to the fleet."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from backends.errors import IncompatibleError, ReprieveError
from backends.records.job import Job
from backends.records.node import Node
from console.operations.fleet import Fleet

POLL_S = 2.0


@dataclass(frozen=True)
class Asked:
    """Where a request for capacity stands."""

    state: str  # ready | pending | failed
    node: Node | None = None
    reason: str = ""


def may_replace(job: Job, lost: Node) -> str | None:
    """Why no replacement may be asked for under the job's policy, or None. `owned` never rents.

    A practice fleet's hosts cost nothing: there a lost one is always replaced.
    """
    if lost.provider == "practice":
        return None if lost.pool else f"node {lost.name} has no pool"
    if job.restore == "owned":
        return f"the restore policy of job {job.name} is owned: nothing is rented"
    if lost.pool is None:
        return f"node {lost.name} has no pool: nothing is known that could be launched"
    return None


def token_of(lost: Node) -> str:
    """One request per lost instance, whoever asks and however often."""
    return re.sub(r"[^A-Za-z0-9-]", "-", f"replace-{lost.name}-{lost.instance or 'none'}")[:60]


async def ask(fleet: Fleet, lost: Node) -> Asked:
    """Ask for, or look at, the one replacement of `lost`."""
    cloud = fleet.cloud_of(lost)
    if cloud is None or lost.pool is None:
        return Asked("failed", reason=f"nobody can be asked for a replacement of {lost.name}")
    try:
        answer = await fleet.blocking(cloud.replace, lost.pool, token_of(lost))
    except ReprieveError as error:
        return Asked("pending", reason=error.message)
    return Asked(answer.state, answer.node, answer.reason)


async def replacement(
    fleet: Fleet, lost: Node, on_step: Callable[[str], None], *, limit_s: float = 3600.0
) -> Node:
    """Wait for a replacement of `lost`, install the guard, add it to the records, and return it.

    Raises:
        IncompatibleError: the provider has none, or it did not become ready in `limit_s`.
        ReprieveError: the guard could not be installed.
    """
    start = fleet.clock.monotonic()
    told = ""
    while True:
        asked = await ask(fleet, lost)
        if asked.state == "failed":
            raise IncompatibleError(f"no replacement for {lost.name}: {asked.reason}")
        if asked.node is not None and asked.state == "ready":
            break
        if fleet.clock.monotonic() - start > limit_s:
            raise IncompatibleError(
                f"no replacement for {lost.name} in {limit_s:.0f} s: {asked.reason or 'pending'}"
            )
        text = f"waiting for a replacement of {lost.name}" + (f" ({asked.reason})" if asked.reason else "")
        if told != text:
            told = text
            on_step(text)
        await fleet.clock.pause(POLL_S)
    node = asked.node
    on_step(f"{node.name} is there: installing the guard")
    if node.name not in fleet.records.nodes():
        fleet.records.put_node(node)
    await fleet.install(node)
    fleet.tell(
        "node.ready", f"{node.name} replaces {lost.name}", node=node.name, data={"replaces": lost.name}
    )
    return node

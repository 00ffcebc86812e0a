"""Replacement capacity: ask the provider once per lost node, install the guard on what comes, add it to the fleet."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from backends.clock import parse_utc
from backends.clouds.port import Renter
from backends.errors import IncompatibleError, ReprieveError
from backends.records.job import Job
from backends.records.node import Node
from console.operations.decide.capacity import PoolEvent, PoolEventKind, Request, back_off_s, choose
from console.operations.fleet import Fleet

POLL_S = 2.0
RENTED = "rented"  # label of a machine that the fleet pays for; its value is the market
EVENTS = 1000  # newest events that tell of pools


@dataclass(frozen=True)
class Asked:
    """Where a request for capacity stands."""

    state: str  # ready | pending | failed
    node: Node | None = None
    reason: str = ""


def request_for(fleet: Fleet, job: Job, lost: Node, waited_s: float) -> Request | str:
    """What to ask for in place of `lost`, or the sentence that says why nothing is asked for now.

    A practice fleet's hosts cost nothing: there a lost one is always replaced in its own pool.
    """
    if lost.pool is None:
        return f"node {lost.name} has no pool: nothing is known that could be launched"
    if lost.provider == "practice":
        return Request(lost.pool, "spot", 3600.0)
    nodes = fleet.records.nodes().values()
    provider = lost.pool.partition("/")[0]
    known = {node.pool for node in nodes if node.pool} | set(fleet.ledger.observed_hours())
    others = tuple(sorted(pool for pool in known if pool.partition("/")[0] == provider))
    return choose(
        job.restore,
        home=lost.pool,
        others=others,
        waited_s=waited_s,
        backing_off=back_off_s(pool_events(fleet)),
        limits=fleet.records.renting(),
        rented=sum(RENTED in node.labels for node in nodes),
    )


def pool_events(fleet: Fleet) -> list[PoolEvent]:
    """What the history says of pools."""
    kinds: dict[str, PoolEventKind] = {"capacity.short": "short", "node.ready": "ready"}
    found, now = [], fleet.clock.wall()
    for _, event in fleet.ledger.events(limit=EVENTS):
        kind = kinds.get(event.kind)
        if event.kind == "node.lost":
            kind = "age_limit" if event.data.get("age_limit") else "reclaim"
        pool = event.data.get("pool")
        if kind is None or not isinstance(pool, str):
            continue
        try:
            found.append(PoolEvent(pool, kind, max(0.0, now - parse_utc(event.time))))
        except ReprieveError:
            continue
    return found


def token_of(lost: Node, request: Request | None = None) -> str:
    """One request per lost instance, pool and market, whoever asks and however often."""
    text = f"replace-{lost.name}-{lost.instance or 'none'}"
    if request is not None and (request.pool, request.market) != (lost.pool, "spot"):
        text += f"-{request.market}-{request.pool}"
    return re.sub(r"[^A-Za-z0-9-]", "-", text)[:120]


async def ask(fleet: Fleet, lost: Node, request: Request) -> Asked:
    """Make, or look at, the one request for a replacement of `lost`."""
    cloud: Any = fleet.cloud_of(lost)
    if cloud is None:
        return Asked("failed", reason=f"nobody can be asked for a replacement of {lost.name}")
    token = token_of(lost, request)
    try:
        if lost.provider != "practice" and not isinstance(cloud, Renter):
            return Asked("failed", reason=f"nothing can be rented from {lost.provider} yet")
        if lost.provider != "practice":
            limit = fleet.records.renting().max_usd or 0.0
            answer = await fleet.blocking(
                cloud.rent, request.pool, token, market=request.market, max_usd=limit
            )
        else:
            answer = await fleet.blocking(cloud.replace, request.pool, token)
    except ReprieveError as error:
        return Asked("pending", reason=error.message)
    return Asked(answer.state, answer.node, answer.reason)


async def replacement(fleet: Fleet, lost: Node, request: Request, on_step: Callable[[str], None]) -> Node:
    """Wait for a replacement of `lost`, install the guard, add it to the records, and return it.

    Raises:
        IncompatibleError: the provider has none, or none came in time; a pending request was given up.
        ReprieveError: the guard could not be installed.
    """
    start, told = fleet.clock.monotonic(), ""
    where = f"{request.market.replace('_', '-')} in {request.pool}"
    while True:
        asked = await ask(fleet, lost, request)
        if asked.state == "failed":
            _short(fleet, request, asked.reason)
            raise IncompatibleError(f"no replacement for {lost.name} ({where}): {asked.reason}")
        if asked.node is not None and asked.state == "ready":
            break
        if fleet.clock.monotonic() - start > request.give_up_s:
            await _give_up(fleet, lost, request)
            _short(fleet, request, asked.reason or "pending")
            raise IncompatibleError(
                f"no replacement for {lost.name} ({where}) in {request.give_up_s:.0f} s: {asked.reason or 'pending'}"
            )
        text = f"waiting for a replacement of {lost.name} ({where})" + (
            f": {asked.reason}" if asked.reason else ""
        )
        if told != text:
            told = text
            on_step(text)
        await fleet.clock.pause(POLL_S)
    node = asked.node
    if lost.provider != "practice":
        node = dataclasses.replace(node, labels={**node.labels, RENTED: request.market})
    on_step(f"{node.name} is there: installing the guard")
    if node.name not in fleet.records.nodes():
        fleet.records.put_node(node)
    await fleet.install(node)
    data = {"replaces": lost.name, "pool": request.pool, "market": request.market}
    fleet.tell("node.ready", f"{node.name} replaces {lost.name}", node=node.name, data=data)
    return node


def _short(fleet: Fleet, request: Request, reason: str) -> None:
    data = {"pool": request.pool, "market": request.market, "reason": reason}
    fleet.tell("capacity.short", f"no {request.market} capacity in {request.pool}: {reason}", data=data)


async def _give_up(fleet: Fleet, lost: Node, request: Request) -> None:
    """Cancel a pending request, so that nothing is paid for that nobody waits for."""
    cloud: Any = fleet.cloud_of(lost)
    if lost.provider != "practice" and isinstance(cloud, Renter):
        try:
            await fleet.blocking(cloud.cancel, token_of(lost, request))
        except ReprieveError as error:
            fleet.tell(
                "capacity.not_cancelled",
                f"the request in {request.pool} could not be cancelled: {error.message}",
            )

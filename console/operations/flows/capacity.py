"""Replacement capacity: ask the provider once per lost node, install the guard on what comes, add it to the fleet."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from backends.clock import parse_utc
from backends.clouds.port import Launcher, Renter
from backends.errors import IncompatibleError, ReprieveError, UnreachableError, UsageError
from backends.records.job import Job
from backends.records.node import Node
from console.operations.decide.capacity import PoolEvent, PoolEventKind, Request, back_off_s, choose
from console.operations.decide.spending import KINDS, Rental, left_usd, rentals
from console.operations.fleet import Fleet
from console.operations.flows.lending import RENTED, cancel, give_back, lender, refused

POLL_S = 2.0
BOOT_S = 300.0  # a machine that is there may take so long until it answers SSH
EVENTS = 1000  # newest events that tell of pools
_KINDS: dict[str, PoolEventKind] = {
    "capacity.short": "short", "capacity.unfit": "unfit", "node.ready": "ready", "node.lost": "reclaim",
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """Where a request for capacity stands."""

    state: str  # ready | pending | failed
    node: Node | None = None
    reason: str = ""
    usd_per_hour: float | None = None


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
    known = (
        {node.pool for node in nodes if node.pool}
        | set(fleet.ledger.observed_hours())
        | set(fleet.records.pools())
    )
    others = tuple(sorted(pool for pool in known if pool.partition("/")[0] == provider))
    cloud = lender(fleet, lost)
    barred = {}
    if isinstance(cloud, Launcher):
        reasons = {pool: cloud.launchable(pool) for pool in {lost.pool, *others}}
        barred = {pool: reason for pool, reason in reasons.items() if reason is not None}
    limits = fleet.records.renting()
    wanted = choose(
        job.restore,
        home=lost.pool,
        others=others,
        waited_s=waited_s,
        backing_off=back_off_s(pool_events(fleet)),
        limits=limits,
        rented=sum(RENTED in node.labels for node in nodes),
        barred=barred,
    )
    money = left_usd(limits, job.uid, job.max_rent_usd, paid_for(fleet), fleet.clock.wall())
    return money if isinstance(wanted, Request) and isinstance(money, str) else wanted


def paid_for(fleet: Fleet) -> list[Rental]:
    """Every machine that was rented, by the history."""
    return rentals(event for _, event in fleet.ledger.events(limit=10_000, kinds=KINDS))


def pool_events(fleet: Fleet) -> list[PoolEvent]:
    """What the history says of pools; a machine that did not fit is forgotten once its pool's record was tested anew."""
    found, now = [], fleet.clock.wall()
    records = fleet.records.pools()
    for _, event in fleet.ledger.events(limit=EVENTS, kinds=tuple(_KINDS)):
        kind = _KINDS[event.kind]
        if kind == "reclaim" and event.data.get("age_limit"):
            kind = "age_limit"
        pool = event.data.get("pool")
        if not isinstance(pool, str):
            continue
        launch = records[pool].launch if pool in records else None
        try:
            at = parse_utc(event.time)
            if kind == "unfit" and launch is not None and parse_utc(launch.get("tested_at", "")) > at:
                continue
        except ReprieveError:
            at = now
        found.append(PoolEvent(pool, kind, max(0.0, now - at)))
    return found


def token_of(lost: Node, request: Request | None = None, attempt: int = 0) -> str:
    """One request per lost instance, pool, market and attempt, whoever asks and however often.

    All jobs of one lost machine share it, so that one machine is paid for, not one a job.
    """
    text = f"replace-{lost.name}-{lost.instance or 'none'}"
    if request is not None and (request.pool, request.market) != (lost.pool, "spot"):
        text += f"-{request.market}-{request.pool}"
    return re.sub(r"[^A-Za-z0-9-]", "-", text)[:110] + (f"-{attempt}" if attempt else "")


def attempts(fleet: Fleet, lost: Node) -> int:
    """How many requests in place of `lost` came to a machine already, which was used, lost or sent back."""
    events = fleet.ledger.events(limit=EVENTS, kinds=("node.ready", "capacity.ended"))
    return sum(event.data.get("replaces") == lost.name for _, event in events)


async def ask(fleet: Fleet, lost: Node, request: Request, token: str, max_usd: float) -> Asked:
    """Make, or look at, the one request for a replacement of `lost`; nothing dearer than `max_usd` in its life."""
    cloud: Any = lender(fleet, lost)
    if cloud is None:
        return Asked("failed", reason=f"nobody can be asked for a replacement of {lost.name}")
    try:
        if lost.provider != "practice" and not isinstance(cloud, Renter):
            return Asked("failed", reason=f"nothing can be rented from {lost.provider} yet")
        if lost.provider != "practice":
            answer = await fleet.blocking(
                cloud.rent, request.pool, token, market=request.market, max_usd=max_usd
            )
        else:
            answer = await fleet.blocking(cloud.replace, request.pool, token)
    except UsageError as error:  # the request itself is wrong: asking again makes it no better
        return Asked("failed", reason=error.message)
    except ReprieveError as error:
        return Asked("pending", reason=error.message)
    return Asked(answer.state, answer.node, answer.reason, answer.usd_per_hour)


async def replacement(
    fleet: Fleet,
    lost: Node,
    request: Request,
    on_step: Callable[[str], None],
    job: Job | None = None,
    token: str = "",
) -> Node:
    """Wait for a replacement of `lost`, install the guard, add it to the records, and return it.

    Args:
        fleet: an opened fleet.
        lost: the node to replace.
        request: pool and market.
        on_step: hears each step.
        job: for whose money; None: nobody's own limit.
        token: the request's; empty: that of the next attempt.

    Raises:
        IncompatibleError: the provider has none, or none came in time, or it never answered; what was asked for was given up.
        ReprieveError: the guard could not be installed; the machine was given back.
    """
    token = token or token_of(lost, request, attempts(fleet, lost))
    limits = fleet.records.renting()
    money = left_usd(
        limits, job.uid if job else "", job.max_rent_usd if job else None, paid_for(fleet), fleet.clock.wall()
    )
    if lost.provider != "practice" and isinstance(money, str):
        raise IncompatibleError(f"no replacement for {lost.name}: {money}")
    max_usd = 0.0 if isinstance(money, str) else money
    node, usd = await _awaited(fleet, lost, request, token, max_usd, on_step)
    if lost.provider != "practice":
        node = dataclasses.replace(node, labels={**node.labels, RENTED: request.market})
    on_step(f"{node.name} is there: installing the guard")
    data = {"replaces": lost.name, "pool": request.pool, "market": request.market}
    if node.name not in fleet.records.nodes():
        fleet.records.put_node(node)
        if lost.provider != "practice":
            _tell_rented(fleet, node, job, usd, data)
    try:
        await _install(fleet, node, on_step)
    except ReprieveError as error:
        await give_back(fleet, node, token, f"the guard could not be installed: {error.message}", data)
        _short(fleet, request, error.message)
        raise
    fleet.tell("node.ready", f"{node.name} replaces {lost.name}", node=node.name, data=data)
    return node


def _tell_rented(fleet: Fleet, node: Node, job: Job | None, usd: float | None, data: dict[str, Any]) -> None:
    price = "at a price that is not known" if usd is None else f"at {usd:.4g} USD an hour"
    more = {
        "instance": node.instance, "usd_per_hour": usd, "uid": job.uid if job else "",
        "rented_at": node.labels.get("rented_at"),
    }  # fmt: skip
    name = job.name if job else None
    fleet.tell(
        "node.rented", f"{node.name} was rented {price}", node=node.name, job=name, data={**data, **more}
    )


async def _awaited(
    fleet: Fleet, lost: Node, request: Request, token: str, max_usd: float, on_step: Callable[[str], None]
) -> tuple[Node, float | None]:
    """The node that came, and its price an hour."""
    start, told = fleet.clock.monotonic(), ""
    where = f"{request.market.replace('_', '-')} in {request.pool}"
    while True:
        asked = await ask(fleet, lost, request, token, max_usd)
        if asked.state == "failed":
            _short(fleet, request, asked.reason)
            raise IncompatibleError(f"no replacement for {lost.name} ({where}): {asked.reason}")
        if asked.node is not None and asked.state == "ready":
            return asked.node, asked.usd_per_hour
        if fleet.clock.monotonic() - start > request.give_up_s:
            await cancel(fleet, lost, request.pool, token)
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


async def _install(fleet: Fleet, node: Node, on_step: Callable[[str], None]) -> None:
    """The guard on a machine that may still be starting; a machine that is up long before SSH answers is usual."""
    start, told = fleet.clock.monotonic(), False
    while True:
        try:
            await fleet.install(node)
            return
        except UnreachableError as error:
            if fleet.clock.monotonic() - start > BOOT_S:
                raise
            if not told:
                on_step(f"{node.name} does not answer yet: {error.message}")
            told = True
            await fleet.clock.pause(5.0)


def _short(fleet: Fleet, request: Request, reason: str) -> None:
    data = {"pool": request.pool, "market": request.market, "reason": reason}
    fleet.tell("capacity.short", f"no {request.market} capacity in {request.pool}: {reason}", data=data)


async def from_any(
    fleet: Fleet,
    job: Job,
    lost: Node,
    first: tuple[Request, str],
    on_step: Callable[[str], None],
    *,
    waited_s: Callable[[], float],
    alone: Callable[[Node], bool],
) -> Node:
    """A new machine that the gate lets take `job`: from the first pool that has one, the next one asked at once.

    Args:
        fleet: an opened fleet.
        job: the job that was lost.
        lost: its node.
        first: what to ask for first, and its token.
        on_step: hears each step.
        waited_s: how long ago the loss was proven.
        alone: whether nobody but this job is meant to use a machine.

    Raises:
        IncompatibleError: no pool had one that fits; what came and did not fit was given back.
        ReprieveError: a guard could not be installed.
    """
    request, token = first
    while True:
        try:
            node = await replacement(fleet, lost, request, on_step, job, token)
            reason = await refused(fleet, job, node) if lost.provider != "practice" else ""
            if not reason:
                return node
            text = f"{node.name} ({request.pool}) cannot take job {job.name}: {reason}"
            data = {"pool": request.pool, "market": request.market, "replaces": lost.name, "reason": reason}
            fleet.tell("capacity.unfit", text, node=node.name, job=job.name, data=data)
            if alone(node):
                await give_back(fleet, node, token, "its image or hardware does not fit", data)
            raise IncompatibleError(
                text,
                hint=f"mend the launch record of {request.pool}, then: reprieve pools test {request.pool}",
            )
        except IncompatibleError as error:
            following = request_for(fleet, job, lost, waited_s())
            if lost.provider == "practice" or isinstance(following, str):
                raise
            on_step(error.message)
            request, token = following, token_of(lost, following, attempts(fleet, lost))


def preview(fleet: Fleet, job: Job, lost: Node, waited_s: float) -> dict[str, Any]:
    """What would be asked for now, as the exact call where the provider can say it; contacts nobody."""
    wanted = request_for(fleet, job, lost, waited_s)
    if isinstance(wanted, str):
        return {"job": job.name, "reason": wanted}
    cloud = lender(fleet, lost)
    found: dict[str, Any] = {"job": job.name, "pool": wanted.pool, "market": wanted.market}
    if isinstance(cloud, Launcher):
        token = token_of(lost, wanted, attempts(fleet, lost))
        found["request"] = cloud.request(wanted.pool, token, market=wanted.market)
    return found

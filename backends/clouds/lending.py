"""Renting one machine, whoever lends it: asked for once, never dearer than allowed, handed over as a bare node.

Providers give two acts: what of this request is known there (found by its mark), and one creation, which is idempotent for
the request's token and the number of its machines that have ended.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from backends.clean import clean
from backends.clock import Clock, format_utc
from backends.clouds.port import Found, Market, Replacement
from backends.errors import UsageError
from backends.records.node import Node

LEAST_HOURS = 1.0  # a machine must be affordable for this long to be asked for
FLEET_MARK, TOKEN_MARK, POOL_MARK = "reprieve:fleet", "reprieve:token", "reprieve:pool"

Usd = Callable[[str], float | None]  # USD an hour of a pool on the wanted market; None: not known


class ShortError(Exception):
    """The pool has nothing now; the text is the provider's, cleaned."""


class WayIn(Protocol):
    """How SSH reaches a machine that comes of a launch record."""

    @property
    def user(self) -> str | None:
        """The user's name; None: ssh_config's."""
        ...

    @property
    def port(self) -> int | None:
        """The port; None: the usual one."""
        ...

    @property
    def identity_file(self) -> str | None:
        """The private key's path; None: the agent's."""
        ...

    @property
    def address(self) -> str | None:
        """`public` or `private`; None: the public one where there is one."""
        ...


@dataclass(frozen=True)
class Request:
    """One machine to rent."""

    provider: str
    pools: tuple[str, ...]  # of which it may come; the first is the one that was asked for
    token: str
    market: Market
    way: WayIn


def client_token(*parts: object) -> str:
    """A token of at most 49 characters (small letters, digits, `-`): the same parts, the same token."""
    digest = hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()
    return f"reprieve-{digest[:40]}"


def marks(fleet: str, token: str, pool: str) -> dict[str, str]:
    """The tags by which what is created is found again."""
    return {FLEET_MARK: fleet, TOKEN_MARK: client_token(token), POOL_MARK: pool}


def rent(
    request: Request,
    known: Iterable[Found],
    create: Callable[[int], Found],
    usd: Usd,
    max_usd: float,
    clock: Clock,
) -> Replacement:
    """Ask for the machine, or look at what an earlier request with the same token came to.

    Args:
        request: what.
        known: every machine that carries the request's mark, in any state.
        create: makes one, given how many of the request have ended; ShortError where no pool has one.
        usd: prices; nothing is asked for whose price is not known.
        max_usd: nothing is asked for whose first hour costs more.
        clock: for when it was rented.
    """
    found = list(known)
    living = sorted((each for each in found if each.state == "running"), key=lambda each: each.instance)
    if not living:
        refusal = too_dear(request, usd, max_usd)
        if refusal:
            return Replacement(request.token, "failed", reason=refusal)
        try:
            living = [create(len(found))]
        except ShortError as error:
            return Replacement(request.token, "failed", reason=str(error))
    machine = living[0]
    if machine.state != "running":
        reason = f"{machine.instance} of this request has ended already ({machine.reason or machine.state})"
        return Replacement(request.token, "failed", reason=reason)
    return handed(request, machine, usd, clock)


def too_dear(request: Request, usd: Usd, max_usd: float) -> str:
    """Why nothing is asked for at these prices; empty: it may be."""
    for pool in request.pools:
        price = usd(pool)
        if price is None:
            provider, region, kind = [*pool.split("/"), "", ""][:3]
            return (
                f"the {request.market.replace('_', '-')} price of {pool} is not known, so max_usd cannot be kept: "
                f"reprieve pools pull --prices {provider} --region {region} --instance {kind}"
            )
        if price * LEAST_HOURS > max_usd:
            return (
                f"{pool} costs {price:.2f} USD an hour, and {max_usd:.2f} USD are left of what may be spent"
            )
    return ""


def handed(request: Request, machine: Found, usd: Usd, clock: Clock) -> Replacement:
    """The machine as a bare node, or why it is none yet."""
    price = usd(machine.pool)
    host = address_of(machine, request.way)
    if machine.pending or host is None:
        why = "is starting" if machine.pending else "has no address yet"
        return Replacement(request.token, "pending", reason=f"{machine.instance} {why}", usd_per_hour=price)
    way = request.way
    ssh = host if way.user is None else f"{way.user}@{host}"
    if way.port is not None:
        ssh += f":{way.port}"
    labels = {
        "lifecycle": "spot" if machine.spot else "on-demand",
        "rented_at": machine.launched_at or format_utc(clock.wall()),
    }
    if price is not None:
        labels["usd_per_hour"] = f"{price:.6g}"
    last = machine.instance.rpartition("#")[2].rpartition("/")[2]
    name = f"rented-{last.removeprefix('i-')[-12:]}"
    node = Node(name, ssh, request.provider, machine.pool, machine.instance, way.identity_file, labels=labels)
    return Replacement(request.token, "ready", node, usd_per_hour=price)


def address_of(machine: Found, way: WayIn) -> str | None:
    """The address that SSH takes; None while there is none."""
    if way.address == "public":
        return machine.public_address
    if way.address == "private":
        return machine.private_address
    return machine.public_address or machine.private_address


def short_of(said: Mapping[str, list[str]]) -> ShortError:
    """One error for all places that had nothing: each reason once, with the places that gave it."""
    return ShortError("; ".join(f"{text} ({', '.join(where)})" for text, where in said.items()))


def pool_parts(provider: str, pool: str) -> tuple[str, str]:
    """Region and instance type of a pool of `provider` whose machines run Linux; UsageError for anything else."""
    parts = pool.split("/")
    if len(parts) != 4 or parts[0] != provider or not all(parts):
        raise UsageError(f"pool {clean(pool, limit=80)!r}: {provider}/REGION/TYPE/linux is expected")
    if parts[3] != "linux":
        raise UsageError(f"pool {clean(pool, limit=80)!r}: only linux machines are launched")
    return parts[1], parts[2]

"""Renting one machine on AWS: asked for once, found again by its mark, given up whole.

Before anything is created, EC2 is asked what carries the request's mark; the ClientToken covers the seconds in which a new
machine is not listed yet, and other controllers that ask at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from backends.clean import clean
from backends.clock import Clock, format_utc
from backends.clouds.aws import requests
from backends.clouds.aws.calls import code_of, explained
from backends.clouds.aws.instances import found_of, instances
from backends.clouds.aws.launch import Launch
from backends.clouds.port import Found, Market, Replacement
from backends.errors import DamagedError
from backends.records.node import Node

LEAST_HOURS = 1.0  # a machine must be affordable for this long to be asked for
# What EC2 says when this pool has nothing for us now; HTTP 500 or 400, so told by the code alone.
SHORT = frozenset({
    "InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientCapacity", "InsufficientReservedInstanceCapacity",
    "InsufficientFreeAddressesInSubnet", "SpotMaxPriceTooLow", "MaxSpotInstanceCountExceeded", "InstanceLimitExceeded",
    "VcpuLimitExceeded", "Unsupported", "UnfulfillableCapacity", "RequestResourceCountExceeded",
})  # fmt: skip
LIVE = ("running", "stopping", "stopped")


class _ShortError(Exception):
    """The pool has nothing now; the text is EC2's, cleaned."""


@dataclass(frozen=True)
class Wanted:
    """One machine to rent."""

    pool: str
    region: str
    kind: str  # instance type
    launch: Launch
    token: str
    market: Market
    fleet: str  # the fleet's mark

    @property
    def mark(self) -> dict[str, str]:
        """The tags of what is created for it."""
        return requests.marks(self.fleet, self.token, self.pool)


def rent(
    ec2: Any, wanted: Wanted, usd: Callable[[str], float | None], max_usd: float, clock: Clock
) -> Replacement:
    """Ask for the machine, or look at what an earlier request with the same token came to.

    Args:
        ec2: a client that tries once.
        wanted: what.
        usd: the price of an hour of a pool on the wanted market; None: not known.
        max_usd: nothing is asked for whose first hour costs more, or whose price is not known.
        clock: for when it was rented.

    Raises:
        UsageError, CredentialsError, UnreachableError: the call failed; asked again, it is the same request.
    """
    filters = [(f"tag:{requests.TOKEN_TAG}", [wanted.mark[requests.TOKEN_TAG]])]
    known = instances(wanted.region, filters, ec2)
    living = sorted((each for each in known if each.state == "running"), key=lambda each: each.instance)
    if not living:
        refusal = too_dear(wanted, usd, max_usd)
        if refusal:
            return Replacement(wanted.token, "failed", reason=refusal)
        try:
            living = list(_create(ec2, wanted, generation=len(known)))
        except _ShortError as error:
            return Replacement(wanted.token, "failed", reason=str(error))
    machine = living[0]
    if machine.state != "running":
        reason = f"{machine.instance} of this request has ended already ({machine.reason or machine.state})"
        return Replacement(wanted.token, "failed", reason=reason)
    return _handed(wanted, machine, usd, clock)


def _handed(wanted: Wanted, machine: Found, usd: Callable[[str], float | None], clock: Clock) -> Replacement:
    price = usd(machine.pool)
    host = address_of(machine, wanted.launch)
    if machine.pending or host is None:
        why = (
            f"{machine.instance} is starting" if machine.pending else f"{machine.instance} has no address yet"
        )
        return Replacement(wanted.token, "pending", reason=why, usd_per_hour=price)
    ssh = host if wanted.launch.user is None else f"{wanted.launch.user}@{host}"
    if wanted.launch.port is not None:
        ssh += f":{wanted.launch.port}"
    labels = {
        "lifecycle": "spot" if machine.spot else "on-demand",
        "rented_at": machine.launched_at or format_utc(clock.wall()),
    }
    if price is not None:
        labels["usd_per_hour"] = f"{price:.6g}"
    name = f"rented-{machine.instance.removeprefix('i-')[-12:]}"
    node = Node(name, ssh, "aws", machine.pool, machine.instance, wanted.launch.identity_file, labels=labels)
    return Replacement(wanted.token, "ready", node, usd_per_hour=price)


def address_of(machine: Found, launch: Launch) -> str | None:
    """The address that SSH takes; None while there is none."""
    if launch.address == "public":
        return machine.public_address
    if launch.address == "private":
        return machine.private_address
    return machine.public_address or machine.private_address


def too_dear(wanted: Wanted, usd: Callable[[str], float | None], max_usd: float) -> str:
    """Why nothing is asked for at these prices; empty: it may be."""
    for kind in dict.fromkeys((wanted.kind, *wanted.launch.types)):
        pool = f"aws/{wanted.region}/{kind}/linux"
        price = usd(pool)
        if price is None:
            return (
                f"the {wanted.market.replace('_', '-')} price of {pool} is not known, so max_usd cannot be kept: "
                f"reprieve pools pull --prices aws --region {wanted.region} --instance {kind}"
            )
        if price * LEAST_HOURS > max_usd:
            return (
                f"{pool} costs {price:.2f} USD an hour, and {max_usd:.2f} USD are left of what may be spent"
            )
    return ""


def _create(ec2: Any, wanted: Wanted, *, generation: int) -> tuple[Found, ...]:
    if wanted.launch.types:
        return _by_fleet(ec2, wanted, generation)
    said: dict[str, list[str]] = {}
    for subnet in wanted.launch.subnets or (None,):
        token = requests.client_token(wanted.token, wanted.kind, subnet, generation)
        request = requests.run_request(
            wanted.launch, wanted.kind, subnet, market=wanted.market, mark=wanted.mark, token=token
        )
        try:
            answer = call(ec2, "run_instances", wanted.region, request)
        except _ShortError as error:
            said.setdefault(str(error), []).append(subnet or "the default subnet")
            continue
        return tuple(found_of(wanted.region, row) for row in answer.get("Instances", []))
    raise _ShortError("; ".join(f"{text} ({', '.join(where)})" for text, where in said.items()))


def _by_fleet(ec2: Any, wanted: Wanted, generation: int) -> tuple[Found, ...]:
    template = requests.template_request(wanted.launch, fleet=wanted.fleet)
    name = template["LaunchTemplateName"]
    with explained("launch template", wanted.region):
        try:
            ec2.create_launch_template(**template)
        except ec2.exceptions.ClientError as error:
            if code_of(error) != "InvalidLaunchTemplateName.AlreadyExistsException":
                raise
    token = requests.client_token(wanted.token, wanted.kind, *wanted.launch.types, generation)
    request = requests.fleet_request(
        wanted.launch, wanted.kind, market=wanted.market, mark=wanted.mark, token=token, template=name
    )
    answer = call(ec2, "create_fleet", wanted.region, request)
    made = [one for row in answer.get("Instances", []) for one in row.get("InstanceIds", [])]
    if not made:
        codes = dict.fromkeys(
            f"{clean(row.get('ErrorCode', ''), limit=60)}: {clean(row.get('ErrorMessage', ''), limit=160)}"
            for row in answer.get("Errors", [])
        )
        raise _ShortError("; ".join(codes) or "CreateFleet gave no machine and no reason")
    found = instances(wanted.region, [("instance-id", made)], ec2)
    if not found:
        raise DamagedError(
            f"CreateFleet in {wanted.region} told of {clean(made[0])}, which EC2 does not list yet"
        )
    return found


def call(ec2: Any, name: str, region: str, request: dict[str, Any]) -> dict[str, Any]:
    """One creating call; `_ShortError` where the pool has nothing now."""
    with explained(name.replace("_", " "), region):
        try:
            answer: dict[str, Any] = getattr(ec2, name)(**request)
        except ec2.exceptions.ClientError as error:
            code = code_of(error)
            if code not in SHORT:
                raise
            text = clean(error.response.get("Error", {}).get("Message", ""), limit=160)
            raise _ShortError(f"{code}: {text}" if text else code) from None
    return answer


def trial(ec2: Any, wanted: Wanted) -> None:
    """Try each of the record's instance types without creating anything (EC2's DryRun).

    Raises:
        UsageError, CredentialsError, UnreachableError: what EC2 says against it.
    """
    for kind in dict.fromkeys((wanted.kind, *wanted.launch.types)):
        for subnet in wanted.launch.subnets or (None,):
            request = requests.run_request(
                wanted.launch, kind, subnet, market=wanted.market, mark=wanted.mark,
                token=requests.client_token("trial", kind, subnet),
            )  # fmt: skip
            with explained(f"trial launch of {kind}", wanted.region):
                try:
                    ec2.run_instances(DryRun=True, **request)
                except ec2.exceptions.ClientError as error:
                    if code_of(error) != "DryRunOperation":  # "it would have succeeded"
                        raise


def cancel(ec2: Any, region: str, token: str) -> tuple[str, ...]:
    """End every machine that came of this request; their ids."""
    mark = requests.client_token(token)
    found = instances(region, [(f"tag:{requests.TOKEN_TAG}", [mark])], ec2)
    names = [each.instance for each in found if each.state in LIVE]
    if names:
        with explained("terminate instances", region):
            ec2.terminate_instances(InstanceIds=names)
    return tuple(names)

"""Renting one machine on AWS: asked for once, found again by its mark, given up whole.

Before anything is created, EC2 is asked what carries the request's mark; the ClientToken covers the seconds in which a new
machine is not listed yet, and other controllers that ask at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from backends.clean import clean
from backends.clock import Clock
from backends.clouds import lending
from backends.clouds.aws import requests
from backends.clouds.aws.calls import code_of, explained
from backends.clouds.aws.instances import found_of, instances
from backends.clouds.aws.launch import Launch
from backends.clouds.lending import TOKEN_MARK, Request, ShortError, client_token, marks, short_of
from backends.clouds.port import Found, Market, Replacement
from backends.errors import DamagedError

# What EC2 says when this pool has nothing for us now; HTTP 500 or 400, so told by the code alone.
SHORT = frozenset({
    "InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientCapacity", "InsufficientReservedInstanceCapacity",
    "InsufficientFreeAddressesInSubnet", "SpotMaxPriceTooLow", "MaxSpotInstanceCountExceeded", "InstanceLimitExceeded",
    "VcpuLimitExceeded", "Unsupported", "UnfulfillableCapacity", "RequestResourceCountExceeded",
})  # fmt: skip
LIVE = ("running", "stopping", "stopped")


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
        return marks(self.fleet, self.token, self.pool)

    @property
    def request(self) -> Request:
        """What is asked for, as any provider is asked."""
        kinds = dict.fromkeys((self.kind, *self.launch.types))
        pools = tuple(f"aws/{self.region}/{kind}/linux" for kind in kinds)
        return Request("aws", pools, self.token, self.market, self.launch)


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
    filters = [(f"tag:{TOKEN_MARK}", [wanted.mark[TOKEN_MARK]])]
    known = instances(wanted.region, filters, ec2)
    return lending.rent(wanted.request, known, lambda ended: _create(ec2, wanted, ended), usd, max_usd, clock)


def _create(ec2: Any, wanted: Wanted, generation: int) -> Found:
    if wanted.launch.types:
        return _by_fleet(ec2, wanted, generation)
    said: dict[str, list[str]] = {}
    for subnet in wanted.launch.subnets or (None,):
        token = client_token(wanted.token, wanted.kind, subnet, generation)
        request = requests.run_request(
            wanted.launch, wanted.kind, subnet, market=wanted.market, mark=wanted.mark, token=token
        )
        try:
            answer = call(ec2, "run_instances", wanted.region, request)
        except ShortError as error:
            said.setdefault(str(error), []).append(subnet or "the default subnet")
            continue
        rows = answer.get("Instances", [])
        if len(rows) != 1:
            raise DamagedError(
                f"RunInstances in {wanted.region} told of {len(rows)} machines; 1 was asked for"
            )
        return found_of(wanted.region, rows[0])
    raise short_of(said)


def _by_fleet(ec2: Any, wanted: Wanted, generation: int) -> Found:
    template = requests.template_request(wanted.launch, fleet=wanted.fleet)
    name = template["LaunchTemplateName"]
    with explained("launch template", wanted.region):
        try:
            ec2.create_launch_template(**template)
        except ec2.exceptions.ClientError as error:
            if code_of(error) != "InvalidLaunchTemplateName.AlreadyExistsException":
                raise
    token = client_token(wanted.token, wanted.kind, *wanted.launch.types, generation)
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
        raise ShortError("; ".join(codes) or "CreateFleet gave no machine and no reason")
    found = instances(wanted.region, [("instance-id", made)], ec2)
    if not found:
        raise DamagedError(
            f"CreateFleet in {wanted.region} told of {clean(made[0])}, which EC2 does not list yet"
        )
    return found[0]


def call(ec2: Any, name: str, region: str, request: dict[str, Any]) -> dict[str, Any]:
    """One creating call; `ShortError` where the pool has nothing now."""
    with explained(name.replace("_", " "), region):
        try:
            answer: dict[str, Any] = getattr(ec2, name)(**request)
        except ec2.exceptions.ClientError as error:
            code = code_of(error)
            if code not in SHORT:
                raise
            text = clean(error.response.get("Error", {}).get("Message", ""), limit=160)
            raise ShortError(f"{code}: {text}" if text else code) from None
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
                token=client_token("trial", kind, subnet),
            )  # fmt: skip
            with explained(f"trial launch of {kind}", wanted.region):
                try:
                    ec2.run_instances(DryRun=True, **request)
                except ec2.exceptions.ClientError as error:
                    if code_of(error) != "DryRunOperation":  # "it would have succeeded"
                        raise


def cancel(ec2: Any, region: str, token: str) -> tuple[str, ...]:
    """End every machine that came of this request; their ids."""
    mark = client_token(token)
    found = instances(region, [(f"tag:{TOKEN_MARK}", [mark])], ec2)
    names = [each.instance for each in found if each.state in LIVE]
    if names:
        with explained("terminate instances", region):
            ec2.terminate_instances(InstanceIds=names)
    return tuple(names)

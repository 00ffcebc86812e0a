"""AWS as a witness (does this node's instance live?) and as a lender. What cannot be asked or is not known is `unknown`, never gone."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping
from typing import Any

from backends.clock import Clock, format_utc
from backends.clouds import recorded
from backends.clouds.aws import launch as records
from backends.clouds.aws import owned as owning
from backends.clouds.aws import renting, requests, spot
from backends.clouds.aws.calls import client, explained
from backends.clouds.aws.instances import instances
from backends.clouds.lender import Lender
from backends.clouds.lending import FLEET_MARK, client_token
from backends.clouds.port import InstanceState, Market, Owned, Replacement
from backends.errors import ReprieveError, UsageError
from backends.records.node import Node

SOURCE = "aws/ec2:DescribeInstances"
GROUP_TAG = (
    "aws:autoscaling:groupName"  # put there by AWS alone: tags that begin with aws: cannot be made by users
)


class AwsCloud(Lender[records.Launch]):
    """Asks EC2 in the region of each node's pool; see `port.Cloud`, `Renter`, `Launcher`, `Reaper`, `Terminator`.

    One client a region is kept. Nothing is created without a tested launch record, a known price and the fleet's mark.
    """

    provider, shown = "aws", "AWS"

    def __init__(self, clock: Clock, **words: Any) -> None:
        super().__init__(clock, **words)
        self._clients: dict[tuple[str, int | None], Any] = {}
        self._lock = threading.Lock()

    # -- a witness ------------------------------------------------------------------------------------------------

    def instance(self, node: Node) -> InstanceState:
        """What EC2 says of this node's instance; never raises."""
        asked = format_utc(self._clock.wall())
        region = region_of(node)
        if node.instance is None:
            return InstanceState("unknown", f"node {node.name} has no instance id", asked, SOURCE)
        if region is None:
            return InstanceState(
                "unknown", f"node {node.name} has no pool that names its region", asked, SOURCE
            )
        try:
            rows = instances(region, [("instance-id", [node.instance])], self._client(region))
        except ReprieveError as error:
            return InstanceState("unknown", error.message, asked, SOURCE)
        if len(rows) != 1:
            reason = (
                f"EC2 in {region} knows no {node.instance} for these credentials: ended more than an hour ago, or of "
                "another account or region"
            )
            return InstanceState("unknown", reason, asked, SOURCE)
        ended = None
        if rows[0].spot and rows[0].state in ("terminated", "stopped"):
            ended = spot.ended_at(region, node.instance, self._client(region))
        source = SOURCE if ended is None else f"{SOURCE}, end by {spot.CALL}"
        return InstanceState(
            rows[0].state, rows[0].reason, asked, source, ended, rows[0].tags.get(GROUP_TAG, "")
        )

    def terminate(self, node: Node) -> None:
        """End the node's machine: one of one's own that is on demand is stopped, with its disks; any other is terminated."""
        region = region_of(node)
        if node.instance is None or region is None:
            raise UsageError(
                f"node {node.name}: an instance id and a pool with its region are needed to end its machine"
            )
        ec2 = self._client(region)
        rows = instances(region, [("instance-id", [node.instance])], ec2)
        if not rows:
            raise UsageError(f"EC2 in {region} knows no {node.instance}: nothing was ended")
        keep = not rows[0].spot and FLEET_MARK not in rows[0].tags
        with explained("end instance", region):
            if keep:
                ec2.stop_instances(InstanceIds=[node.instance], Force=True)
            else:
                ec2.terminate_instances(InstanceIds=[node.instance])

    # -- a lender -------------------------------------------------------------------------------------------------

    def rent(self, pool: str, token: str, *, market: Market, max_usd: float) -> Replacement:
        """As `port.Renter.rent`; `failed` too where the pool is not launchable, its price unknown or over `max_usd`."""
        refusal = self.launchable(pool)
        if refusal:
            return Replacement(token, "failed", reason=f"not_launchable: {refusal}")
        wanted = self._wanted(pool, token, market)
        ec2 = self._client(wanted.region, attempts=1)
        return renting.rent(ec2, wanted, lambda each: self._price_of(each, market), max_usd, self._clock)

    def cancel(self, token: str) -> None:
        """End what came of this request, in every region of a pool with a launch record."""
        for region in sorted({self._parts(pool)[0] for pool in self._launches() if pool.startswith("aws/")}):
            renting.cancel(self._client(region), region, token)

    def request(self, pool: str, token: str, *, market: Market) -> dict[str, Any]:
        """The exact call: `call` and `parameters`; with CreateFleet also the launch template that it needs."""
        wanted = self._wanted(pool, token, market)
        launch = wanted.launch
        if launch.types:
            template = requests.template_request(launch, fleet=wanted.fleet)
            made = client_token(token, wanted.kind, *launch.types, 0)
            parameters = requests.fleet_request(
                launch,
                wanted.kind,
                market=market,
                mark=wanted.mark,
                token=made,
                template=template["LaunchTemplateName"],
            )
            return {
                "call": "CreateFleet",
                "region": wanted.region,
                "parameters": parameters,
                "template": template,
            }
        subnet = launch.subnets[0] if launch.subnets else None
        made = client_token(token, wanted.kind, subnet, 0)
        parameters = requests.run_request(
            launch, wanted.kind, subnet, market=market, mark=wanted.mark, token=made
        )
        return {"call": "RunInstances", "region": wanted.region, "parameters": parameters}

    def record(self, node: Node) -> dict[str, Any]:
        """The launch record of this node's machine, joined with what only people know of the pool's; not tested yet."""
        region = region_of(node)
        if region is None or node.instance is None or node.pool is None:
            raise UsageError(f"node {node.name}: a pool and an instance id are needed for a launch record")
        ec2 = self._client(region)
        with explained("instance", region):
            told = ec2.describe_instances(Filters=[{"Name": "instance-id", "Values": [node.instance]}])
        rows = [row for each in told.get("Reservations", []) for row in each.get("Instances", [])]
        if len(rows) != 1:
            raise UsageError(f"EC2 in {region} knows no {node.instance}: its launch record cannot be taken")
        wanted = [each["Ebs"]["VolumeId"] for each in rows[0].get("BlockDeviceMappings", []) if "Ebs" in each]
        volumes: dict[str, Any] = {}
        if wanted:
            with explained("volumes", region):
                answer = ec2.describe_volumes(Filters=[{"Name": "volume-id", "Values": wanted}])
            volumes = {row["VolumeId"]: row for row in answer.get("Volumes", [])}
        new = dataclasses.replace(
            records.taken(rows[0], volumes),
            **recorded.way_in(
                node.ssh, node.identity_file, rows[0].get("PublicIpAddress"), rows[0].get("PrivateIpAddress")
            ),
        )
        before = self._launches().get(node.pool)
        old = None if before is None else records.read(node.pool, before)
        return records.write(records.merged(old, new))

    def test(self, pool: str, table: Mapping[str, Any] | None = None) -> str:
        """Try the pool's record, or `table` in its place, by DryRun; when it passed. Raises what EC2 says against it."""
        launch = self._launch(pool) if table is None else records.read(pool, table)
        region, kind = self._parts(pool)
        wanted = renting.Wanted(pool, region, kind, launch, "trial", "spot", self._fleet())
        renting.trial(self._client(region), wanted)
        return format_utc(self._clock.wall())

    # -- what it created ------------------------------------------------------------------------------------------

    def owned(self, region: str) -> tuple[Owned, ...]:
        """Everything of this fleet in `region` that still exists."""
        return owning.owned(self._client(region), region, self._fleet())

    def remove(self, thing: Owned) -> None:
        """Remove it, if it still carries the mark."""
        owning.remove(self._client(thing.region), thing, self._fleet())

    def _read(self, pool: str, table: Mapping[str, Any]) -> records.Launch:
        return records.read(pool, table)

    def _wanted(self, pool: str, token: str, market: Market) -> renting.Wanted:
        region, kind = self._parts(pool)
        return renting.Wanted(pool, region, kind, self._launch(pool), token, market, self._fleet())

    def _client(self, region: str, attempts: int | None = None) -> Any:
        with self._lock:  # making a client is not safe in threads, using one is
            if (region, attempts) not in self._clients:
                self._clients[region, attempts] = client("ec2", region, attempts=attempts)
            return self._clients[region, attempts]


def region_of(node: Node) -> str | None:
    """The region that the node's pool names; None without one."""
    parts = (node.pool or "").split("/")
    return parts[1] if len(parts) == 4 and parts[0] == "aws" and parts[1] else None

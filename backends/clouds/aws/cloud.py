"""AWS as a witness: does this node's instance live? What cannot be asked or is not known there is `unknown`, never gone."""

from __future__ import annotations

import threading
from typing import Any

from backends.clock import Clock, format_utc
from backends.clouds.aws import spot
from backends.clouds.aws.calls import client
from backends.clouds.aws.instances import instances
from backends.clouds.port import InstanceState, Replacement
from backends.errors import ReprieveError
from backends.records.node import Node

SOURCE = "aws/ec2:DescribeInstances"
GROUP_TAG = (
    "aws:autoscaling:groupName"  # put there by AWS alone: tags that begin with aws: cannot be made by users
)


class AwsCloud:
    """Asks EC2 in the region of each node's pool; see `port.Cloud`. One client a region, kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

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

    def replace(self, pool: str, token: str) -> Replacement:
        """Nothing is rented in this version."""
        return Replacement(token, "failed", reason=f"renting on AWS is not in this version ({pool})")

    def _client(self, region: str) -> Any:
        with self._lock:  # making a client is not safe in threads, using one is
            if region not in self._clients:
                self._clients[region] = client("ec2", region)
            return self._clients[region]


def region_of(node: Node) -> str | None:
    """The region that the node's pool names; None without one."""
    parts = (node.pool or "").split("/")
    return parts[1] if len(parts) == 4 and parts[0] == "aws" and parts[1] else None

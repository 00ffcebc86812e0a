"""When a spot instance ended, as its spot request tells: the one time of an end that EC2 gives.

DescribeInstances gives none: its StateTransitionReason carries the moment at which a user *asked* for the end, and the
machine may have worked on after that. The status of a spot request changes to `instance-terminated-…` or
`instance-stopped-…` once the instance is gone, so that its UpdateTime lies at or after the true end.
"""

from __future__ import annotations

import datetime
from typing import Any

from backends.clock import format_utc
from backends.clouds.aws.calls import client, explained
from backends.errors import ReprieveError

CALL = "DescribeSpotInstanceRequests"
_GONE = ("instance-terminated-", "instance-stopped-")


def ended_at(region: str, instance: str, ec2: Any = None) -> str | None:
    """RFC 3339 of the end of a spot instance; None where EC2 does not tell, or may not be asked."""
    try:
        asking = ec2 if ec2 is not None else client("ec2", region)
        with explained("spot requests", region):
            answer = asking.describe_spot_instance_requests(
                Filters=[{"Name": "instance-id", "Values": [instance]}]
            )
    except ReprieveError:
        return None
    rows = answer.get("SpotInstanceRequests", [])
    return told(rows[0], instance) if len(rows) == 1 else None


def told(row: dict[str, Any], instance: str) -> str | None:
    """The time that one spot request gives for the end of `instance`; None when it speaks of something else."""
    status = row.get("Status") or {}
    at = status.get("UpdateTime")
    gone = str(status.get("Code", "")).startswith(_GONE)
    if (
        row.get("InstanceId") != instance
        or not gone
        or not isinstance(at, datetime.datetime)
        or at.tzinfo is None
    ):
        return None
    return format_utc(at.timestamp())

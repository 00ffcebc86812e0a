"""Instances of AWS as EC2 tells of them: who is there, is it spot, is it gone and why.

Calls: EC2 DescribeInstances. Ids are asked for by a filter: an id that is not known there is then an empty answer, not an error.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from backends.clean import clean
from backends.clock import format_utc
from backends.clouds.aws.calls import client, explained, pages
from backends.clouds.port import Found, State

_STATES: dict[str, State] = {
    "pending": "running",
    "running": "running",
    "shutting-down": "stopping",
    "stopping": "stopping",
    "stopped": "stopped",
    "terminated": "terminated",
}


def instances(
    region: str, filters: Sequence[tuple[str, Sequence[str]]], ec2: Any = None
) -> tuple[Found, ...]:
    """The instances of `region` that match all `filters` (name, values).

    Args:
        region: such as us-east-1.
        filters: names of DescribeInstances filters with the values that match.
        ec2: a client to use again; None: a new one.

    Raises:
        UsageError, CredentialsError, UnreachableError: the call failed; never a word about an instance.
        DamagedError: its pages have no end.
    """
    asking = ec2 if ec2 is not None else client("ec2", region)
    wanted = [{"Name": name, "Values": list(values)} for name, values in filters]

    def ask(more: dict[str, str]) -> dict[str, Any]:
        with explained("instances", region):
            answer: dict[str, Any] = asking.describe_instances(Filters=wanted, **more)
            return answer

    return tuple(_rows(region, pages(ask, f"instances of {region}")))


def _rows(region: str, answers: Iterator[dict[str, Any]]) -> Iterator[Found]:
    for answer in answers:
        for reservation in answer.get("Reservations", []):
            for row in reservation.get("Instances", []):
                yield found_of(region, row)


def found_of(region: str, row: dict[str, Any]) -> Found:
    """One instance of a DescribeInstances answer.

    A machine that stopped with hibernation may come back with its memory: that is no state in which it is gone.
    """
    tags = {
        clean(tag.get("Key", ""), limit=128): clean(tag.get("Value", ""), limit=256)
        for tag in row.get("Tags", [])
    }
    state: State = _STATES.get(str(row.get("State", {}).get("Name")), "unknown")
    reason = row.get("StateReason", {}).get("Code") or row.get("StateTransitionReason") or ""
    if state == "stopped" and row.get("HibernationOptions", {}).get("Configured"):
        state, reason = "unknown", "stopped with hibernation: its memory may come back"
    kind = clean(row.get("InstanceType", ""), limit=40)
    system = "windows" if str(row.get("Platform", "")).lower() == "windows" else "linux"
    return Found(
        instance=clean(row.get("InstanceId", ""), limit=40),
        name=tags.get("Name", ""),
        pool=f"aws/{region}/{kind}/{system}",
        zone=clean(row.get("Placement", {}).get("AvailabilityZone", ""), limit=40),
        spot=row.get("InstanceLifecycle") == "spot",
        state=state,
        reason=clean(reason, limit=120),
        public_address=_address(row.get("PublicIpAddress")),
        private_address=_address(row.get("PrivateIpAddress")),
        launched_at=_when(row.get("LaunchTime")),
        pending=row.get("State", {}).get("Name") == "pending",
        tags=tags,
    )


def _when(value: object) -> str | None:
    if isinstance(value, datetime.datetime):
        return format_utc(value.timestamp())
    return clean(value, limit=40) if isinstance(value, str) else None


def _address(value: object) -> str | None:
    return clean(value, limit=60) if isinstance(value, str) and value else None

"""The end of a spot instance is taken from its spot request, and from nothing that may lie before it."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from backends.clouds.aws.cloud import AwsCloud
from backends.clouds.aws.spot import ended_at, told
from backends.fakes.clock import FakeClock
from backends.records.node import Node

NAME = "i-0123456789abcdef0"
AT = datetime.datetime(2026, 11, 30, 12, 34, 56, tzinfo=datetime.UTC)


def request(code: str, at: object = AT, instance: str = NAME) -> dict[str, Any]:
    return {"InstanceId": instance, "State": "closed", "Status": {"Code": code, "UpdateTime": at}}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (request("instance-terminated-no-capacity"), "2026-11-30T12:34:56.000Z"),
        (request("instance-terminated-by-price"), "2026-11-30T12:34:56.000Z"),
        (request("instance-stopped-no-capacity"), "2026-11-30T12:34:56.000Z"),
        (request("marked-for-termination"), None),  # it works on for two minutes
        (request("fulfilled"), None),
        (request("instance-terminated-no-capacity", "yesterday"), None),
        (request("instance-terminated-no-capacity", AT.replace(tzinfo=None)), None),
        (request("instance-terminated-no-capacity", instance="i-0another"), None),
        ({}, None),
    ],
)
def test_what_a_spot_request_tells(row: dict[str, Any], expected: str | None) -> None:
    assert told(row, NAME) == expected


class Ec2:
    """A client of EC2 that knows one instance and its spot request."""

    def __init__(self, *, spot: bool, state: str, requests: Any) -> None:
        self.asked: list[str] = []
        self._row = {
            "InstanceId": NAME, "State": {"Name": state}, "InstanceType": "g5.xlarge",
            "StateTransitionReason": "User initiated (2026-11-30 12:30:00 GMT)",
            "Tags": [{"Key": "aws:autoscaling:groupName", "Value": "trainers"}],
            **({"InstanceLifecycle": "spot"} if spot else {}),
        }  # fmt: skip
        self._requests = requests

    def describe_instances(self, **_: Any) -> dict[str, Any]:
        self.asked.append("instances")
        return {"Reservations": [{"Instances": [self._row]}]}

    def describe_spot_instance_requests(self, **_: Any) -> dict[str, Any]:
        self.asked.append("requests")
        if isinstance(self._requests, Exception):
            raise self._requests
        return {"SpotInstanceRequests": self._requests}


def asked(ec2: Ec2) -> tuple[str | None, str, list[str]]:
    cloud = AwsCloud(FakeClock())
    cloud._clients["us-east-1", None] = ec2
    said = cloud.instance(Node("gpu-a", "u@h", "aws", "aws/us-east-1/g5.xlarge/linux", NAME))
    return said.ended_at, said.source, ec2.asked


def test_only_a_spot_instance_that_ended_is_asked_for_the_time_of_its_end() -> None:
    rows = [request("instance-terminated-no-capacity")]
    at, source, calls = asked(Ec2(spot=True, state="terminated", requests=rows))
    assert at == "2026-11-30T12:34:56.000Z"
    assert source == "aws/ec2:DescribeInstances, end by DescribeSpotInstanceRequests"
    assert calls == ["instances", "requests"]
    assert asked(Ec2(spot=True, state="running", requests=rows)) == (
        None,
        "aws/ec2:DescribeInstances",
        ["instances"],
    )
    at, source, calls = asked(Ec2(spot=False, state="terminated", requests=rows))
    assert (at, calls) == (None, ["instances"]), "a user's request is no end"


def test_what_may_not_be_asked_is_unknown_and_the_death_stands() -> None:
    botocore = pytest.importorskip("botocore.exceptions")
    refused = botocore.ClientError({"Error": {"Code": "UnauthorizedOperation", "Message": "no"}}, "x")
    assert ended_at("us-east-1", NAME, Ec2(spot=True, state="terminated", requests=refused)) is None
    assert ended_at("us-east-1", NAME, Ec2(spot=True, state="terminated", requests=[])) is None


def test_the_scaling_group_of_an_instance_is_told() -> None:
    cloud = AwsCloud(FakeClock())
    cloud._clients["us-east-1", None] = Ec2(spot=True, state="running", requests=[])
    assert (
        cloud.instance(Node("gpu-a", "u@h", "aws", "aws/us-east-1/g5.xlarge/linux", NAME)).group == "trainers"
    )

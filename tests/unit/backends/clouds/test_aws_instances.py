"""AWS as a witness, against moto's EC2: who is there, is it gone, and what only looks like it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from backends.clock import SystemClock
from backends.clouds.aws.calls import client
from backends.clouds.aws.cloud import AwsCloud, region_of
from backends.clouds.aws.instances import found_of, instances
from backends.records.node import Node
from console.operations.decide.loss import Limits, Witness, judge_node
from tests.support.data import data
from tests.support.motoserver import REGION, launch, moto_server

POOL = f"aws/{REGION}/g5.xlarge/linux"


@pytest.fixture(scope="module")
def ec2() -> Iterator[Any]:
    with moto_server():
        yield client("ec2", REGION)


def node(instance: str | None, pool: str | None = POOL) -> Node:
    return Node("gpu-a", "ubuntu@10.0.0.4", "aws", pool, instance)


def test_instances_are_found_by_tag_with_pool_and_life(ec2: Any) -> None:
    spot = launch(ec2, spot=True, Name="trainer 0", team="ml")
    launch(ec2, spot=False, team="web")
    plain = launch(ec2, spot=False, team="ml")
    found = {each.instance: each for each in instances(REGION, [("tag:team", ["ml"])])}
    assert set(found) == {spot, plain}
    assert (found[spot].spot, found[plain].spot) == (True, False)
    assert (found[spot].name, found[spot].pool, found[spot].state) == ("trainer 0", POOL, "running")
    assert found[spot].zone.startswith(REGION)
    assert found[spot].private_address is not None


def test_the_word_of_ec2_follows_the_life_of_an_instance(ec2: Any) -> None:
    cloud, name = AwsCloud(SystemClock()), launch(ec2, spot=True)
    assert cloud.instance(node(name)).state == "running"
    ec2.terminate_instances(InstanceIds=[name])
    said = cloud.instance(node(name))
    assert (said.state, said.reason, said.source) == (
        "terminated", "Client.UserInitiatedShutdown", "aws/ec2:DescribeInstances",
    )  # fmt: skip
    silent = Witness(silence_s=100.0, answered=False, cloud=said)
    assert judge_node(silent, Limits()).state == "lost"
    assert judge_node(Witness(silence_s=0.0, answered=True, cloud=said), Limits()).state == "ok"


def test_what_cannot_be_told_is_never_gone(ec2: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    name = launch(ec2, spot=True)
    monkeypatch.setattr("backends.clouds.aws.calls.ATTEMPTS", 1)
    cases = {
        "knows no i-0123456789abcdef0": AwsCloud(SystemClock()).instance(node("i-0123456789abcdef0")),
        "has no instance id": AwsCloud(SystemClock()).instance(node(None)),
        "has no pool": AwsCloud(SystemClock()).instance(node(name, None)),
        "knows no": AwsCloud(SystemClock()).instance(
            node(name, "aws/eu-west-1/g5.xlarge/linux")
        ),  # another region
    }
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    cases["no answer"] = AwsCloud(SystemClock()).instance(node(name))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    cases["no AWS credentials"] = AwsCloud(SystemClock()).instance(node(name))
    for words, said in cases.items():
        assert said.state == "unknown", words
        assert words in said.reason
        verdict = judge_node(Witness(silence_s=1000.0, answered=False, cloud=said), Limits())
        assert verdict.state == "unreachable"
        assert verdict.proof is None
        assert words in verdict.reason


def test_a_reclaim_is_told_with_its_cause_and_hibernation_is_no_death() -> None:
    answer = json.loads(data("notices", "aws", "describe_instance_reclaimed_silently.json").read_text())
    row = answer["Reservations"][0]["Instances"][0]
    found = found_of(REGION, row)
    assert (found.state, found.reason, found.spot) == ("terminated", "Server.SpotInstanceTermination", True)
    stopped = {**row, "State": {"Name": "stopped"}}
    assert found_of(REGION, stopped).state == "stopped"
    asleep = found_of(REGION, {**stopped, "HibernationOptions": {"Configured": True}})
    assert (asleep.state, "memory" in asleep.reason) == ("unknown", True)
    for word in ("shutting-down", "stopping"):
        assert found_of(REGION, {**row, "State": {"Name": word}}).state == "stopping"
    assert found_of(REGION, {}).state == "unknown"


@pytest.mark.parametrize("pool", [None, "gcp/us-east1/a2/linux", "aws/us-east-1", "aws//g5/linux"])
def test_a_pool_that_names_no_region_of_aws(pool: str | None) -> None:
    assert region_of(node("i-1", pool)) is None


def test_nothing_is_rented() -> None:
    assert AwsCloud(SystemClock()).replace(POOL, "t").state == "failed"

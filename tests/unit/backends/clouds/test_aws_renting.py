"""Renting on AWS through moto behind a proxy: once, within limits, from the pool that has something, and given back whole."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest

from backends.clock import SystemClock
from backends.clouds.aws import launch as records
from backends.clouds.aws.calls import client
from backends.clouds.aws.cloud import AwsCloud
from backends.clouds.port import Launcher, Reaper, Renter, Terminator
from backends.errors import CredentialsError, ReprieveError, UnreachableError, UsageError
from backends.records.node import Node
from tests.support.motoproxy import Proxy, moto_behind_proxy

REGION = "us-east-1"
KIND, OTHER = "g5.xlarge", "g5.2xlarge"
POOL = f"aws/{REGION}/{KIND}/linux"
AMI = "ami-04681a1dbd79675a5"
FLEET = "0123456789abcdef"


@pytest.fixture(scope="module")
def server() -> Iterator[Proxy]:
    with moto_behind_proxy() as proxy:
        yield proxy


@pytest.fixture
def proxy(server: Proxy) -> Proxy:
    server.calls.clear()
    server.short.clear()
    server.refusals.clear()
    return server


class World:
    """A provider with records and prices that a test sets."""

    def __init__(self) -> None:
        self.ec2 = client("ec2", REGION)
        subnets = self.ec2.describe_subnets()["Subnets"]
        self.subnets = [row["SubnetId"] for row in sorted(subnets, key=lambda row: row["AvailabilityZone"])]
        self.launches: dict[str, dict[str, Any]] = {}
        self.usd: dict[str, float] = {}
        self.cloud = AwsCloud(
            SystemClock(),
            launches=lambda: self.launches,
            price_of=lambda pool, market: self.usd.get(pool),
            fleet=lambda: FLEET,
        )

    def reset(self) -> None:
        self.launches = {
            POOL: {
                "image": AMI,
                "subnets": self.subnets[:2],
                "tested_at": "2026-12-01T00:00:00Z",
                "user": "ubuntu",
            }
        }
        self.usd = {POOL: 0.5, f"aws/{REGION}/{OTHER}/linux": 0.8}

    def rent(self, token: str, pool: str = POOL, market: Any = "spot", max_usd: float = 5.0) -> Any:
        answer = self.cloud.rent(pool, token, market=market, max_usd=max_usd)
        if answer.state == "pending":  # a new machine is starting in the first answer
            answer = self.cloud.rent(pool, token, market=market, max_usd=max_usd)
        return answer

    def living(self) -> list[str]:
        rows = self.ec2.describe_instances(Filters=[{"Name": "tag:reprieve:fleet", "Values": [FLEET]}])[
            "Reservations"
        ]
        states = {each["InstanceId"]: each["State"]["Name"] for row in rows for each in row["Instances"]}
        return sorted(name for name, state in states.items() if state in ("pending", "running"))


@pytest.fixture(scope="module")
def shared(server: Proxy) -> World:
    return World()


@pytest.fixture
def world(proxy: Proxy, shared: World) -> Iterator[World]:
    shared.reset()
    yield shared
    proxy.refusals.clear()
    for thing in shared.cloud.owned(REGION):
        shared.cloud.remove(thing)


def test_it_is_every_kind_of_provider(world: World) -> None:
    for kind in (Renter, Launcher, Reaper, Terminator):
        assert isinstance(world.cloud, kind), kind


def test_one_machine_a_token_whoever_asks_and_however_often(world: World, proxy: Proxy) -> None:
    first = world.rent("replace-a")
    assert (first.state, first.usd_per_hour) == ("ready", 0.5)
    node = first.node
    assert (node.provider, node.pool, node.ssh.startswith("ubuntu@")) == ("aws", POOL, True)
    assert (node.labels["lifecycle"], node.labels["usd_per_hour"]) == ("spot", "0.5")
    assert world.rent("replace-a").node == node
    assert len(proxy.named("RunInstances")) == 1, "it was found by its mark"
    asked = proxy.named("RunInstances")[0]
    assert asked["InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior"] == "terminate"
    assert "InstanceMarketOptions.SpotOptions.MaxPrice" not in asked
    assert asked["MetadataOptions.HttpTokens"] == "required"
    assert len(asked["ClientToken"]) <= 64
    assert world.rent("replace-b").node.instance != node.instance
    assert len(world.living()) == 2


def test_a_machine_that_is_not_listed_yet_is_not_asked_for_twice(
    world: World, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.clouds.aws.renting.instances", lambda region, filters, ec2: ())
    said = {world.rent("replace-c").reason for _ in range(2)}
    assert len(proxy.named("RunInstances")) == 4
    assert len(said) == 1, "the ClientToken made it one"
    monkeypatch.undo()
    (name,) = world.living()
    assert said == {f"{name} is starting"}


def test_the_next_subnet_is_asked_and_only_then_the_pool_is_short(world: World, proxy: Proxy) -> None:
    proxy.short.add(world.subnets[0])
    assert world.rent("replace-d").state == "ready"
    assert [form["SubnetId"] for form in proxy.named("RunInstances")] == world.subnets[:2]
    tokens = {form["ClientToken"] for form in proxy.named("RunInstances")}
    assert len(tokens) == 2, "another request has another token"
    proxy.short.add(world.subnets[1])
    answer = world.rent("replace-e")
    assert answer.state == "failed"
    assert "InsufficientInstanceCapacity" in answer.reason
    assert all(subnet in answer.reason for subnet in world.subnets[:2])
    proxy.short.clear()
    assert world.rent("replace-e").state == "ready", "the pool may have something again"


def test_compatible_types_are_asked_for_by_one_fleet_request(world: World, proxy: Proxy) -> None:
    world.launches[POOL]["types"] = [OTHER]
    answer = world.rent("replace-f")
    assert answer.state == "ready"
    asked = proxy.named("CreateFleet")[0]
    assert asked["SpotOptions.AllocationStrategy"] == "price-capacity-optimized"
    kinds = {value for key, value in asked.items() if key.endswith(".InstanceType")}
    assert kinds == {KIND, OTHER}
    assert world.rent("replace-f").node == answer.node
    assert len(proxy.named("CreateFleet")) == 1
    assert {each.kind for each in world.cloud.owned(REGION)} == {"instance", "template"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"usd": {}}, "price of aws/us-east-1/g5.xlarge/linux is not known"),
        ({"usd": {POOL: 6.0}}, "costs 6.00 USD an hour, and 5.00"),
        ({"launch": {"tested_at": None}}, "never tested"),
        ({"launch": {"image": "latest"}}, "ami-… expected"),
        ({"launch": {"volumes": [{"device": "/dev/sda1"}]}}, "volumes"),
        ({"launch": {"types": ["; rm -rf /"]}}, "types"),
        ({"pool": "aws/us-east-1/t3.micro/linux"}, "no launch record"),
        ({"pool": "aws/us-east-1/g5.xlarge/windows"}, "only linux"),
    ],
)
def test_nothing_is_created_outside_the_limits(
    world: World, proxy: Proxy, change: dict[str, Any], words: str
) -> None:
    world.usd = change.get("usd", world.usd)
    world.launches[POOL].update(change.get("launch", {}))
    answer = world.rent("replace-g", change.get("pool", POOL))
    assert answer.state == "failed"
    assert words in answer.reason
    assert ("not_launchable" in answer.reason) == ("usd" not in change)
    assert proxy.named("RunInstances") == []


def test_a_request_is_given_up_with_what_came_of_it(world: World) -> None:
    world.rent("replace-h")
    world.cloud.cancel("replace-h")
    world.cloud.cancel("replace-h")
    world.cloud.cancel("never asked")
    assert world.living() == []
    again = world.rent("replace-h")
    assert again.state == "ready", "a machine that has ended is not handed out again"
    assert len(world.living()) == 1


def test_the_record_of_a_running_machine_launches_its_like(world: World, proxy: Proxy) -> None:
    made = world.ec2.run_instances(
        ImageId=AMI, InstanceType=KIND, MinCount=1, MaxCount=1, SubnetId=world.subnets[1], KeyName="ops",
        BlockDeviceMappings=[{"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 40, "VolumeType": "gp3"}}],
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "team", "Value": "ml"}, {"Key": "Name", "Value": "a"}]}],
    )["Instances"][0]  # fmt: skip
    world.launches[POOL] = {"image": "ami-0", "mounts": ["fs-1:/ /data nfs4"], "types": [OTHER], "user": "me"}
    node = Node("gpu-a", f"ubuntu@{made['PrivateIpAddress']}:2222", "aws", POOL, made["InstanceId"])
    table = world.cloud.record(node)
    assert (table["image"], table["subnets"], table["tags"]) == (AMI, [world.subnets[1]], {"team": "ml"})
    assert (table["key_name"], table["address"], table["port"], table["user"]) == (
        "ops",
        "private",
        2222,
        "me",
    )
    assert {"device": "/dev/sdf", "size_gib": 40, "kind": "gp3", "encrypted": False} in table["volumes"]
    assert (table["mounts"], table["types"]) == (["fs-1:/ /data nfs4"], [OTHER]), (
        "what only people know is kept"
    )
    assert "tested_at" not in table
    before = len(proxy.named("RunInstances"))
    table["tested_at"] = world.cloud.test(POOL, table)
    trials = proxy.named("RunInstances")[before:]
    assert {form["DryRun"] for form in trials} == {"true"}
    assert records.write(records.read(POOL, table)) == table
    world.launches[POOL] = {**table, "types": []}
    assert world.rent("replace-i").state == "ready"
    asked = proxy.named("RunInstances")[-1]
    values = {value for key, value in asked.items() if key.endswith("DeleteOnTermination")}
    assert values == {"true"}, "no disk is left over"
    world.ec2.terminate_instances(InstanceIds=[made["InstanceId"]])


def test_the_exact_request_is_shown_and_is_what_is_sent(world: World, proxy: Proxy) -> None:
    shown = world.cloud.request(POOL, "replace-j", market="spot")
    assert (shown["call"], proxy.named("RunInstances")) == ("RunInstances", [])
    json.dumps(shown)
    world.rent("replace-j")
    sent = proxy.named("RunInstances")[0]
    assert sent["ClientToken"] == shown["parameters"]["ClientToken"]
    assert sent["SubnetId"] == shown["parameters"]["SubnetId"]


def test_only_what_carries_the_mark_is_listed_and_removed(world: World, proxy: Proxy) -> None:
    users = world.ec2.run_instances(ImageId=AMI, InstanceType=KIND, MinCount=1, MaxCount=1)["Instances"][0][
        "InstanceId"
    ]
    ours = world.rent("replace-k").node.instance
    lost = world.ec2.create_volume(
        AvailabilityZone="us-east-1a", Size=1,
        TagSpecifications=[{"ResourceType": "volume", "Tags": [{"Key": "reprieve:fleet", "Value": FLEET}]}],
    )["VolumeId"]  # fmt: skip
    found = {each.id: each for each in world.cloud.owned(REGION)}
    assert set(found) == {ours, lost}
    with pytest.raises(UsageError, match="does not carry the mark"):
        world.cloud.remove(dataclasses.replace(found[ours], id=users))
    for thing in found.values():
        world.cloud.remove(thing)
        world.cloud.remove(thing)
    assert world.cloud.owned(REGION) == ()
    world.ec2.terminate_instances(InstanceIds=[users])


def test_a_machine_is_ended_as_its_kind_asks(world: World) -> None:
    rows = world.ec2.run_instances(ImageId=AMI, InstanceType=KIND, MinCount=1, MaxCount=1)["Instances"]
    own = Node("own", "x", "aws", POOL, rows[0]["InstanceId"])
    world.cloud.terminate(own)
    assert world.cloud.instance(own).state == "stopped", "one's own on-demand machine keeps its disks"
    rented = world.rent("replace-l").node
    world.cloud.terminate(rented)
    assert world.cloud.instance(rented).state == "terminated"
    with pytest.raises(UsageError, match="knows no"):
        world.cloud.terminate(dataclasses.replace(own, instance="i-0123456789abcdef0"))


def test_why_a_spot_machine_ended_is_told(world: World, proxy: Proxy) -> None:
    node = world.rent("replace-m").node
    proxy.reasons[node.instance] = "Server.SpotInstanceTermination"
    world.ec2.terminate_instances(InstanceIds=[node.instance])
    said = world.cloud.instance(node)
    assert (said.state, said.reason) == ("terminated", "Server.SpotInstanceTermination")


TROUBLES = {
    "throttled": ((503, "RequestLimitExceeded", "Request limit exceeded."), UnreachableError, 5, "too many requests"),
    "clock": ((401, "AuthFailure", "Signature expired: 20261201T115500Z is now earlier than 20261201T115900Z"),
              CredentialsError, 4, "clock is off"),
    "expired": ((400, "ExpiredToken", "The security token included in the request is expired"), CredentialsError, 4, "expired"),
    "wrong": ((401, "AuthFailure", "AWS was not able to validate the provided access credentials"), CredentialsError, 4, "refused"),
    "not allowed": ((403, "UnauthorizedOperation", "You are not authorized"), CredentialsError, 4, "aws.md"),
    "region off": ((401, "OptInRequired", "You are not subscribed to this service"), CredentialsError, 4, "refused"),
}  # fmt: skip


@pytest.mark.parametrize("name", TROUBLES)
def test_each_trouble_is_one_clear_line_and_creates_nothing(world: World, proxy: Proxy, name: str) -> None:
    told, kind, code, words = TROUBLES[name]
    proxy.refusals.append(told)
    with pytest.raises(ReprieveError) as caught:
        world.rent("replace-n")
    error = caught.value
    assert (type(error), error.exit_code) == (kind, code)
    assert "\n" not in error.message
    assert words in f"{error.message} {error.hint}"
    assert world.living() == []
    proxy.refusals += [told] * 3  # the witness tries three times
    said = world.cloud.instance(Node("a", "x", "aws", POOL, "i-0123456789abcdef0"))
    assert said.state == "unknown", "it is never a word about a machine"


def test_a_region_that_does_not_exist_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as away:
        away.delenv("AWS_ENDPOINT_URL")
        away.setattr("backends.clouds.aws.calls.ATTEMPTS", 1)
        away.setattr("socket.getaddrinfo", _no_name)
        with pytest.raises(UnreachableError, match="us-esat-1") as caught:
            AwsCloud(SystemClock(), fleet=lambda: FLEET).owned("us-esat-1")
    assert caught.value.exit_code == 5


def _no_name(*_: object, **__: object) -> Any:
    raise OSError(-2, "Name or service not known")


def test_mounts_are_made_by_cloud_init_and_hostile_lines_are_refused() -> None:
    table = {"image": AMI, "mounts": ["fs-1:/ /data nfs4 nfsvers=4.1"]}
    made = records.read(POOL, table)
    from backends.clouds.recorded import user_data

    text = user_data(made.mounts)
    assert text.startswith("#cloud-config\n")
    assert json.loads(text.partition("\n")[2]) == {
        "mounts": [["fs-1:/", "/data", "nfs4", "nfsvers=4.1", "0", "2"]]
    }
    for line in ("fs-1:/ /data", "a b\nruncmd: [x]", "fs-1:/ data nfs4"):
        with pytest.raises(UsageError, match="mounts"):
            records.read(POOL, {**table, "mounts": [line]})

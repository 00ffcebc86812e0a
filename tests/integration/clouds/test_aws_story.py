"""A fleet on AWS from discovery to the last machine given back: the real adapter against moto behind a proxy, guards in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from backends.clock import SystemClock
from backends.clouds.aws.calls import client
from backends.clouds.aws.cloud import AwsCloud
from backends.clouds.aws.instances import instances
from backends.clouds.port import Found
from backends.fakes.clock import run
from backends.inventory.model import Pool
from console.operations.flows.lending import RENTED
from console.operations.flows.reaping import leftovers
from console.operations.flows.watch import Watch
from tests.support import cloudstory
from tests.support.motoproxy import Proxy, moto_behind_proxy

REGION = "us-east-1"
AMI, OTHER_AMI = "ami-04681a1dbd79675a5", "ami-0b301ce3ce347599c"
HOME, SECOND, THIRD = (f"aws/{REGION}/{kind}/linux" for kind in ("g5.xlarge", "g5.2xlarge", "g5.4xlarge"))


class Story(cloudstory.Story):
    """On moto."""

    provider, pools = "aws", (HOME, SECOND, THIRD)
    image, other_image, lost_words = AMI, OTHER_AMI, "Server.SpotInstanceTermination"

    def __init__(self, directory: Path, proxy: Proxy) -> None:
        self.proxy = proxy
        self.ec2 = client("ec2", REGION)
        super().__init__(directory)

    def opened(self, **words: Any) -> object:
        return AwsCloud(SystemClock(), **words)

    def first(self) -> Sequence[Found]:
        self.ec2.run_instances(
            ImageId=AMI, InstanceType="g5.xlarge", MinCount=1, MaxCount=1, InstanceMarketOptions={"MarketType": "spot"},
            TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "team", "Value": "ml"}, {"Key": "Name", "Value": "gpu"}]}],
        )  # fmt: skip
        return instances(REGION, [("tag:team", ["ml"]), ("instance-state-name", ["running"])])

    def image_of(self, instance: str) -> str:
        rows = self.ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"]
        return str(rows[0]["ImageId"])

    def take(self, instance: str) -> None:
        self.proxy.reasons[instance] = self.lost_words
        self.ec2.terminate_instances(InstanceIds=[instance])

    def kinds_asked(self) -> list[str]:
        return [form["InstanceType"] for form in self.proxy.named("RunInstances") if "DryRun" not in form]

    def living(self) -> set[str]:
        rows = self.ec2.describe_instances(
            Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        )["Reservations"]
        return {each["InstanceId"] for row in rows for each in row["Instances"]}


@pytest.fixture(scope="module")
def server() -> Iterator[Proxy]:
    with moto_behind_proxy() as proxy:
        yield proxy


@pytest.fixture
def story(tmp_path: Path, server: Proxy) -> Iterator[Story]:
    server.calls.clear()
    server.short.clear()
    made = Story(tmp_path, server)
    yield made
    living = sorted(made.living())
    if living:
        made.ec2.terminate_instances(InstanceIds=living)


def test_two_pools_are_empty_the_third_gives_a_machine_and_nothing_is_left_over(story: Story) -> None:
    job = story.protected()
    story.record(SECOND, AMI)
    story.record(THIRD, AMI)
    story.proxy.short |= {"g5.xlarge", "g5.2xlarge"}
    told = story.watch(120, {10: lambda: story.reclaim("gpu")})
    ((where, epoch),) = story.practice.where(job.uid)
    node = story.practice.records.nodes()[where]
    assert (epoch, node.pool, node.labels[RENTED]) == (2, THIRD, "spot")
    assert story.kinds_asked()[-3:] == ["g5.xlarge", "g5.2xlarge", "g5.4xlarge"], (
        "each once, one right after the other"
    )
    assert story.practice.installed == [where], "it came bare and was made ready"
    ledger = story.fleet().ledger
    lost = next(event for _, event in ledger.events() if event.kind == "node.lost")
    assert "Server.SpotInstanceTermination" in lost.text
    assert sum(event.kind == "capacity.short" for _, event in ledger.events()) == 2
    assert any("does not answer yet" in text for text in told)
    assert story.living() == {node.instance}

    rows = asyncio.run(story.reap())
    assert [(row["kind"], row["state"]) for row in rows] == [("instance", "kept")], "a job lives there"
    current = ledger.jobs()[job.uid]
    ledger.put_job(type(current)(**{**current.__dict__, "state": "stopped"}))
    story.practice.nodes[where].held.clear()
    rows = asyncio.run(story.reap())
    assert [(row["id"], row["state"]) for row in rows] == [(node.instance, "removed")]
    assert where not in story.practice.records.nodes()
    assert story.living() == set()
    assert asyncio.run(leftovers(story.fleet(), "aws")) == []


def test_a_machine_of_another_image_is_refused_by_the_gate_and_given_back(story: Story) -> None:
    job = story.protected()
    story.record(HOME, OTHER_AMI)
    story.record(SECOND, AMI)
    told = story.watch(150, {10: lambda: story.reclaim("gpu")})
    ((where, _),) = story.practice.where(job.uid)
    assert story.practice.records.nodes()[where].pool == SECOND
    assert any("cannot take job train: kernel" in text for text in told)
    kinds = [event.kind for _, event in story.fleet().ledger.events()]
    assert (kinds.count("node.rented"), kinds.count("node.returned"), kinds.count("capacity.unfit")) == (
        2,
        1,
        1,
    )
    assert story.living() == {story.practice.records.nodes()[where].instance}, "what did not fit was ended"


def test_nothing_is_rented_without_a_tested_record_or_beyond_the_limits(story: Story) -> None:
    job = story.protected(max_rent_usd=0.5)
    table = dict(story.practice.records.pools()[HOME].launch or {})
    story.practice.records.put_pool(
        Pool(HOME, {key: value for key, value in table.items() if key != "tested_at"})
    )
    before = story.living()

    def mended() -> None:
        story.practice.records.put_pool(Pool(HOME, table))

    told = story.watch(60, {10: lambda: story.reclaim("gpu"), 40: mended})
    assert any("not_launchable" in text and "never tested" in text for text in told)
    assert any("0.50 USD are left" in text for text in told)
    assert story.practice.where(job.uid) == []
    assert story.living() < before


def test_a_dry_run_prints_the_exact_request_and_sends_nothing(story: Story) -> None:
    job = story.protected()
    story.reclaim("gpu")
    before = len(story.proxy.named("RunInstances"))

    async def look() -> dict[str, Any]:
        watch = Watch(story.fleet(), lambda text: None, dry_run=True)
        return watch.would_ask(job.name)

    shown = run(story.practice.clock, look())
    assert (shown["pool"], shown["request"]["call"]) == (HOME, "RunInstances")
    assert shown["request"]["parameters"]["ImageId"] == AMI
    json.dumps(shown)
    assert len(story.proxy.named("RunInstances")) == before

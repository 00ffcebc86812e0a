"""A fleet on AWS from discovery to the last machine given back: the real adapter against moto behind a proxy, guards in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.clock import SystemClock
from backends.clouds.aws.calls import client
from backends.clouds.aws.cloud import AwsCloud
from backends.fakes.clock import run
from backends.fakes.node import FakeNode
from backends.inventory.model import Pool, Renting
from backends.nodes.port import NodeLink
from backends.records.job import Job
from backends.records.node import Node
from console.cli.commands.fleet_discover import planned
from console.operations.fleet import Fleet
from console.operations.flows.lending import RENTED, take_record
from console.operations.flows.reaping import leftovers, remove
from console.operations.flows.watch import Watch
from tests.support.motoproxy import Proxy, moto_behind_proxy
from tests.support.operations import FakeLinks, Practice

REGION = "us-east-1"
AMI, OTHER_AMI = "ami-04681a1dbd79675a5", "ami-0b301ce3ce347599c"
HOME, SECOND, THIRD = (f"aws/{REGION}/{kind}/linux" for kind in ("g5.xlarge", "g5.2xlarge", "g5.4xlarge"))
LIMITS = Renting(rent=True, max_usd=20.0, max_nodes=3)


class Booting(FakeLinks):
    """A machine that AWS made is a bare host; what it is follows from its image."""

    def __init__(self, story: Story) -> None:
        super().__init__(story.practice.nodes)
        self.story = story

    async def link(self, node: Node) -> NodeLink:
        if node.name not in self.nodes:
            image = self.story.image_of(node.instance or "")
            kernel = "6.1" if image == AMI else "5.4"
            made = FakeNode(node.name, self.story.practice.world, installed=False)
            made.facts = {"arch": "x86_64", "kernel": kernel}
            self.nodes[node.name] = made
        return self.nodes[node.name]


class Installer:
    """Makes a bare host ready; the first try finds it starting."""

    def __init__(self, links: Booting, installed: list[str]) -> None:
        self.links, self.installed = links, installed
        self.tries: dict[str, int] = {}

    async def install(self, node: Node) -> None:
        await self.links.link(node)
        self.tries[node.name] = self.tries.get(node.name, 0) + 1
        if self.tries[node.name] == 1:
            from backends.errors import UnreachableError

            raise UnreachableError(f"node {node.name}: connection refused")
        self.links.nodes[node.name].installed = True
        self.installed.append(node.name)


class Story:
    """The parts that stay when a console is opened anew."""

    def __init__(self, directory: Path, proxy: Proxy) -> None:
        self.practice = Practice(directory, nodes=0, provider="aws")
        self.practice.clock.set_wall(SystemClock().wall())  # machines have the launch times of the real clock
        self.proxy = proxy
        self.ec2 = client("ec2", REGION)
        records = self.practice.records
        self.cloud = AwsCloud(
            SystemClock(),
            launches=lambda: {name: pool.launch for name, pool in records.pools().items() if pool.launch},
            price_of=lambda pool, market: 1.0,
            fleet=lambda: "0123456789abcdef",
        )
        self.links = Booting(self)
        self.installer = Installer(self.links, self.practice.installed)

    def fleet(self) -> Fleet:
        fleet = self.practice.fleet("controller")
        fleet.cloud_of = lambda node: self.cloud
        fleet.links = self.links
        fleet.installer = self.installer  # type: ignore[assignment]  # only `install` is asked for here
        return fleet

    def image_of(self, instance: str) -> str:
        rows = self.ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"]
        return str(rows[0]["ImageId"])

    def discover(self) -> Node:
        """One machine that runs already, found by its tag, put into the fleet with its guard."""
        self.ec2.run_instances(
            ImageId=AMI, InstanceType="g5.xlarge", MinCount=1, MaxCount=1, InstanceMarketOptions={"MarketType": "spot"},
            TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "team", "Value": "ml"}, {"Key": "Name", "Value": "gpu"}]}],
        )  # fmt: skip
        from backends.clouds.aws.instances import instances

        found = instances(REGION, [("tag:team", ["ml"]), ("instance-state-name", ["running"])])
        ((_, node),) = planned(found, {}, "ubuntu", None, None)
        assert node is not None
        self.practice.records.put_node(node)
        self.practice.nodes[node.name] = FakeNode(node.name, self.practice.world)
        return node

    def reclaim(self, node: str) -> None:
        """AWS takes a machine."""
        instance = self.practice.records.nodes()[node].instance or ""
        self.practice.nodes[node].reclaim()
        self.proxy.reasons[instance] = "Server.SpotInstanceTermination"
        self.ec2.terminate_instances(InstanceIds=[instance])

    def watch(self, seconds: float, script: dict[float, Callable[[], None]]) -> list[str]:
        told: list[str] = []

        async def main() -> None:
            watch = Watch(self.fleet(), told.append, every_s=10.0)
            task = asyncio.create_task(watch.run())
            acts, passed = sorted(script.items()), 0.0
            while passed < seconds:
                await asyncio.sleep(2.0)
                passed += 2.0
                while acts and acts[0][0] <= passed:
                    acts.pop(0)[1]()
                for node in self.practice.nodes.values():
                    node.tick()
            watch.stopping = True
            await task

        run(self.practice.clock, main())
        return told

    def living(self) -> set[str]:
        rows = self.ec2.describe_instances(
            Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        )["Reservations"]
        return {each["InstanceId"] for row in rows for each in row["Instances"]}

    def record(self, pool: str, image: str) -> None:
        home = self.practice.records.pools()[HOME].launch or {}
        self.practice.records.put_pool(
            Pool(pool, {**home, "image": image, "tested_at": self.practice.fleet().now_text()})
        )

    async def reap(self, *, young_s: float = 900.0) -> list[dict[str, Any]]:
        fleet = self.fleet()
        return await remove(fleet, "aws", await leftovers(fleet, "aws", young_s=young_s))


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


def protected(story: Story, **fields: Any) -> Job:
    node = story.discover()
    job = story.practice.running_job("train", node.name, restore="any-pool", **fields)
    story.practice.records.limits = LIMITS
    text = asyncio.run(take_record(story.fleet(), node))
    assert "a trial of it passed" in text
    return job


def test_two_pools_are_empty_the_third_gives_a_machine_and_nothing_is_left_over(story: Story) -> None:
    job = protected(story)
    story.record(SECOND, AMI)
    story.record(THIRD, AMI)
    story.proxy.short |= {"g5.xlarge", "g5.2xlarge"}
    told = story.watch(120, {10: lambda: story.reclaim("gpu")})
    ((where, epoch),) = story.practice.where(job.uid)
    node = story.practice.records.nodes()[where]
    assert (epoch, node.pool, node.labels[RENTED]) == (2, THIRD, "spot")
    kinds = [form["InstanceType"] for form in story.proxy.named("RunInstances") if "DryRun" not in form]
    assert kinds[-3:] == ["g5.xlarge", "g5.2xlarge", "g5.4xlarge"], "each once, one right after the other"
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
    job = protected(story)
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
    job = protected(story, max_rent_usd=0.5)
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
    job = protected(story)
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

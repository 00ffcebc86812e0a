"""A fleet on Google Cloud and on Azure from discovery to the last machine given back: the real adapters against loopback servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from backends.clock import SystemClock
from backends.clouds.azure.cloud import AzureCloud
from backends.clouds.gcp.cloud import GoogleCloud
from backends.clouds.port import Found
from backends.fakes.clock import run
from console.operations.flows.lending import RENTED
from console.operations.flows.reaping import leftovers
from console.operations.flows.watch import Watch
from tests.support import azurepeer, googlepeer
from tests.support.cloudstory import Story


class OnGoogle(Story):
    """On the loopback Compute Engine."""

    provider = "gcp"
    kinds = ("g2-standard-8", "g2-standard-12", "g2-standard-16")
    pools = tuple(f"gcp/{googlepeer.REGION}/{kind}/linux" for kind in kinds)
    image, other_image, lost_words = googlepeer.IMAGE, googlepeer.OTHER_IMAGE, "preempted"

    def __init__(self, directory: Path, peer: googlepeer.Google) -> None:
        self.peer = peer
        super().__init__(directory)

    def opened(self, **words: Any) -> object:
        return GoogleCloud(SystemClock(), **words)

    def first(self) -> Sequence[Found]:
        body = {
            "labels": {"team": "ml"}, "scheduling": {"provisioningModel": "SPOT"},
            "disks": [{"initializeParams": {"sourceImage": self.image}}],
            "networkInterfaces": [{"subnetwork": f"https://g/{googlepeer.SUBNET}", "accessConfigs": [{}]}],
        }  # fmt: skip
        self.peer.put("us-central1-a", "gpu", self.kinds[0], body, "RUNNING")
        return GoogleCloud(SystemClock()).running(googlepeer.PROJECT, googlepeer.REGION, [("team", "ml")])

    def image_of(self, instance: str) -> str:
        _, zone, name, _ = instance.split("/")
        return str(self.peer.disks[zone, name]["sourceImage"]).removeprefix(
            "https://www.googleapis.com/compute/v1/"
        )

    def take(self, instance: str) -> None:
        self.peer.end(instance.rpartition("/")[2], "compute.instances.preempted")

    def living(self) -> set[str]:
        return {
            f"{googlepeer.PROJECT}/{zone}/{name}/{row['id']}"
            for (zone, name), row in self.peer.instances.items()
        }

    def kinds_asked(self) -> list[str]:
        return [body["machineType"].rpartition("/")[2] for body in self.peer.created()]

    def left(self) -> int:
        return len(self.peer.instances) + len(self.peer.disks)


class OnAzure(Story):
    """On the loopback resource manager; the second type is accepted and fails later."""

    provider = "azure"
    kinds = ("Standard_NC16as_T4_v3", "Standard_NC4as_T4_v3", "Standard_NC8as_T4_v3")
    pools = tuple(f"azure/eastus/{kind}/linux" for kind in kinds)
    image, other_image, lost_words = azurepeer.IMAGE, azurepeer.OTHER_IMAGE, "PowerState/deallocated"

    def __init__(self, directory: Path, peer: azurepeer.Azure) -> None:
        self.peer = peer
        super().__init__(directory)

    def opened(self, **words: Any) -> object:
        return AzureCloud(SystemClock(), **words)

    def first(self) -> Sequence[Found]:
        path = f"{azurepeer.MACHINES}/gpu"
        card = {"name": "c", "properties": {"ipConfigurations": [
            {"properties": {"subnet": {"id": azurepeer.SUBNET}, "publicIPAddressConfiguration": {"name": "ip"}}}]}}  # fmt: skip
        body = {
            "location": "eastus", "tags": {"team": "ml"},
            "properties": {
                "priority": "Spot", "hardwareProfile": {"vmSize": self.kinds[0]},
                "storageProfile": {"imageReference": {"id": self.image}, "osDisk": {"diskSizeGB": 64}},
                "osProfile": {"adminUsername": "azureuser", "linuxConfiguration": {
                    "ssh": {"publicKeys": [{"keyData": azurepeer.KEY}]}}},
                "networkProfile": {"networkInterfaceConfigurations": [card]},
            },
        }  # fmt: skip
        self.peer.put(path, body, "Succeeded")
        self.peer.power(path, "running")
        return AzureCloud(SystemClock()).running("eastus", [("team", "ml")])

    def image_of(self, instance: str) -> str:
        machine = self.peer.machines[instance.partition("#")[0]]
        return str(machine["properties"]["storageProfile"]["imageReference"]["id"])

    def take(self, instance: str) -> None:
        self.peer.power(instance.partition("#")[0], "deallocated")

    def living(self) -> set[str]:
        return {
            f"{path}#{row['properties']['vmId']}"
            for path, row in self.peer.machines.items()
            if "deallocated" not in json.dumps(row)
        }

    def kinds_asked(self) -> list[str]:
        return [body["properties"]["hardwareProfile"]["vmSize"] for body in self.peer.created()]

    def left(self) -> int:
        mine = [row for row in self.peer.machines.values() if row["name"] != "gpu"]
        return (
            len(mine)
            + len(self.peer.disks)
            + sum("/gpu-" not in path for path in (*self.peer.cards, *self.peer.publics))
        )


@pytest.fixture(params=["gcp", "azure"])
def story(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:
        if request.param == "gcp":
            yield OnGoogle(tmp_path, stack.enter_context(googlepeer.google_peer()))
        else:
            yield OnAzure(tmp_path, stack.enter_context(azurepeer.azure_peer()))


def test_two_pools_are_empty_the_third_gives_a_machine_and_nothing_is_left_over(story: Any) -> None:
    job = story.protected()
    home, second, third = story.pools
    story.record(second, story.image)
    story.record(third, story.image)
    story.peer.short.add(story.kinds[0])
    (story.peer.short if story.provider == "gcp" else story.peer.short_later).add(story.kinds[1])
    told = story.watch(60, {10: lambda: story.reclaim("gpu")})
    ((where, epoch),) = story.practice.where(job.uid)
    node = story.practice.records.nodes()[where]
    assert (epoch, node.pool, node.labels[RENTED]) == (2, third, "spot")
    assert story.kinds_asked() == list(story.kinds), "each once, one right after the other"
    assert story.practice.installed == [where], "it came bare and was made ready"
    ledger = story.fleet().ledger
    lost = next(event for _, event in ledger.events() if event.kind == "node.lost")
    assert story.lost_words in lost.text
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
    assert (story.living(), story.left()) == (set(), 0)
    assert asyncio.run(leftovers(story.fleet(), story.provider)) == []
    assert home in story.practice.records.pools()


def test_a_machine_of_another_image_is_refused_by_the_gate_and_given_back(story: Any) -> None:
    job = story.protected()
    home, second, _ = story.pools
    story.record(home, story.other_image)
    story.record(second, story.image)
    told = story.watch(80, {10: lambda: story.reclaim("gpu")})
    ((where, _),) = story.practice.where(job.uid)
    assert story.practice.records.nodes()[where].pool == second
    assert any("cannot take job train: kernel" in text for text in told)
    kinds = [event.kind for _, event in story.fleet().ledger.events()]
    assert (kinds.count("node.rented"), kinds.count("node.returned"), kinds.count("capacity.unfit")) == (
        2,
        1,
        1,
    )
    assert story.living() == {story.practice.records.nodes()[where].instance}, "what did not fit was ended"


def test_a_dry_run_prints_the_exact_request_and_sends_nothing(story: Any) -> None:
    job = story.protected()
    story.reclaim("gpu")

    async def look() -> dict[str, Any]:
        return Watch(story.fleet(), lambda text: None, dry_run=True).would_ask(job.name)

    shown = run(story.practice.clock, look())
    assert story.kinds_asked() == []
    told = story.watch(30, {})
    assert any("is ready" in text or "replaces" in text or "is there" in text for text in told), told
    sent = story.peer.created()[0]
    assert shown["request"]["call"].partition(" ")[2] == sent.pop("path")
    assert shown["request"]["parameters"] == sent, "what was shown is what was sent"

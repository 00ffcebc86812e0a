"""A fleet at a provider from discovery to the last machine given back: what is the same whoever lends; guards in memory."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from backends.clock import SystemClock
from backends.clouds.port import Found
from backends.errors import UnreachableError
from backends.fakes.clock import run
from backends.fakes.node import FakeNode
from backends.inventory.model import Pool, Renting
from backends.nodes.port import NodeLink
from backends.records.job import Job
from backends.records.node import Node
from console.cli.commands.fleet_discover import planned
from console.operations.fleet import Fleet
from console.operations.flows.lending import take_record
from console.operations.flows.reaping import leftovers, remove
from console.operations.flows.watch import Watch
from tests.support.operations import FakeLinks, Practice

LIMITS = Renting(rent=True, max_usd=20.0, max_nodes=3)
FLEET = "0123456789abcdef"


class Booting(FakeLinks):
    """A machine that the provider made is a bare host; what it is follows from its image."""

    def __init__(self, story: Story) -> None:
        super().__init__(story.practice.nodes)
        self.story = story

    async def link(self, node: Node) -> NodeLink:
        if node.name not in self.nodes:
            image = self.story.image_of(node.instance or "")
            kernel = "6.1" if image == self.story.image else "5.4"
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
            raise UnreachableError(f"node {node.name}: connection refused")
        self.links.nodes[node.name].installed = True
        self.installed.append(node.name)


class Story(ABC):
    """The parts that stay when a console is opened anew."""

    provider: ClassVar[str]
    pools: ClassVar[tuple[str, ...]]  # the first is home
    image: ClassVar[str]  # of the machine that runs already, as launch records name it
    other_image: ClassVar[str]
    lost_words: ClassVar[str]  # what the provider's word on a reclaimed machine holds

    def __init__(self, directory: Path) -> None:
        self.practice = Practice(directory, nodes=0, provider=self.provider)
        self.practice.clock.set_wall(SystemClock().wall())  # machines have the launch times of the real clock
        records = self.practice.records
        self.cloud: Any = self.opened(
            launches=lambda: {name: pool.launch for name, pool in records.pools().items() if pool.launch},
            price_of=lambda pool, market: 1.0,
            fleet=lambda: FLEET,
        )
        self.links = Booting(self)
        self.installer = Installer(self.links, self.practice.installed)

    @abstractmethod
    def opened(self, **words: Any) -> object:
        """The provider's adapter."""

    @abstractmethod
    def first(self) -> Sequence[Found]:
        """Start one machine with the tag team=ml and the name gpu, outside of the fleet; what discovery finds then."""

    @abstractmethod
    def image_of(self, instance: str) -> str:
        """The image of a machine, as launch records name it."""

    @abstractmethod
    def take(self, instance: str) -> None:
        """The provider takes a machine."""

    @abstractmethod
    def living(self) -> set[str]:
        """The instances that run or start."""

    @abstractmethod
    def kinds_asked(self) -> list[str]:
        """The types of all machines that were asked to be created, in order."""

    def fleet(self) -> Fleet:
        fleet = self.practice.fleet("controller")
        fleet.cloud_of = lambda node: self.cloud
        fleet.links = self.links
        fleet.installer = self.installer  # type: ignore[assignment]  # only `install` is asked for here
        return fleet

    def discover(self) -> Node:
        """One machine that runs already, found by its tag, put into the fleet with its guard."""
        ((_, node),) = planned(self.first(), {}, "ubuntu", None, None, self.provider)
        assert node is not None
        self.practice.records.put_node(node)
        self.practice.nodes[node.name] = FakeNode(node.name, self.practice.world)
        return node

    def protected(self, **fields: Any) -> Job:
        """A job on it, with the pool's launch record taken and tried."""
        node = self.discover()
        job = self.practice.running_job("train", node.name, restore="any-pool", **fields)
        self.practice.records.limits = LIMITS
        text = asyncio.run(take_record(self.fleet(), node))
        assert "a trial of it passed" in text, text
        return job

    def reclaim(self, node: str) -> None:
        """The provider takes a node's machine."""
        self.practice.nodes[node].reclaim()
        self.take(self.practice.records.nodes()[node].instance or "")

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

    def record(self, pool: str, image: str) -> None:
        home = self.practice.records.pools()[self.pools[0]].launch or {}
        self.practice.records.put_pool(
            Pool(pool, {**home, "image": image, "tested_at": self.practice.fleet().now_text()})
        )

    async def reap(self, *, young_s: float = 900.0) -> list[dict[str, Any]]:
        fleet = self.fleet()
        return await remove(fleet, self.provider, await leftovers(fleet, self.provider, young_s=young_s))

"""The story on fakes: told in order, honest in its document, and no story at all when a job ends too early."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from backends.clouds.practice.client import PracticeClient
from backends.errors import ReprieveError
from backends.fakes.clock import run
from backends.records.node import Node
from console.operations.demo.cast import Role, roles
from console.operations.demo.stage import Stage
from console.operations.demo.story import NOTICE_S, Story
from console.operations.fleet import Fleet
from tests.support.operations import Practice


class FakeClient(PracticeClient):
    """The daemon's answers on a fleet of fakes: reclaims at once, or after the notice."""

    def __init__(self, practice: Practice) -> None:
        super().__init__(Path("/nowhere"))
        self.practice = practice
        self.doom: dict[str, float] = {}

    async def acall(self, verb: str, **fields: Any) -> dict[str, Any]:
        clock = self.practice.clock
        if verb == "reclaim":
            self.doom[fields["host"]] = clock.monotonic() + (fields.get("notice_s") or 0.0)
        for host, at in self.doom.items():
            if clock.monotonic() >= at and not self.practice.nodes[host].dead:
                self.practice.reclaim(host)
        hosts = [
            {"name": name, "state": "terminated" if node.dead else "running"}
            for name, node in self.practice.nodes.items()
        ]
        return {"mode": "namespaces", "reason": "a test", "hosts": hosts, "metrics": "", "pid": 1}


@dataclass
class FakeStage(Stage):
    """Jobs that end with the digest of their seed, or with what a test gives."""

    digests: dict[str, str] = field(default_factory=dict)
    copies: int = 1

    async def uninterrupted(self, plain_run: tuple[str, ...]) -> str:
        return "digest-" + plain_run[plain_run.index("--seed") + 1]

    def living(self, directory: str, store: Path) -> list[int]:
        return list(range(self.copies))

    async def done(self, fleet: Fleet, node: Node, directory: str) -> list[str]:
        name = directory.rpartition("/")[2]
        return [self.digests.get(name, f"digest-{'ab'.index(name[-1]) + 1}"), "700"]


@dataclass
class Play:
    """One telling and what was said."""

    practice: Practice
    stage: FakeStage = field(default_factory=FakeStage)
    said: list[str] = field(default_factory=list)
    finish_epoch: int = 2  # a job of this epoch ends after its second save

    def tell(self) -> dict[str, Any]:
        """Tell it in virtual time."""
        cast = roles("namespaces", self.practice.directory, "", ["n0", "n1", "n2"])
        story = Story(
            self.practice.fleet("demo"), FakeClient(self.practice), cast, self.said.append, lambda _: None,
            stage=self.stage,
        )  # fmt: skip

        async def main() -> dict[str, Any]:
            guards = asyncio.create_task(self.guards(cast))
            try:
                return await story.tell()
            finally:
                guards.cancel()

        return run(self.practice.clock, main())

    async def guards(self, cast: tuple[Role, ...]) -> None:
        """The guards' own timers; jobs of `finish_epoch` end once they are saved twice."""
        names = {role.job.name for role in cast}
        while True:
            for node in self.practice.nodes.values():
                node.tick()
                for held in node.held.values():
                    saves = 0 if held.saved is None else int(held.saved.checkpoint.partition(".")[2])
                    if held.job.name in names and held.epoch == self.finish_epoch and saves >= 2:
                        held.state = "finished"
                        if held.process is not None:
                            held.process.alive = False
            await self.practice.clock.pause(0.5)


@pytest.fixture
def play(tmp_path: Path) -> Play:
    return Play(Practice(tmp_path, nodes=3))


def test_one_host_goes_silently_another_with_a_notice_and_both_jobs_come_back(play: Play) -> None:
    document = play.tell()
    assert document["schema"] == "reprieve/demo/v1"
    assert (document["fleet"], document["engine"], document["ok"]) == ("namespaces", "criu", True)
    silent, announced = document["reclaims"]
    assert (silent["job"], silent["from_node"], silent["to_node"], silent["notice"]) == (
        "train-a",
        "n0",
        "n2",
        False,
    )
    assert (announced["job"], announced["from_node"], announced["notice"]) == ("train-b", "n1", True)
    assert announced["to_node"] not in ("n0", "n1", "n2"), "the spare was full: a new machine came"
    assert silent["wait_s"] == 0
    assert announced["wait_s"] >= 5, "the provider took five seconds to hand one out"
    assert (silent["epoch"], announced["epoch"]) == (2, 2)
    assert all(job["final_digest"] == job["expected_digest"] for job in document["jobs"])
    assert all(job["duplicate_processes"] == 0 for job in document["jobs"])
    told = [next(line for line in play.said if text in line) for text in (
        "Installing the guard on 3 hosts", "n0 is reclaimed now, without notice", "train-a runs on n2 from",
        f"n1 gets a notice: {NOTICE_S:.0f} s", "n1 is gone", "train-b runs on", "train-b finished after 700 steps",
    )]  # fmt: skip
    assert told == sorted(told, key=play.said.index)


def test_a_wrong_digest_is_told_and_not_ok(play: Play) -> None:
    play.stage.digests["train-b"] = "another"
    document = play.tell()
    assert document["ok"] is False
    assert [job["final_digest"] == job["expected_digest"] for job in document["jobs"]] == [True, False]
    assert "NOT the digest of an uninterrupted run" in play.said[-1]


def test_a_second_process_is_counted_and_not_ok(play: Play) -> None:
    play.stage.copies = 2
    document = play.tell()
    assert document["ok"] is False
    assert {job["duplicate_processes"] for job in document["jobs"]} == {1}


def test_a_job_that_ends_before_its_host_goes_is_named(play: Play) -> None:
    play.finish_epoch = 1
    with pytest.raises(ReprieveError, match="train-b ended before its host was taken") as caught:
        play.tell()
    assert caught.value.hint is not None
    assert "--steps" in caught.value.hint

"""The story, step by step: saves go on, one host goes without a word, another with a notice, both jobs come back."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backends.clouds.practice.client import PracticeClient
from backends.errors import ReprieveError
from backends.ledger.records import Reclaim
from backends.records.status import JobStatus
from console.operations.actions.jobs import rehearse as rehearse_action
from console.operations.common import runs
from console.operations.demo.awaited import Awaited, steps_left
from console.operations.demo.cast import STEP_SECONDS, Role
from console.operations.demo.stage import Stage
from console.operations.fleet import Fleet
from console.operations.flows.protect import protect
from console.operations.flows.watch import Watch
from planner.quantities import format_duration

Said = Callable[[str], None]
NOTICE_S = 12.0
SAVES_BEFORE = 2  # durable saves that a job must have before its host goes
PATIENCE_S = 90.0


@dataclass
class Story:
    """One telling. `said` hears a sentence at a time; `rehearse` adds the rehearsal of the first job."""

    fleet: Fleet
    client: PracticeClient
    roles: tuple[Role, ...]
    said: Said
    detail: Said
    rehearse: bool = False
    stage: Stage = field(default_factory=Stage)
    census: dict[str, int] = field(default_factory=dict)  # job → most live processes seen at once
    notices: dict[str, bool] = field(default_factory=dict)  # host → whether its end was announced
    awaited: Awaited | None = None  # read by whoever shows the story, from other threads too

    async def tell(self) -> dict[str, Any]:
        """All of it; returns the document `reprieve/demo/v1`."""
        begun = self.fleet.clock.monotonic()
        described = await self.client.acall("describe")
        expected = {
            role.job.name: asyncio.create_task(self.stage.uninterrupted(role.plain_run))
            for role in self.roles
        }
        try:
            await self._prepare()
            async with self._watched():
                await self._lose(self.roles[0], None)
                await self._lose(self.roles[1], NOTICE_S)
                await self._until_done()
            digests = {name: await task for name, task in expected.items()}
        finally:
            for task in expected.values():
                task.cancel()
            await asyncio.gather(*expected.values(), return_exceptions=True)
        jobs = [await self._ending(role, digests[role.job.name]) for role in self.roles]
        document = self._document(described, jobs, self.fleet.clock.monotonic() - begun)
        self._close(document)
        return document

    @property
    def spare(self) -> str:
        """The host that runs no job at the start."""
        busy = {role.job.node for role in self.roles}
        return next(name for name in sorted(self.fleet.records.nodes()) if name not in busy)

    async def _prepare(self) -> None:
        nodes = sorted(self.fleet.records.nodes().values(), key=lambda node: node.name)
        self.said(f"Installing the guard on {len(nodes)} hosts over SSH; they need no internet for it.")
        self.awaited = Awaited("host by host, the guard is copied and its CRIU tried")
        await asyncio.gather(*(self.fleet.install(node) for node in nodes))
        self.said("Starting two jobs and taking their first saves. No line of them knows about checkpoints."
                  if self.roles[0].job.engine == "criu" else
                  "Starting two jobs that save themselves when asked, and taking their first saves.")  # fmt: skip
        self.awaited = Awaited("each job starts, and is protected once its first save is in the store")
        await asyncio.gather(*(self._run(role) for role in self.roles))
        if self.rehearse:
            name = self.roles[0].job.name
            self.said(f"Rehearsing {name} on another host: does its checkpoint really run there?")
            self.awaited = Awaited(
                f"a copy of {name} is restored on {self.spare}, without network, and ended again"
            )
            await rehearse_action(self.fleet, {"name": name, "to": self.spare}, self.detail)

    async def _run(self, role: Role) -> None:
        opened = runs.open_run(self.fleet, "start", [("1", role.job.name, {})])
        await protect(self.fleet, role.job, "start", opened.id, "1", self.detail)
        self.fleet.ledger.close_item(opened.id, "1", "done", "", {})
        runs.close(self.fleet, opened.id)

    @contextlib.asynccontextmanager
    async def _watched(self) -> AsyncIterator[None]:
        """The controller and the census run while the body does."""
        watch = Watch(self.fleet, self.detail, every_s=1.0)
        tasks = [asyncio.create_task(watch.run()), asyncio.create_task(self._count())]
        try:
            yield
        finally:
            watch.stopping = True
            tasks[1].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _count(self) -> None:
        store = Path((self.fleet.context.store or "").removeprefix("file://"))
        while True:
            for role in self.roles:
                found = await self.fleet.blocking(self.stage.living, role.directory, store)
                self.census[role.job.name] = max(self.census.get(role.job.name, 0), len(found))
            await self.fleet.clock.pause(0.5)

    async def _lose(self, role: Role, notice_s: float | None) -> None:
        name, host = role.job.name, role.job.node
        how = "without notice" if notice_s is None else "with a notice"
        self.awaited = Awaited(f"{host} is taken {how} as soon as {name} was saved {SAVES_BEFORE} times")
        status = await self._until(
            role, lambda job: self._saves(job) >= SAVES_BEFORE, f"{name} to be saved twice"
        )
        risk = format_duration(status.at_risk_s)
        spare = self.fleet.node(self.spare)
        if notice_s is None:
            self.said(
                f"{host} is reclaimed now, without notice. {name} was saved {risk} ago: that is what is at risk."
            )
            await self.client.acall("reclaim", host=host)
        else:
            self.fleet.records.put_node(dataclasses.replace(spare, cordoned=True))
            self.said(
                f"{host} gets a notice: {notice_s:.0f} s. {spare.name} is full (cordoned), so {name} will need a new machine, "
                "bare: no guard, no CRIU."
            )
            self.awaited = Awaited(f"{host} will be taken", self.fleet.clock.monotonic() + notice_s)
            await self.client.acall("reclaim", host=host, notice_s=notice_s)
            await self._until_taken(role, self._saves(status))
        self.notices[host] = notice_s is not None
        self.awaited = Awaited(
            f"{host} is gone: the controller proves it, then restores {name} "
            + ("on a host that is free" if notice_s is None else "on a bare machine, guard and CRIU first")
        )
        reclaims = len(self.reclaims())
        await self._until_reclaim(reclaims, name)
        if notice_s is not None:
            self.fleet.records.put_node(dataclasses.replace(spare, cordoned=False))

    async def _until_taken(self, role: Role, saves: int) -> None:
        """Follow an announced end, and say what the notice was good for; `saves` is how many there were before it."""
        name, host = role.job.name, role.job.node
        deadline = self.fleet.clock.monotonic() + PATIENCE_S
        while self.fleet.clock.monotonic() < deadline:
            described = await self.client.acall("describe")
            if all(item["name"] != host or item["state"] == "terminated" for item in described["hosts"]):
                break
            with contextlib.suppress(ReprieveError):
                _, job = await self.fleet.job_status(self.fleet.node(host), self.fleet.job(name).uid)
                saves = max(saves, 0 if job is None else self._saves(job))
            await self.fleet.clock.pause(0.3)
        self.said(
            f"{host} is gone. Its guard heard the notice; the last save of {name} before the end was 1.{saves}."
        )

    async def _until_reclaim(self, before: int, name: str) -> None:
        deadline = self.fleet.clock.monotonic() + PATIENCE_S
        while len(self.reclaims()) <= before:
            known = self.fleet.ledger.jobs().get(self.fleet.job(name).uid)
            if known is not None and known.state == "finished":
                raise ReprieveError(
                    f"{name} ended before its host was taken", hint="give the jobs more --steps"
                )
            if self.fleet.clock.monotonic() > deadline:
                raise ReprieveError(
                    f"{name} did not come back within {PATIENCE_S:.0f} s", hint="reprieve events list"
                )
            await self.fleet.clock.pause(0.3)
        back = self.reclaims()[-1]
        self.said(
            f"{back.job} runs on {back.to_node} from {back.from_checkpoint}, epoch {back.epoch}: lost work "
            f"{format_duration(back.lost_work_s)}, restore {format_duration(back.restore_s)}, wait {format_duration(back.wait_s)}."
        )

    def reclaims(self) -> list[Reclaim]:
        """What was lost so far and came back, oldest first."""
        return [item for item in self.fleet.ledger.reclaims() if item.outcome == "restored"]

    @staticmethod
    def _saves(job: JobStatus) -> int:
        return 0 if job.saved is None else int(job.saved.checkpoint.partition(".")[2])

    async def _until(
        self, role: Role, test: Callable[[JobStatus], bool], what: str, patience_s: float = PATIENCE_S
    ) -> JobStatus:
        deadline = self.fleet.clock.monotonic() + patience_s
        while True:
            job = self.fleet.job(role.job.name)
            with contextlib.suppress(ReprieveError):
                _, status = await self.fleet.job_status(self.fleet.node(job.node), job.uid)
                if status is not None and test(status):
                    return status
            if self.fleet.clock.monotonic() > deadline:
                raise ReprieveError(f"waited {patience_s:.0f} s for {what}", hint="reprieve events list")
            await self.fleet.clock.pause(0.3)

    async def _until_done(self) -> None:
        longest = max(role.steps for role in self.roles) * STEP_SECONDS
        self.said(
            f"Both jobs are back. They run to their end, {format_duration(longest)} of work in all, and their digests are "
            "compared with an uninterrupted run."
        )
        counting = asyncio.create_task(self._count_steps())
        try:
            for role in self.roles:
                await self._until(
                    role,
                    lambda job: job.state in ("finished", "failed", "ended_unknown"),
                    "the jobs to end",
                    PATIENCE_S + 3.0 * longest,  # saves, freezes and a busy machine take their share
                )
        finally:
            counting.cancel()
        self.awaited = Awaited("the digests of uninterrupted runs are awaited")

    async def _count_steps(self) -> None:
        """Keep telling how far the jobs are."""
        steps = {role.job.name: role.steps for role in self.roles}
        while True:
            done: dict[str, int | None] = {}
            for role in self.roles:
                with contextlib.suppress(ReprieveError):
                    node = self.fleet.node(self.fleet.job(role.job.name).node)
                    done[role.job.name] = await self.stage.steps(self.fleet, node, role.directory)
            self.awaited = steps_left(done, steps, STEP_SECONDS, self.fleet.clock.monotonic())
            await self.fleet.clock.pause(2.0)

    async def _ending(self, role: Role, expected: str) -> dict[str, Any]:
        """How a job ended: the digest in its DONE file, read from its last host."""
        job = self.fleet.job(role.job.name)
        words = await self.stage.done(self.fleet, self.fleet.node(job.node), role.directory)
        return {
            "job": role.job.name,
            "final_digest": words[0] if words else None,
            "expected_digest": expected,
            "steps": int(words[1]) if len(words) > 1 else None,
            "duplicate_processes": max(0, self.census.get(role.job.name, 0) - 1),
        }

    def _document(
        self, described: dict[str, Any], jobs: list[dict[str, Any]], seconds: float
    ) -> dict[str, Any]:
        reclaims = [
            {
                "job": item.job,
                "from_node": item.from_node,
                "notice": self.notices.get(item.from_node or "", False),
                "lost_work_s": item.lost_work_s,
                "restore_s": item.restore_s,
                "wait_s": item.wait_s,
                "from_checkpoint": item.from_checkpoint,
                "to_node": item.to_node,
                "epoch": item.epoch,
            }
            for item in self.reclaims()
        ]
        equal = all(
            job["final_digest"] == job["expected_digest"] and not job["duplicate_processes"] for job in jobs
        )
        return {
            "schema": "reprieve/demo/v1",
            "fleet": described["mode"],
            "reason": described["reason"],
            "engine": self.roles[0].job.engine,
            "hosts": len(described["hosts"]),
            "reclaims": reclaims,
            "jobs": jobs,
            "duration_s": round(seconds, 3),
            "ok": equal and len(reclaims) == 2,
        }

    def _close(self, document: dict[str, Any]) -> None:
        for job in document["jobs"]:
            same = job["final_digest"] == job["expected_digest"]
            word = "equal to an uninterrupted run" if same else "NOT the digest of an uninterrupted run"
            self.said(
                f"{job['job']} finished after {job['steps']} steps, digest {str(job['final_digest'])[:12]}: {word}."
            )

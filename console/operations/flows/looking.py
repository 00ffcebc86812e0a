"""The controller's eyes: every node and job judged again and again, and what that calls for; nothing is changed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from backends.clock import parse_utc
from backends.errors import ReprieveError
from backends.ledger.records import JobCurrent
from backends.records.job import Job
from console.operations.accounting import report
from console.operations.common.candidates import find_place
from console.operations.common.leases import lease_word
from console.operations.decide.capacity import age_limited
from console.operations.decide.loss import Limits, NodeVerdict
from console.operations.decide.watch import ZOMBIE_WINDOW_S, Action, WatchedJob, decide, restores_in_a_row
from console.operations.fleet import Fleet
from console.operations.hooks.news import Level, News
from console.operations.polling import NodeKnown, Poller

LOOK_S = 3.0
JOBS_AT_ONCE = 8  # lost jobs whose store and candidates are asked at once

Told = Callable[[str], None]


@dataclass
class Trouble:
    """How often a job's restores failed in a row, and when to try again."""

    failures: int = 0
    not_before: float = 0.0  # monotonic


@dataclass
class Looking:
    """What a controller knows. `told` hears what it does, a sentence at a time."""

    fleet: Fleet
    told: Told
    every_s: float = 5.0
    limits: Limits = field(default_factory=Limits)
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    trouble: dict[str, Trouble] = field(default_factory=dict)
    short: dict[str, float | None] = field(
        default_factory=dict
    )  # uid of a job no node could take → for how long
    lost_at: dict[str, float] = field(default_factory=dict)  # node → wall time when its loss was proven to us
    alerts: set[tuple[str, str]] = field(default_factory=set)
    stopping: bool = False
    dry_run: bool = False  # nothing is written
    silent: set[str] = field(default_factory=set)  # nodes whose silence was told
    heard: Callable[[News], None] | None = None  # hears the same as data
    copies: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # as the last look found them

    def __post_init__(self) -> None:
        self.poller = Poller(self.fleet, self.limits)

    async def look(self) -> list[Action]:
        """Ask every node, judge, and decide; nothing is changed."""
        known = await self.poller.look(LOOK_S)
        self.copies = self._copies()
        current = self.fleet.ledger.jobs()
        verdicts = {name: self.poller.verdict(each) for name, each in known.items()}
        self._losses(known, verdicts)
        self._silences(verdicts)
        room = asyncio.Semaphore(JOBS_AT_ONCE)

        async def one(job: Job) -> WatchedJob:
            verdict = verdicts.get(job.node, NodeVerdict("unreachable", "not in the fleet"))
            async with room:
                return await self._watched(job, current.get(job.uid), verdict)

        jobs = [job for job in self.fleet.jobs().values() if job.uid]
        return decide(list(await asyncio.gather(*(one(job) for job in jobs))), self._zombies())

    def _losses(self, known: dict[str, NodeKnown], verdicts: dict[str, NodeVerdict]) -> None:
        for name, verdict in verdicts.items():
            if verdict.state == "lost" and name not in self.lost_at:
                self.lost_at[name] = self.fleet.clock.wall()
                status = known[name].status
                notice = None if status is None else status.notice == "notice"
                node, cloud = known[name].node, known[name].cloud
                lived_s = None if status is None else status.uptime_s
                code = cloud.reason if cloud is not None else ""
                data = {
                    "proof": verdict.reason,
                    "notice": notice,
                    "pool": node.pool,
                    "age_limit": age_limited(node.provider, code, lived_s),
                }
                if self.dry_run or self._told_before(name):
                    continue
                self.say(f"node {name} is lost: {verdict.reason}", "news", "node.lost", node=name)
                self.fleet.tell("node.lost", f"{name} is lost: {verdict.reason}", node=name, data=data)
            elif verdict.state != "lost":
                self.lost_at.pop(name, None)

    def _silences(self, verdicts: dict[str, NodeVerdict]) -> None:
        """Say once that a node is silent, what that means for its jobs, and when it answers again."""
        for name, verdict in verdicts.items():
            if verdict.state == "unreachable" and name not in self.silent:
                self.silent.add(name)
                jobs = [job.name for job in self.fleet.jobs().values() if job.uid and job.node == name]
                held = f"; without proof that it is gone {', '.join(jobs)} is not restored" if jobs else ""
                text = f"node {name} does not answer: {verdict.reason}{held}"
                self.say(text, "news", "node.silent", node=name)
            elif verdict.state in ("ok", "cordoned", "not_ready") and name in self.silent:
                self.silent.discard(name)
                self.say(f"node {name} answers again", "news", "node.answers", node=name)

    def _told_before(self, node: str) -> bool:
        """Whether the history's last word on this node is its loss: an earlier controller told it."""
        for _, event in reversed(self.fleet.ledger.events(limit=500)):
            if event.node == node and event.kind.partition(".")[0] in ("node", "guard", "save"):
                return event.kind == "node.lost"
        return False

    async def _watched(self, job: Job, current: JobCurrent | None, verdict: NodeVerdict) -> WatchedJob:
        state = current.state if current is not None else "trial"
        busy = job.uid in self.tasks and not self.tasks[job.uid].done()
        trouble = self.trouble.get(job.uid, Trouble())
        reclaimed = current is not None and current.status.get("reclaimed") is True
        rebooted = current is not None and current.status.get("rebooted") is True
        base = WatchedJob(
            job.name,
            job.uid,
            verdict.state,
            verdict.state == "lost" or ((reclaimed or rebooted) and verdict.state in ("ok", "cordoned")),
            state,
            job.priority,
            job.restore,
            job.paused or state == "paused",
            busy=busy,
            stands_still=self._stands_still(job, state),
            reclaimed=reclaimed,
            rebooted=rebooted,
            retry_in_s=max(0.0, trouble.not_before - self.fleet.clock.monotonic()),
        )
        if verdict.state == "unreachable" and job.on_isolated == "freeze" and not busy and not base.paused:
            leased = await self._lease_ran_out(job)
            base = replace(base, leased=leased, proven=base.proven or leased)
        if not base.proven or busy or base.paused:
            return base
        return await self._with_store(job, base)

    def _stands_still(self, job: Job, state: str) -> str:
        """Why nothing of a job runs although its node answers, or nothing.

        Somebody claimed a newer epoch by hand, and was killed or refused before it ran: only its own terminal was told.
        """
        node = self.poller.known.get(job.node)
        if node is None or not node.answered:
            return ""
        copies = self.copies.get(job.uid, [])
        if any(word != "zombie" for _, word in copies):
            return ""
        if copies:
            return f"{copies[0][0]} holds it frozen behind a newer epoch, of which nothing runs"
        return f"its restore on {job.node} was not finished" if state == "restoring" else ""

    def _copies(self) -> dict[str, list[tuple[str, str]]]:
        """Uid → node and state wherever a guard that answers holds a job."""
        found: dict[str, list[tuple[str, str]]] = {}
        for name, known in self.poller.known.items():
            if known.answered and known.status is not None:
                for job in known.status.jobs:
                    found.setdefault(job.uid, []).append((name, job.state))
        return found

    async def _lease_ran_out(self, job: Job) -> bool:
        """Whether the guard's promise to freeze this job has come due; the restore gathers its own evidence again."""
        try:
            running = (await self.fleet.blocking(self.fleet.truth(job).lineage, job.uid)).running
            lease = None if running is None else await lease_word(self.fleet, job, running)
        except ReprieveError as error:
            self.alert(job.uid, f"job {job.name}: its lease cannot be read: {error.message}")
            return False
        return (
            running is not None and lease is not None and lease.guard == running.guard and lease.left_s == 0
        )

    async def _with_store(self, job: Job, base: WatchedJob) -> WatchedJob:
        """What only a lost job needs: its newest checkpoint, its restores in a row, and whether a node fits."""
        truth = self.fleet.truth(job)
        try:
            lineage = await self.fleet.blocking(truth.lineage, job.uid)
            newest = await self.fleet.blocking(truth.newest, job.uid)
            fingerprint = {}
            if newest is not None:
                save = await self.fleet.blocking(truth.look, job.uid, newest, self.fleet.job_key(job.uid))
                fingerprint = save.fingerprint
            together = await self._together(job)
        except ReprieveError as error:
            self.alert(job.uid, f"job {job.name}: its store cannot be read: {error.message}")
            return WatchedJob(**{**base.__dict__, "busy": True})
        source, count = restores_in_a_row([(epoch.kind, epoch.checkpoint) for epoch in lineage.epochs])
        placement = await find_place(
            self.fleet, job, fingerprint, to=None, exclude={}, force={}, hearing=self.poller
        )
        return WatchedJob(
            **{
                **base.__dict__,
                "checkpoint": newest,
                "restores_of_it": count if source == newest else 0,
                "stop": self._policy_stop(job) or together,
                "node_fits": placement.node is not None,
                "why_none_fits": placement.explain(),
            }
        )

    async def _together(self, job: Job) -> str:
        """Why a job that was saved with its group is not brought back alone, or nothing."""
        if job.group is None:
            return ""
        saves = await self.fleet.blocking(self.fleet.truth(job).group_saves, job.group)
        if not saves or len(saves[0].members) < 2 or saves[0].checkpoint_of(job.uid) is None:
            return ""
        return (
            f"the {len(saves[0].members)} jobs of group {job.group} go back together, which ends those that live: "
            f"`reprieve jobs restore --group {job.group}`"
        )

    def _policy_stop(self, job: Job) -> str:
        """Why the job's policy ends restores by themselves now, or nothing."""
        if job.stop_after_reclaims is None and not job.stop_when_unpaid:
            return ""
        document = report(self.fleet.ledger, job=job.name, discount=job.discount)
        count = document["totals"]["reclaims"]
        if job.stop_after_reclaims is not None and count >= job.stop_after_reclaims:
            return f"it was restored after {count} reclaims, and stop_after_reclaims is {job.stop_after_reclaims}"
        if job.stop_when_unpaid and document["pays"] is False:
            ratio, even = document["lost_ratio"], document["break_even_ratio"]
            return f"spot does not pay for it any more: rL/H = {ratio:.3f}, d/(1−d) = {even:.3f}"
        return ""

    def _zombies(self) -> list[float]:
        now, ages = self.fleet.clock.wall(), []
        for _, event in self.fleet.ledger.events(limit=100, kinds=("job.zombie",)):
            try:
                ages.append(max(0.0, now - parse_utc(event.time)))
            except ReprieveError:
                ages.append(0.0)
        return [age for age in ages if age < ZOMBIE_WINDOW_S]

    def alert(self, subject: str, text: str, awaits: str = "operator") -> None:
        """Tell once, and keep it in the history with what a job `awaits` now: a person, or a `node`."""
        said = (subject, re.sub(r"[0-9]+", "#", text))  # a count that goes up or down is no news
        if said in self.alerts:
            return
        self.alerts.add(said)
        job = next((job.name for job in self.fleet.jobs().values() if job.uid == subject), None)
        node = subject if subject in self.fleet.records.nodes() else None
        self.say(f"ALERT {text}", "alert", "watch.alert", node=node, job=job)
        if not self.dry_run:
            self.fleet.tell("watch.alert", text, node=node, job=job, data={"awaits": awaits})

    def say(
        self,
        text: str,
        level: Level = "info",
        kind: str = "step",
        *,
        node: str | None = None,
        job: str | None = None,
    ) -> None:
        """Say one sentence to whoever listens."""
        self.told(text)
        if self.heard is not None:
            self.heard(News(self.fleet.now_text(), level, kind, text.removeprefix("ALERT "), node, job))

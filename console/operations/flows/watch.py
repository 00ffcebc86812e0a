"""The controller: looks at the fleet again and again and restores lost jobs by policy; never without proof."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from backends.clock import parse_utc
from backends.errors import ReprieveError, StoreError, UnreachableError
from backends.ledger.records import JobCurrent
from backends.records.job import Job
from console.operations.common import runs
from console.operations.common.candidates import find_place
from console.operations.decide.loss import Limits, NodeVerdict
from console.operations.decide.watch import (
    ZOMBIE_WINDOW_S,
    Action,
    WatchedJob,
    back_off_s,
    decide,
    restores_in_a_row,
)
from console.operations.fleet import Fleet
from console.operations.flows.capacity import may_replace, replacement
from console.operations.flows.restore import RestoreWish, restore
from console.operations.flows.upkeep import Upkeep
from console.operations.polling import NodeKnown, Poller

MOST_AT_ONCE = 8
LOOK_S = 3.0

Told = Callable[[str], None]


@dataclass
class Trouble:
    """How often a job's restores failed in a row, and when to try again."""

    failures: int = 0
    not_before: float = 0.0  # monotonic


@dataclass
class Watch:
    """One controller. `told` hears what it does, a sentence at a time."""

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

    def __post_init__(self) -> None:
        self.poller = Poller(self.fleet, self.limits)
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self.upkeep = Upkeep(self.fleet, self.told, self.alert)

    async def run(self) -> None:
        """Look and act until `stopping`; restores under way are left to their journal when cancelled."""
        self.fleet.tell("watch.started", f"controller {self.fleet.who} watches {self.fleet.context.name}")
        self.take_up()
        try:
            while not self.stopping:
                await self.beat()
                for action in await self.look():
                    self.act(action)
                self.upkeep.tick()
                await self.fleet.clock.pause(self.every_s)
        finally:
            await self.close()

    async def once(self) -> list[Action]:
        """One look; acts on it and waits for what it began."""
        actions = await self.look()
        for action in actions:
            self.act(action)
        await asyncio.gather(*self.tasks.values())
        return actions

    async def close(self) -> None:
        """End the calls under way; a restore that was cut off is resumed from its journal next time."""
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        await self.upkeep.close()
        await self.poller.close()

    def take_up(self) -> None:
        """Go on with restores that an earlier controller on this machine left unfinished."""
        for run in self.fleet.ledger.runs(200):
            if run.kind != "watch" or run.state != "running":
                continue
            for item in self.fleet.ledger.items(run.id):
                job = self.fleet.jobs().get(item.job)
                if job is None or job.uid in self.tasks:
                    self.fleet.ledger.close_item(run.id, item.item, "cancelled", "superseded", {})
                    runs.close(self.fleet, run.id)
                    continue
                self.told(f"{item.job}: going on with an interrupted restore")
                self._begin(job, run.id, item.arguments)

    async def beat(self) -> None:
        """The heartbeat in the fleet's stores, by which every screen knows that a controller lives."""
        document = {"at": self.fleet.now_text(), "every_s": self.every_s, "fleet": self.fleet.context.name}
        for store in self.fleet.stores():
            try:
                truth = self.fleet.truth_at(store)
                await self.fleet.blocking(truth.heartbeat, self.fleet.who, document)
            except (StoreError, UnreachableError) as error:
                self.alert("store", f"the heartbeat cannot be written: {error.message}")

    # -- looking --------------------------------------------------------------------------------------------------

    async def look(self) -> list[Action]:
        """Ask every node, judge, and decide; nothing is changed."""
        known = await self.poller.look(LOOK_S)
        current = self.fleet.ledger.jobs()
        verdicts = {name: self.poller.verdict(each) for name, each in known.items()}
        self._losses(known, verdicts)
        self._silences(verdicts)
        watched = []
        for job in self.fleet.jobs().values():
            if job.uid:
                verdict = verdicts.get(job.node, NodeVerdict("unreachable", "not in the fleet"))
                watched.append(await self._watched(job, current.get(job.uid), verdict))
        return decide(watched, self._zombies())

    def _losses(self, known: dict[str, NodeKnown], verdicts: dict[str, NodeVerdict]) -> None:
        for name, verdict in verdicts.items():
            if verdict.state == "lost" and name not in self.lost_at:
                self.lost_at[name] = self.fleet.clock.wall()
                status = known[name].status
                notice = None if status is None else status.notice == "notice"
                data = {"proof": verdict.reason, "notice": notice}
                if self.dry_run or self._told_before(name):
                    continue
                self.told(f"node {name} is lost: {verdict.reason}")
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
                self.told(f"node {name} does not answer: {verdict.reason}{held}")
            elif verdict.state in ("ok", "cordoned", "not_ready") and name in self.silent:
                self.silent.discard(name)
                self.told(f"node {name} answers again")

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
        base = WatchedJob(
            job.name,
            job.uid,
            verdict.state,
            verdict.state == "lost",
            state,
            job.priority,
            job.restore,
            job.paused or state == "paused",
            job.attach is not None,
            busy=busy,
            retry_in_s=max(0.0, trouble.not_before - self.fleet.clock.monotonic()),
        )
        if verdict.state != "lost" or busy or base.paused:
            return base
        return await self._with_store(job, base)

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
        except ReprieveError as error:
            self.alert(job.uid, f"job {job.name}: its store cannot be read: {error.message}")
            return WatchedJob(**{**base.__dict__, "busy": True})
        source, count = restores_in_a_row([(epoch.kind, epoch.checkpoint) for epoch in lineage.epochs])
        placement = await find_place(self.fleet, job, fingerprint, to=None, exclude={}, force={})
        return WatchedJob(
            **{
                **base.__dict__,
                "checkpoint": newest,
                "restores_of_it": count if source == newest else 0,
                "node_fits": placement.node is not None,
                "why_none_fits": placement.explain(),
            }
        )

    def _zombies(self) -> list[float]:
        now, ages = self.fleet.clock.wall(), []
        for _, event in self.fleet.ledger.events(limit=500):
            if event.kind == "job.zombie":
                try:
                    ages.append(max(0.0, now - parse_utc(event.time)))
                except ReprieveError:
                    ages.append(0.0)
        return [age for age in ages if age < ZOMBIE_WINDOW_S]

    # -- acting ---------------------------------------------------------------------------------------------------

    def act(self, action: Action) -> None:
        """Begin what was decided; alerts are told once each."""
        if action.kind == "alert":
            self.alert(action.uid, action.reason)
            return
        job = self.fleet.jobs().get(action.job)
        if job is None:
            return
        lost = self.fleet.records.nodes().get(job.node)
        if action.kind == "capacity":
            self.short.setdefault(job.uid, None)
            refusal = f"node {job.node} is not in the fleet" if lost is None else may_replace(job, lost)
            if refusal is not None:
                self.alert(job.uid, f"job {job.name} waits for capacity: {action.reason}; {refusal}")
                return
        known = self.poller.known.get(job.node)
        status = known.status if known is not None else None
        noticed = self._noticed_s(job.node)
        arguments = {
            "detected_at": self.lost_at.get(job.node, self.fleet.clock.wall()),
            "lost": job.node,
            "capacity": action.kind == "capacity",
            "short": job.uid in self.short,
            "notice": None if status is None else noticed is not None or status.notice == "notice",
            "notice_s": noticed,
        }
        run = runs.open_run(self.fleet, "watch", [("1", job.name, arguments)], reason=action.reason)
        self.told(f"{job.name}: {action.reason}")
        self._begin(job, run.id, arguments)

    def _noticed_s(self, node: str) -> float | None:
        """How long before its proven loss the node's notice was seen; None: never."""
        for _, event in reversed(self.fleet.ledger.events(limit=500)):
            if event.node == node and event.kind == "notice.seen":
                try:
                    seen_at = parse_utc(event.time)
                except ReprieveError:
                    return None
                return max(0.0, self.lost_at.get(node, self.fleet.clock.wall()) - seen_at)
        return None

    def _begin(self, job: Job, run: str, arguments: dict[str, object]) -> None:
        self.tasks[job.uid] = asyncio.create_task(self._bring_back(job, run, arguments))

    async def _bring_back(self, job: Job, run: str, arguments: dict[str, object]) -> None:
        fleet = self.fleet

        def step(text: str) -> None:
            self.told(f"{job.name}: {text}")

        detected, notice, notice_s = (arguments.get(name) for name in ("detected_at", "notice", "notice_s"))
        async with self._room:
            try:
                to = None
                lost = fleet.records.nodes().get(str(arguments.get("lost")))
                if arguments.get("capacity") and lost is not None:
                    to = (await replacement(fleet, lost, step)).name
                no_node_s = self._no_node_s(job.uid, arguments)
                wish = RestoreWish(
                    job,
                    to=to,
                    cause="reclaim",
                    detected_at=float(detected) if isinstance(detected, (int, float)) else None,
                    no_node_s=no_node_s,
                    notice=notice if isinstance(notice, bool) else None,
                    notice_s=float(notice_s) if isinstance(notice_s, (int, float)) else None,
                )
                result = await restore(fleet, wish, run, "1", step)
            except ReprieveError as error:
                self._failed(job, run, error)
                return
        self.trouble.pop(job.uid, None)
        self.short.pop(job.uid, None)
        self.alerts = {alert for alert in self.alerts if alert[0] != job.uid}
        fleet.ledger.close_item(run, "1", "restored", "", {"node": result.node, "epoch": result.epoch})
        runs.close(fleet, run)
        self.told(f"{job.name} runs on {result.node} again, epoch {result.epoch}")

    def _no_node_s(self, uid: str, arguments: dict[str, object]) -> float:
        """How long no node could take the job, now that one can; told once, so that failed tries do not count."""
        detected = arguments.get("detected_at")
        if arguments.get("short") and self.short.get(uid) is None and isinstance(detected, (int, float)):
            self.short[uid] = max(0.0, self.fleet.clock.wall() - detected)
        return self.short.get(uid) or 0.0

    def _failed(self, job: Job, run: str, error: ReprieveError) -> None:
        trouble = self.trouble.setdefault(job.uid, Trouble())
        trouble.failures += 1
        trouble.not_before = self.fleet.clock.monotonic() + back_off_s(trouble.failures)
        self.fleet.ledger.close_item(run, "1", runs.item_state_of(error), error.message, {})
        runs.close(self.fleet, run)
        self.alert(job.uid, f"job {job.name} was not restored: {error.message}")

    def alert(self, subject: str, text: str) -> None:
        """Tell once, and keep it in the history."""
        if (subject, text) in self.alerts:
            return
        self.alerts.add((subject, text))
        self.told(f"ALERT {text}")
        if self.dry_run:
            return
        job = next((job.name for job in self.fleet.jobs().values() if job.uid == subject), None)
        self.fleet.tell("watch.alert", text, job=job)

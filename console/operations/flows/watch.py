"""The controller: looks at the fleet again and again and restores lost jobs by policy; never without proof."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from backends.clock import parse_utc
from backends.errors import IncompatibleError, ReprieveError, StoreError, UnreachableError
from backends.ledger.records import Reclaim
from backends.records.job import Job
from backends.records.node import Node
from console.operations.common import runs
from console.operations.decide.capacity import Request
from console.operations.decide.clocks import NODE_CLOCK, clock_word
from console.operations.decide.spending import over
from console.operations.decide.watch import Action, back_off_s
from console.operations.flows.capacity import attempts, from_any, paid_for, preview, request_for, token_of
from console.operations.flows.fencing import Fencer
from console.operations.flows.lending import RENTED
from console.operations.flows.looking import Looking, Told, Trouble
from console.operations.flows.restore import RestoreWish, restore
from console.operations.flows.upkeep import Upkeep

__all__ = ["Told", "Watch"]

MOST_AT_ONCE = 8


class Watch(Looking):
    """One controller."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.fencer = Fencer(self.fleet, self.say, self.alert)
        self.store_answers = True
        self.beat_at: float | None = None  # wall time of the last heartbeat that every store took
        self.sharing: dict[str, str] = {}  # uid of a job that a new machine is had for → the node it replaces
        self.listeners: list[asyncio.Task[None]] = []
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self.upkeep = Upkeep(self.fleet, self.told, self.alert)

    async def run(self) -> None:
        """Look and act until `stopping`; restores under way are left to their journal when cancelled."""
        self.fleet.tell("watch.started", f"controller {self.fleet.who} watches {self.fleet.context.name}")
        self.take_up()
        self.listen()
        try:
            while not self.stopping:
                await self.beat()
                for action in await self.look():
                    self.act(action)
                self.fence()
                self.money()
                self.clocks()
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
        for listener in self.listeners:
            listener.cancel()
        await asyncio.gather(*self.listeners, return_exceptions=True)
        await self.fencer.close()
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
                self.say(f"{item.job}: going on with an interrupted restore", job=item.job)
                self._begin(job, run.id, item.arguments)

    async def beat(self) -> None:
        """The heartbeat in the fleet's stores, by which every screen knows that a controller lives."""
        document = {"at": self.fleet.now_text(), "every_s": self.every_s, "fleet": self.fleet.context.name}
        self.store_answers = True
        for store in self.fleet.stores():
            try:
                truth = self.fleet.truth_at(store)
                await self.fleet.blocking(truth.heartbeat, self.fleet.who, document)
            except (StoreError, UnreachableError) as error:
                self.store_answers = False
                self.alert("store", f"the heartbeat cannot be written: {error.message}")
        if self.store_answers:
            self.beat_at = self.fleet.clock.wall()

    def listen(self) -> None:
        """Begin to listen to the queues of the fleet's file; raises UsageError for one that is not understood."""
        for text in self.fleet.records.notices():
            from backends.clouds.aws.queue import Queue, address
            from console.operations.flows.outside import Listener

            listener = Listener(self.fleet, Queue(*address(text), self.fleet.clock), self.say, self.alert)
            self.listeners.append(asyncio.create_task(listener.run()))

    def fence(self) -> None:
        """Turn off what its record says is to be turned off after so much silence."""
        self.fencer.act(self.poller, store_answers=self.store_answers)

    def money(self) -> None:
        """Tell of rented machines that have cost more than one may; ending them is left to people: jobs live there."""
        if not any(RENTED in node.labels for node in self.fleet.records.nodes().values()):
            return
        limits, now = self.fleet.records.renting(), self.fleet.clock.wall()
        for node, usd in over(limits, paid_for(self.fleet), now).items():
            text = f"node {node} has cost {usd:.2f} USD, and max_usd is {limits.max_usd:g}: move its jobs, then `reprieve fleet reap`"
            self.alert(node, text)

    def clocks(self) -> None:
        """Tell of each node whose wall clock is off, once until it is right again."""
        for name, known in self.poller.known.items():
            if not known.answered:
                continue
            word = clock_word(known.offset_s)
            if word:
                self.alert(name, f"{name}: {word}")
            else:
                self.alerts = {each for each in self.alerts if each[0] != name or NODE_CLOCK not in each[1]}

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
        wanted: Request | None = None
        token = ""
        if action.kind == "capacity":
            self.short.setdefault(job.uid, None)
            request: Request | str = f"node {job.node} is not in the fleet"
            if lost is not None:
                now = self.fleet.clock.wall()
                request = request_for(self.fleet, job, lost, now - self.lost_at.get(job.node, now))
            if isinstance(request, str):
                text = f"job {job.name} waits for capacity: {action.reason}; {request}"
                self.alert(job.uid, text, "node")
                return
            wanted = request
            if lost is not None:
                token = token_of(lost, wanted, attempts(self.fleet, lost))
        known = self.poller.known.get(job.node)
        status = known.status if known is not None else None
        noticed = self._noticed_s(job.node)
        arguments = {
            "detected_at": self.lost_at.get(job.node, self.fleet.clock.wall()),
            "lost": job.node,
            "rebooted": self._rebooted(job),
            "capacity": None if wanted is None else asdict(wanted),
            "token": token,
            "short": job.uid in self.short,
            "notice": None if status is None else noticed is not None or status.notice == "notice",
            "notice_s": noticed,
        }
        run = runs.open_run(self.fleet, "watch", [("1", job.name, arguments)], reason=action.reason)
        self.say(f"{job.name}: {action.reason}", "news", "restore.begun", node=job.node, job=job.name)
        self._begin(job, run.id, arguments)

    def _rebooted(self, job: Job) -> bool:
        """Whether the job ended by a restart of its node, which is no reclaim of the provider's."""
        current = self.fleet.ledger.jobs().get(job.uid)
        return current is not None and current.status.get("rebooted") is True and job.node not in self.lost_at

    def would_ask(self, job: str) -> dict[str, Any]:
        """What a lost job's new machine would be asked for by, now; contacts nobody."""
        known = self.fleet.job(job)
        lost = self.fleet.records.nodes().get(known.node)
        if lost is None:
            return {"job": job, "reason": f"node {known.node} is not in the fleet"}
        now = self.fleet.clock.wall()
        return preview(self.fleet, known, lost, now - self.lost_at.get(known.node, now))

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
            self.say(f"{job.name}: {text}", job=job.name)

        detected, notice, notice_s = (arguments.get(name) for name in ("detected_at", "notice", "notice_s"))
        async with self._room:
            try:
                to = None
                lost = fleet.records.nodes().get(str(arguments.get("lost")))
                wanted = arguments.get("capacity")
                if isinstance(wanted, dict) and lost is not None:
                    first = (
                        Request(**wanted),
                        str(arguments.get("token") or token_of(lost, Request(**wanted))),
                    )
                    to = await self._rented(job, lost, first, detected, step)
                no_node_s = self._no_node_s(job.uid, arguments)
                wish = RestoreWish(
                    job,
                    to=to,
                    cause="reboot" if arguments.get("rebooted") is True else "reclaim",
                    detected_at=float(detected) if isinstance(detected, (int, float)) else None,
                    no_node_s=no_node_s,
                    notice=notice if isinstance(notice, bool) else None,
                    notice_s=float(notice_s) if isinstance(notice_s, (int, float)) else None,
                    hearing=self.poller if to is None else None,
                )
                result = await restore(fleet, wish, run, "1", step)
            except ReprieveError as error:
                self._failed(job, run, error, arguments)
                return
            finally:
                self.sharing.pop(job.uid, None)
        self.trouble.pop(job.uid, None)
        self.short.pop(job.uid, None)
        self.alerts = {alert for alert in self.alerts if alert[0] != job.uid}
        fleet.ledger.close_item(run, "1", "restored", "", {"node": result.node, "epoch": result.epoch})
        runs.close(fleet, run)
        text = f"{job.name} runs on {result.node} again, epoch {result.epoch}"
        self.say(text, "news", "restore.done", node=result.node, job=job.name)

    async def _rented(
        self, job: Job, lost: Node, first: tuple[Request, str], detected: object, step: Told
    ) -> str:
        """The name of a new machine that can take the job."""

        def waited_s() -> float:
            return self.fleet.clock.wall() - detected if isinstance(detected, (int, float)) else 0.0

        def alone(node: Node) -> bool:
            waiting = any(held == lost.name and uid != job.uid for uid, held in self.sharing.items())
            return not waiting and all(each.node != node.name for each in self.fleet.jobs().values())

        self.sharing[job.uid] = lost.name
        node = await from_any(self.fleet, job, lost, first, step, waited_s=waited_s, alone=alone)
        return node.name

    def _no_node_s(self, uid: str, arguments: dict[str, object]) -> float:
        """How long no node could take the job, now that one can; told once, so that failed tries do not count."""
        detected = arguments.get("detected_at")
        if arguments.get("short") and self.short.get(uid) is None and isinstance(detected, (int, float)):
            self.short[uid] = max(0.0, self.fleet.clock.wall() - detected)
        return self.short.get(uid) or 0.0

    def _failed(self, job: Job, run: str, error: ReprieveError, arguments: dict[str, object]) -> None:
        trouble = self.trouble.setdefault(job.uid, Trouble())
        trouble.failures += 1
        trouble.not_before = self.fleet.clock.monotonic() + back_off_s(trouble.failures)
        self.fleet.ledger.close_item(run, "1", runs.item_state_of(error), error.message, {})
        runs.close(self.fleet, run)
        awaits = "node" if isinstance(error, IncompatibleError) else "controller"  # it tries again by itself
        self.alert(job.uid, f"job {job.name} was not restored: {error.message}", awaits)
        lost, at = str(arguments.get("lost")), arguments.get("detected_at")
        node, noticed = self.fleet.records.nodes().get(lost), arguments.get("notice")
        if not isinstance(at, (int, float)):
            return
        self.fleet.ledger.put_reclaim(  # one record a loss, however often it is tried
            Reclaim(
                key=f"failed/{job.uid}/{lost}/{at:.0f}", at=at, job=job.name, uid=job.uid, from_node=lost,
                notice=noticed if isinstance(noticed, bool) else None, notice_s=None, lost_work_s=None,
                least_lost_s=None, restore_s=None, wait_s=None, from_checkpoint=None, to_node=None, epoch=None,
                failed_tries=trouble.failures, outcome="failed", pool=None if node is None else node.pool,
            )
        )  # fmt: skip

"""Looking at every node at once, again and again: statuses, events, measured saves; slow ones hold up nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from backends.clean import clean
from backends.clock import format_utc, parse_utc
from backends.clouds.port import InstanceState
from backends.errors import DamagedError, NotInstalledError, ReprieveError, UnreachableError
from backends.ledger.records import JobCurrent, NodeSeen, SaveMeasure, Work
from backends.records import strict
from backends.records.event import Event
from backends.records.node import Node
from backends.records.status import JobStatus, NodeStatus
from console.operations.decide.loss import Limits, NodeVerdict, Witness, judge_node, judge_unanswered
from console.operations.fleet import Fleet

STATUS_S = 4.0  # time-out of one status call
KEEP_S = 10.0  # unchanged knowledge is written to the ledger this often
EVENTS_AT_ONCE = 500
RUNNING = (
    "trial",
    "unrehearsed",
    "protected",
    "overdue",
    "noticed",
    "paused",
)  # a guard's words for work going on


@dataclass
class NodeKnown:
    """What this program knows of one node."""

    node: Node
    status: NodeStatus | None = None  # the last answer
    asked_at: float | None = None  # wall clock when the call that brought `status` began
    heard: float | None = None  # monotonic time of the last answer
    answered: bool = False  # the newest try got an answer
    tried: bool = False
    asking_at: float | None = None  # monotonic time of the first try
    error: str = ""
    missing: str = ""
    cloud: InstanceState | None = None
    offset_s: float | None = None
    kept_at: float = float("-inf")  # monotonic time of the last write to the ledger
    events_next: int = 0
    jobs_kept: dict[str, tuple[str, str | None]] = field(default_factory=dict)

    def silence_s(self, now: float, seen_at: float | None, wall: float) -> float | None:
        """Seconds since the last answer, by our own watch or the ledger's; None: it never answered."""
        if self.heard is not None:
            return max(0.0, now - self.heard)
        return None if seen_at is None else max(0.0, wall - seen_at)


class Poller:
    """Keeps `known` fresh. `look` returns after `wait_s` at the latest; late answers are taken in when they come."""

    def __init__(
        self, fleet: Fleet, limits: Limits | None = None, jitter: Callable[[], float] = lambda: 0.5
    ) -> None:
        self.fleet = fleet
        self.every_s = 0.0  # between two questions to one node, times 0.8 to 1.2 by `jitter`: no bursts
        self._jitter = jitter
        self._due: dict[str, float] = {}  # monotonic
        self.limits = limits or Limits()
        self.known: dict[str, NodeKnown] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._seen = fleet.ledger.nodes()

    async def look(self, wait_s: float = 3.0) -> dict[str, NodeKnown]:
        """Ask every node that is due and not being asked already; return what is known when all, or `wait_s`, are through."""
        now = self.fleet.clock.monotonic()
        nodes = self.fleet.records.nodes()
        for gone in set(self.known) - set(nodes):
            self.known.pop(gone)
            self._due.pop(gone, None)
        for name, node in nodes.items():
            known = self.known.setdefault(name, NodeKnown(node))
            known.node = node
            running = self._tasks.get(name)
            if running is not None and running.done() and not running.cancelled():
                trouble = (
                    running.exception()
                )  # a fault of ours: one node's trouble must not end the others' watch
                if trouble is not None and not isinstance(trouble, Exception):
                    raise trouble
                if trouble is not None:
                    known.answered, known.error = (
                        False,
                        f"unexpected {type(trouble).__name__}: {clean(trouble)}",
                    )
            if (running is None or running.done()) and now >= self._due.get(name, now):
                self._due[name] = now + self.every_s * (0.8 + 0.4 * self._jitter())
                self._tasks[name] = asyncio.create_task(self._poll(known))
        pending = [task for task in self._tasks.values() if not task.done()]
        if pending:
            await asyncio.wait(pending, timeout=wait_s)
        return self.known

    async def close(self) -> None:
        """End the calls under way."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def silence_s(self, known: NodeKnown) -> float | None:
        """Seconds since the node's last answer, to us or to an earlier console; None: it never answered."""
        seen = self._seen.get(known.node.name)
        seen_at = None if seen is None else seen.seen_at
        return known.silence_s(self.fleet.clock.monotonic(), seen_at, self.fleet.clock.wall())

    def verdict(self, known: NodeKnown) -> NodeVerdict:
        """The node's state by both witnesses."""
        silence = self.silence_s(known)
        in_vain = known.tried or self._waited_s(known) >= STATUS_S
        if known.heard is None and in_vain and not known.missing:  # this program has never heard it
            return judge_unanswered(Witness(silence, False, known.cloud, known.node.cordoned), self.limits)
        if not known.tried:
            found = judge_node(Witness(silence, False, None, known.node.cordoned), self.limits)
            return NodeVerdict(
                found.state,
                "no answer yet" if silence is None else f"no answer yet, silent for {silence:.0f} s",
            )
        fresh = known.answered and (silence is None or silence < self.limits.late_s)
        answered = fresh or bool(known.missing)
        return judge_node(
            Witness(silence, answered, known.cloud, known.node.cordoned, known.missing), self.limits
        )

    def _waited_s(self, known: NodeKnown) -> float:
        """For how long the first answer has been waited for."""
        return 0.0 if known.asking_at is None else self.fleet.clock.monotonic() - known.asking_at

    def waited_for(self) -> list[str]:
        """Nodes whose answer is still awaited, by name."""
        return sorted(name for name, task in self._tasks.items() if not task.done())

    def heard(self) -> dict[str, tuple[NodeStatus | None, NodeVerdict]]:
        """Each node's newest status and what it makes of the node, for those who would ask it again."""
        return {
            name: (each.status if each.answered else None, self.verdict(each))
            for name, each in self.known.items()
        }

    async def _poll(self, known: NodeKnown) -> None:
        fleet, node = self.fleet, known.node
        asked_at = fleet.clock.wall()
        if known.asking_at is None:
            known.asking_at = fleet.clock.monotonic()
        try:
            status = await fleet.status(node, timeout_s=STATUS_S)
        except NotInstalledError as error:
            known.answered, known.tried, known.error, known.missing = (
                False,
                True,
                error.message,
                error.message,
            )
            return
        except UnreachableError as error:
            known.answered, known.tried, known.error, known.missing = False, True, error.message, ""
            known.cloud = await fleet.instance(node)
            return
        except ReprieveError as error:
            known.answered, known.tried, known.error, known.missing = (
                False,
                True,
                error.message,
                error.message,
            )
            return
        answered_at = fleet.clock.wall()
        known.status, known.asked_at, known.heard = status, asked_at, fleet.clock.monotonic()
        known.answered, known.tried, known.error, known.missing, known.cloud = True, True, "", "", None
        try:
            known.offset_s = parse_utc(status.time) - (asked_at + answered_at) / 2
        except ReprieveError:
            known.offset_s = None
        try:
            await self._take_events(known, status)
        except ReprieveError as error:
            known.error = error.message
        self._keep(known, status, asked_at)

    async def _take_events(self, known: NodeKnown, status: NodeStatus) -> None:
        """Events into the ledger first, then acknowledged: none is lost between."""
        name = known.node.name
        seen = self._seen.get(name)
        since = seen.events_next if seen is not None and seen.guard == status.guard else 0
        since = max(since, known.events_next)
        while since < status.events_next:
            answer = await self.fleet.ask(known.node, "events", {"since": since, "limit": EVENTS_AT_ONCE})
            found, following = answer.get("events"), answer.get("next")
            if not isinstance(found, list) or not isinstance(following, int) or following <= since:
                raise DamagedError(f"node {name}: its events cannot be read")
            for document in found:
                event = strict.read(Event, document, what=f"event of node {name}", ignore_unknown=True)
                self.fleet.ledger.add_event(cleaned(event, name))
            since = known.events_next = following
            await self.fleet.ask(known.node, "acknowledge", {"upto": since})

    def _keep(self, known: NodeKnown, status: NodeStatus, asked_at: float) -> None:
        ledger, now, wall = self.fleet.ledger, self.fleet.clock.monotonic(), self.fleet.clock.wall()
        due = now - known.kept_at >= KEEP_S
        before = self._seen.get(status.node)
        for job in status.jobs:
            mark = (job.state, job.saved.checkpoint if job.saved is not None else None)
            if due or known.jobs_kept.get(job.uid) != mark:
                known.jobs_kept[job.uid] = mark
                self._keep_job(known.node.name, job, asked_at)
        changed = before is None or (before.guard, before.notice) != (status.guard, status.notice)
        if not due and not changed and known.events_next == (before.events_next if before is not None else 0):
            return
        if known.kept_at > 0:
            self._keep_work(known, status, min(now - known.kept_at, 10 * KEEP_S))
        deadline = None if status.notice_deadline_s is None else wall + status.notice_deadline_s
        seen = NodeSeen(
            known.node.name, wall, status.guard, known.offset_s, status.notice, deadline, known.events_next
        )
        if known.events_next == 0 and before is not None and before.guard == status.guard:
            seen = NodeSeen(**{**seen.__dict__, "events_next": before.events_next})
        ledger.put_node(seen)
        self._seen[known.node.name] = seen
        known.kept_at = now

    def _keep_work(self, known: NodeKnown, status: NodeStatus, seconds: float) -> None:
        """Running time of the node for its pool's history, and of each job for the books."""
        ledger, node = self.fleet.ledger, known.node
        if node.pool:
            ledger.add_observed(node.name, node.pool, seconds)
        month = format_utc(self.fleet.clock.wall())[:7]
        market = node.labels.get("rented") or node.labels.get("market") or ""
        works = [
            Work(job.uid, clean(job.name, limit=64), node.pool or "", market, month, seconds)
            for job in status.jobs
            if job.state in RUNNING
        ]
        if works:
            ledger.add_work(works)

    def _keep_job(self, node: str, job: JobStatus, asked_at: float) -> None:
        """A guard's word of a job; an older incarnation never overwrites what is known of a newer one."""
        ledger = self.fleet.ledger
        current = ledger.jobs().get(job.uid)
        if current is not None and current.epoch is not None and current.epoch > job.epoch:
            return
        if current is not None and current.epoch == job.epoch and current.node not in (None, node):
            return  # an epoch names one node: another one's word about it does not count
        saved = job.saved
        running = asked_at if job.state not in ("stopped", "finished", "failed", "ended_unknown") else None
        if running is None and current is not None:
            running = current.running_at
        ledger.put_job(
            JobCurrent(
                clean(job.name),
                job.uid,
                node,
                job.epoch,
                clean(job.state),
                clean(saved.checkpoint)
                if saved is not None
                else current.checkpoint
                if current is not None
                else None,
                asked_at - saved.age_s
                if saved is not None
                else current.frozen_at
                if current is not None
                else None,
                asked_at,
                running,
                clean(job.error or ""),
                {
                    "engine": clean(job.engine),
                    "interval_s": job.interval_s,
                    "reclaimed": job.reclaimed,
                    "rebooted": job.rebooted,
                    "restarter": _restarter(job, current),
                },
            )
        )
        if saved is not None:
            ledger.add_save(
                SaveMeasure(
                    job.uid,
                    clean(saved.checkpoint),
                    asked_at - saved.age_s,
                    saved.freeze_s,
                    saved.upload_s,
                    saved.size_bytes,
                )
            )


def _restarter(job: JobStatus, current: JobCurrent | None) -> dict[str, str] | None:
    """Who else would start the job again; what was once known is kept when its process is gone."""
    if job.restarter is not None:
        return {
            "kind": clean(job.restarter.kind, limit=20),
            "identity": clean(job.restarter.identity, limit=40),
        }
    known = None if current is None or job.pid is not None else current.status.get("restarter")
    return known if isinstance(known, dict) else None


def cleaned(event: Event, node: str) -> Event:
    """An event as it may be stored: foreign text made safe; a node speaks only for itself."""
    data = {
        clean(key, limit=64): clean(value) if isinstance(value, str) else value
        for key, value in event.data.items()
    }
    job = None if event.job is None else clean(event.job, limit=64)
    return Event(
        clean(event.id, limit=128),
        clean(event.time, limit=40),
        clean(event.kind, limit=64),
        node,
        job,
        clean(event.text),
        data,
    )

"""One snapshot of the fleet for screens and listings, from nodes, provider, ledger and store."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import get_args

from backends.clean import clean
from backends.clock import parse_utc
from backends.errors import ReprieveError
from backends.ledger.records import JobCurrent
from backends.records.job import Job, JobState
from backends.records.status import JobStatus, NodeStatus
from console.operations.common.gpus import gpu_words
from console.operations.decide.clocks import clock_word
from console.operations.decide.loss import NodeVerdict, job_state_on_silence
from console.operations.fleet import Fleet
from console.operations.polling import NodeKnown, Poller
from console.operations.steps import step_words
from console.operations.view import Awaited, FleetView, JobRow, NodeRow, OperationRow

STORE_EVERY_S = 15.0  # how often the store is asked for rehearsals and heartbeats
FACTS_EVERY_S = 300.0
CONTROLLER_S = 30.0  # a controller silent for longer (or three of its own beats) is dead
LIVING = (
    "unrehearsed",
    "protected",
    "overdue",
    "noticed",
    "paused",
    "isolated",
    "zombie",
)  # its guard's word
PROVEN = ("node.lost", "proof.seen")
ALIVE = ("node.installed", "node.ready", "guard.started")  # what was proven before them is over
AWAITED: tuple[Awaited, ...] = ("node", "controller")
STATES: tuple[JobState, ...] = get_args(JobState)


@dataclass
class StoreKnown:
    """What was last read from the store."""

    rehearsed: dict[str, str] = field(default_factory=dict)  # uid → host
    controllers: dict[str, float] = field(default_factory=dict)  # id → wall time of its last beat
    beats_s: dict[str, float] = field(default_factory=dict)
    at: float | None = None  # monotonic
    error: str = ""


class Observer:
    """Builds views, one after another, without ever waiting long for a silent node or store."""

    def __init__(self, fleet: Fleet, poller: Poller | None = None) -> None:
        self.fleet = fleet
        self.poller = poller or Poller(fleet)
        self.store = StoreKnown()
        self.lost_at: dict[str, float] = {}  # node → wall clock at which we first saw its end proven
        self.facts: dict[str, tuple[float, dict[str, str]]] = {}

    async def view(self, wait_s: float = 3.0, *, facts: bool = True) -> FleetView:
        """The fleet now; nodes and store are asked at the same time. `facts`: one node's facts too, for detail panes."""
        known, _ = await asyncio.gather(self.poller.look(wait_s), self.ask_store())
        if facts:
            await self.ask_facts(known)
        return self.build(known)

    async def close(self) -> None:
        """End the calls under way."""
        await self.poller.close()

    async def ask_store(self) -> None:
        """Rehearsals and heartbeats; a silent store leaves the last knowledge with its age."""
        fleet, now = self.fleet, self.fleet.clock.monotonic()
        if self.store.at is not None and now - self.store.at < STORE_EVERY_S:
            return
        found = StoreKnown(at=now)
        try:
            for store in fleet.stores():
                beats = await fleet.blocking(fleet.truth_at(store).controllers)
                for name, document in beats.items():
                    at = parse_utc(str(document.get("at")))
                    found.controllers[name] = max(at, found.controllers.get(name, at))
                    every = document.get("every_s")
                    found.beats_s[name] = (
                        float(every) if isinstance(every, (int, float)) else CONTROLLER_S / 3
                    )
            for job in fleet.jobs().values():
                if job.uid:
                    host = await fleet.blocking(fleet.truth(job).rehearsed, job.uid)
                    if host is not None:
                        found.rehearsed[job.uid] = host
        except ReprieveError as error:
            self.store = replace(self.store, error=error.message)
            return
        self.store = found

    async def ask_facts(self, known: dict[str, NodeKnown]) -> None:
        """Facts of nodes that answer, seldom: one node a view, so that a view stays quick."""
        now = self.fleet.clock.monotonic()
        for name, each in known.items():
            old = self.facts.get(name)
            if each.answered and (old is None or now - old[0] > FACTS_EVERY_S):
                try:
                    answer = await self.fleet.ask(each.node, "facts", {}, timeout_s=5.0)
                except ReprieveError:
                    answer = {}
                self.facts[name] = (now, brief_facts(answer))
                return

    def build(self, known: dict[str, NodeKnown]) -> FleetView:
        """The view from what is known; asks nobody."""
        fleet, now = self.fleet, self.fleet.clock.wall()
        current = fleet.ledger.jobs()
        operations = self._operations()
        newest: dict[str, OperationRow] = {}  # a later one shows that an earlier one was given up
        for operation in sorted(operations, key=lambda each: each.started_at, reverse=True):
            newest.setdefault(operation.target, operation)
        busy = {name: each for name, each in newest.items() if each.state == "running"}
        jobs = tuple(
            self._job_row(job, current.get(job.uid), known.get(job.node), busy.get(name))
            for name, job in fleet.jobs().items()
        )
        by_node: dict[str, list[str]] = {}
        for row in jobs:
            by_node.setdefault(row.node or "", []).append(row.name)
        nodes = tuple(self._node_row(each, tuple(by_node.get(name, ()))) for name, each in known.items())
        controller, since = self._controller(now)
        ages = {
            "fleet": 0.0,
            "store": None if self.store.at is None else fleet.clock.monotonic() - self.store.at,
        }
        return FleetView(
            fleet.context.name,
            now,
            nodes,
            jobs,
            tuple(event for _, event in fleet.ledger.events(limit=500)),
            operations,
            controller,
            since,
            fleet.context.read_only,
            fleet.context.production,
            ages,
        )

    def _controller(self, now: float) -> tuple[str | None, float | None]:
        """The live controller with its age, or since when none lives."""
        if not self.store.controllers:
            return None, None
        name, at = max(self.store.controllers.items(), key=lambda pair: pair[1])
        age = now - at
        if age <= max(CONTROLLER_S, 3 * self.store.beats_s.get(name, 0.0)):
            return f"{clean(name, limit=64)} ({max(0.0, age):.0f} s)", None
        return None, at

    def _node_row(self, known: NodeKnown, jobs: tuple[str, ...]) -> NodeRow:
        fleet, node, status = self.fleet, known.node, known.status
        verdict = self.poller.verdict(known)
        age = None if known.heard is None else fleet.clock.monotonic() - known.heard
        left = None
        if status is not None and status.notice_deadline_s is not None and age is not None:
            left = status.notice_deadline_s - age
        notice = status.notice if status is not None else None
        if verdict.state == "lost":  # an announcement of what has happened announces nothing
            notice = left = None
        reason = verdict.reason or (known.error if verdict.state != "ok" else _to_know(known, status))
        return NodeRow(
            node.name,
            verdict.state,
            reason,
            node.pool,
            node.provider,
            age,
            notice,
            left,
            jobs,
            status.guard if status is not None else None,
            node.ssh,
            self.facts.get(node.name, (0.0, {}))[1],
        )

    def _job_row(
        self, job: Job, current: JobCurrent | None, known: NodeKnown | None, busy: OperationRow | None
    ) -> JobRow:
        status = None
        if known is not None and known.status is not None:
            status = next((each for each in known.status.jobs if each.uid == job.uid and job.uid), None)
        verdict = (
            self.poller.verdict(known)
            if known is not None
            else NodeVerdict("unreachable", "not in the fleet")
        )
        state, reason = self.state(job, current, known, verdict, status)
        lives = (status is not None and state in LIVING) or state == "unprotected"
        if busy is not None and busy.kind in ("restore", "move", "batch", "watch") and not lives:
            state, reason = "restoring", step_words(busy.step)
        row = JobRow(
            job.name,
            job.uid,
            state,
            reason,
            job.node,
            None if job.engine == "auto" else job.engine,
            current.epoch if current is not None else None,
            None,
            current.checkpoint if current is not None else None,
            current.frozen_at if current is not None else None,
            job.interval_s,
            None,
            None,
            None,
            None,
            None,
            None,
            True,
            job.store,
        )
        lost_at = self._lost_at(job.node, verdict)
        if lost_at is None and current is not None and known is not None and not known.answered:
            lost_at = dead_since(self.fleet, job.uid, current.epoch)
        row = replace(row, lost_at=lost_at)
        if state == "waiting_capacity":
            row = replace(row, awaits=self._who_restores(job)[0])
        if status is None or known is None or known.asked_at is None:
            return self._from_ledger(row, current)
        return from_status(row, status, known.asked_at, stale=not known.answered)

    def _lost_at(self, node: str, verdict: NodeVerdict) -> float | None:
        """When the node was gone for certain: as its provider tells, else when its end was first proven to anybody here."""
        if verdict.proof is None:
            self.lost_at.pop(node, None)
            return None
        told = instant(verdict.proof.ended_at)
        if node not in self.lost_at:
            self.lost_at[node] = self._proven_at(node, verdict, told is not None)
        return self.lost_at[node] if told is None else min(told, self.lost_at[node])

    def _proven_at(self, node: str, verdict: NodeVerdict, dated: bool) -> float:
        """By the history; what is new and not `dated` by the provider goes into it, so that the next console knows it too."""
        now = self.fleet.clock.wall()
        for _, event in reversed(self.fleet.ledger.events(limit=500)):
            if event.node == node and event.kind in PROVEN:
                return min(now, instant(event.time) or now)
            if event.node == node and event.kind in ALIVE:
                break
        if not dated and not self.fleet.context.read_only:
            self.fleet.tell("proof.seen", f"{node} is gone: {verdict.reason}", node=node)
        return now

    def _from_ledger(self, row: JobRow, current: JobCurrent | None) -> JobRow:
        """The last known values; work at risk counts on from the last durable freeze."""
        if current is None or current.frozen_at is None or not _saved_since(current):
            return row
        wall = self.fleet.clock.wall()
        now = wall if row.lost_at is None else min(wall, row.lost_at)
        saves = self.fleet.ledger.saves(row.uid)
        last = saves[-1] if saves else None
        over = row.state in ("stopped", "finished")  # nothing runs that could lose work
        return replace(
            row,
            risk_base_s=None if over else max(0.0, now - current.frozen_at),
            observed_at=now,
            freeze_s=last.freeze_s if last is not None else None,
            size_bytes=last.size_bytes if last is not None else None,
        )

    def state(
        self,
        job: Job,
        current: JobCurrent | None,
        known: NodeKnown | None,
        verdict: NodeVerdict,
        status: JobStatus | None,
    ) -> tuple[JobState, str]:
        """The job's state and why, by the best witness there is."""
        if not job.uid or (current is not None and current.state == "unprotected"):
            return "unprotected", f"reprieve jobs protect {job.name}"
        last = current.state if current is not None else "unprotected"
        if last in ("finished", "stopped", "ended_unknown") and not (known is not None and known.answered):
            return word(last), current.reason if current is not None else ""
        if known is not None and known.answered and verdict.state != "not_ready":
            if status is None:
                if last in ("stopped", "finished", "failed", "trial"):
                    return word(last), current.reason if current is not None else ""
                return "ended_unknown", f"its guard on {job.node} does not know it"
            return self._by_guard(job, status, known)
        silence = None if known is None else self.poller.silence_s(known)
        silent = job_state_on_silence(verdict, silence, self.poller.limits)
        if silent == "waiting_capacity":
            return word(silent), f"{self._who_restores(job)[1]}; node {job.node}: {verdict.reason}"
        if silent is not None:
            return word(silent), f"node {job.node}: {verdict.reason}"
        if verdict.state == "late" and known is not None and known.heard is None:
            return "unreachable", f"node {job.node}: {verdict.reason}"  # asked only now, and in vain
        return word(last), f"node {job.node}: {verdict.reason}" if verdict.reason else ""

    def _who_restores(self, job: Job) -> tuple[Awaited, str]:
        """What a lost job waits for, and in words: a node, its controller as it last said, or a person."""
        controller, _ = self._controller(self.fleet.clock.wall())
        if controller is None:
            return "operator", f"no controller restores it: reprieve jobs restore {job.name}"
        for _, event in reversed(self.fleet.ledger.events(limit=500)):
            if event.job == job.name and event.kind == "watch.alert":
                said = event.data.get("awaits")
                return next((each for each in AWAITED if each == said), "operator"), event.text
            if event.job == job.name and event.kind == "restore.done":
                break
        return "controller", "the controller brings it back"

    def _by_guard(self, job: Job, status: JobStatus, known: NodeKnown) -> tuple[JobState, str]:
        reason = clean(status.error or "")
        if status.reclaimed:
            why = "it ended after a notice or while the node went down: a reclaim"
            return "waiting_capacity", f"{self._who_restores(job)[1]}; {why}"
        if status.rebooted:
            why = "its node was restarted, the process is gone"
            return "waiting_capacity", f"{self._who_restores(job)[1]}; {why}"
        if status.state not in ("unrehearsed", "protected"):
            return word(status.state), reason
        if known.status is not None and known.status.notice == "notice":
            return "noticed", "its provider has announced that the node will be taken"
        host = self.store.rehearsed.get(job.uid)
        failed = f"; last save failed: {reason}" if reason else ""
        if host is not None:
            return "protected", f"rehearsed on {host}{failed}"
        advice = f"no checkpoint has run on another host yet: reprieve jobs rehearse {job.name}"
        return "unrehearsed", f"{advice}{failed}"

    def _operations(self) -> tuple[OperationRow, ...]:
        ledger, rows = self.fleet.ledger, []
        for run in ledger.runs(20):
            items = ledger.items(run.id)
            step = ""
            if run.state == "running" and len(items) == 1:
                steps = ledger.steps(run.id, items[0].item)
                step = steps[-1].step if steps else ""
            target = items[0].job if len(items) == 1 else f"{len(items)} jobs"
            rows.append(
                OperationRow(
                    run.id,
                    run.kind,
                    target,
                    step_words(step),
                    state_word(run.state),
                    run.created_at,
                    run.detail,
                )
            )
        return tuple(rows)


def dead_since(fleet: Fleet, uid: str, epoch: int | None) -> float | None:
    """When somebody typed that the process of this epoch is dead; None when nobody did."""
    found = [
        word.at for word in fleet.ledger.words() if (word.uid, word.kind, word.epoch) == (uid, "dead", epoch)
    ]
    return found[-1] if found else None


def _saved_since(current: JobCurrent) -> bool:
    """Whether its newest save is of its own epoch: else it came back from it, and stood still for a time in between."""
    return current.checkpoint is not None and current.checkpoint.partition(".")[0] == str(current.epoch)


def _to_know(known: NodeKnown, status: NodeStatus | None) -> str:
    """What is odd about a node that answers."""
    return "; ".join(filter(None, (_zombies(status), clock_word(known.offset_s))))


def _zombies(status: NodeStatus | None) -> str:
    """What an operator should know of a node that answers: it holds older copies of jobs that run elsewhere."""
    names = [clean(job.name) for job in status.jobs if job.state == "zombie"] if status is not None else []
    return f"holds a frozen older copy (zombie) of {', '.join(names)}" if names else ""


def from_status(row: JobRow, status: JobStatus, asked_at: float, *, stale: bool) -> JobRow:
    """The row with its guard's values. Work at risk is dated to the moment of asking: never below the truth."""
    saved = status.saved
    return replace(
        row,
        engine=clean(status.engine),
        epoch=status.epoch,
        pid=status.pid,
        checkpoint=clean(saved.checkpoint) if saved is not None else row.checkpoint,
        frozen_at=asked_at - saved.age_s if saved is not None else row.frozen_at,
        interval_s=status.interval_s,
        interval_reason=clean(status.interval_reason or ""),
        next_save_at=None if status.next_save_in_s is None else asked_at + status.next_save_in_s,
        freeze_s=saved.freeze_s if saved is not None else None,
        size_bytes=saved.size_bytes if saved is not None else None,
        progress=None if status.progress is None else clean(status.progress),
        risk_base_s=status.at_risk_s,
        observed_at=asked_at,
        stale=stale,
        store=(status.store and clean(status.store)) or row.store,
    )


def instant(text: str) -> float | None:
    """An RFC 3339 text as wall clock; None when it is none."""
    try:
        return parse_utc(text) if text else None
    except ReprieveError:
        return None


def word(text: str) -> JobState:
    """A guard's word as one of the contract's states; an unknown one is `ended_unknown`, never fine."""
    return next((state for state in STATES if state == text), "ended_unknown")


def state_word(state: str) -> str:
    """A run's state as screens name it."""
    return "failed" if state == "partial" else state


def brief_facts(facts: dict[str, object]) -> dict[str, str]:
    """Facts for the detail pane: one short text each; unknown ones are left out."""
    result = {}
    for key, value in facts.items():
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            result[clean(key, limit=64)] = clean(value)
        elif isinstance(value, list) and value and all(isinstance(each, str) for each in value):
            result[clean(key, limit=64)] = clean(", ".join(value))
    if (words := gpu_words(facts)) is not None:
        result["gpus"] = words
        result.pop("gpu_reason", None)
    return result

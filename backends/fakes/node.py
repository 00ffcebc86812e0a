"""A node with a guard in memory: the verbs of docs/internals.md section 2 with their promises, scripted faults included.

Kept over a guard's restart: which (job, epoch) was ever started, or declined, and the outcome of every request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from backends.clock import format_utc
from backends.errors import (
    EngineError,
    FencedError,
    ReprieveError,
    StoreError,
    UnreachableError,
    UsageError,
)
from backends.fakes.held import HeldJob, SmallVerbs
from backends.fakes.holding import FakeHold, GroupVerbs
from backends.fakes.world import FakeWorld
from backends.records import strict
from backends.records.job import Job
from backends.records.node import NoticeState
from backends.records.status import NodeStatus, SaveStatus

Document = dict[str, Any]


@dataclass
class FakeNode(SmallVerbs, GroupVerbs):
    """One node; also its own link (`NodeLink`)."""

    name: str
    world: FakeWorld
    guard: str = ""
    installed: bool = True
    dead: bool = False  # reclaimed: everything on it is gone
    partitioned: bool = False  # silent to the console, alive
    answers_in_s: float = 0.0  # a call with a shorter time-out finds it silent
    store_away: bool = False  # cannot reach the store
    saves_late: bool = (
        False  # a save is under way whenever its epoch is taken over: it is committed behind that
    )
    notice: NoticeState = "none"
    notice_deadline_s: float | None = None
    offset_s: float = 0.0  # its wall clock minus the true one
    restore_takes_s: float = 3.0
    failures: list[str] = field(default_factory=list)  # next restores fail with these messages
    held: dict[str, HeldJob] = field(default_factory=dict)
    started: set[tuple[str, int]] = field(default_factory=set)
    declined: set[tuple[str, int]] = field(
        default_factory=set
    )  # of `started`: nothing runs of it, now or ever
    outcomes: dict[str, Document] = field(default_factory=dict)
    events: list[Document] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)  # job uid → its key, from the newest grant
    calls: list[str] = field(default_factory=list)
    late: list[Document] = field(default_factory=list)  # restore calls that broke off and may arrive yet
    facts: Document = field(default_factory=lambda: {"arch": "x86_64", "kernel": "6.1"})
    on_verb: dict[str, Callable[[Document], Document]] = field(default_factory=dict)
    holds: dict[str, FakeHold] = field(default_factory=dict)
    hold_failures: list[str] = field(default_factory=list)
    boot_ahead_s: float = 0.0
    dump_takes_s: float = 0.5

    def __post_init__(self) -> None:
        if not self.guard:
            self.guard = f"guard-{self.name}"

    # -- the link -------------------------------------------------------------------------------------------------

    async def call(self, verb: str, document: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """Answer one verb, or be silent until the time-out."""
        self.world.moment(f"call {verb}")
        self.calls.append(verb)
        if self.dead or not self.installed:
            raise UnreachableError(f"node {self.name}: connection refused")
        if self.answers_in_s:
            await asyncio.sleep(min(self.answers_in_s, timeout_s))
        if self.partitioned or self.answers_in_s > timeout_s:
            await asyncio.sleep(max(0.0, timeout_s - self.answers_in_s))
            raise UnreachableError(f"node {self.name}: no answer in {timeout_s:.0f} s")
        known = {
            "status": self.status, "facts": self.answer_facts, "events": self.answer_events, "acknowledge": self.acknowledge,
            "restore": self.restore, "start": self.start, "protect": self.start, "save": self.save, "stop": self.stop,
            "rehearse": self.rehearse, "prefetch": self.prefetch, "set": self.set, "pause": self.pause, "resume": self.resume,
            "forget": self.forget, "thaw": self.thaw, "examine": self.examine,
             "escrow": self.escrow, "decline": self.decline,
            "clock": self.clock, "hold": self.hold, "release": self.release,
        }  # fmt: skip
        self.finish_restores()
        self.expire()
        if verb in self.on_verb:
            answer = self.on_verb[verb](document)
        elif verb == "restore" and self.store_away and document["request"] not in self.outcomes:
            self.late.append(document)
            raise UnreachableError(f"node {self.name}: the store does not answer")
        elif verb in known:
            answer = await known[verb](document)
        else:
            raise UsageError(f"unknown verb {verb}")
        self._still_there()
        self.world.moment(f"answered {verb}")
        return answer

    def _still_there(self) -> None:
        if self.dead or self.partitioned:
            raise UnreachableError(f"node {self.name}: the connection was lost")

    async def close(self) -> None:
        """Nothing to close."""

    # -- reading --------------------------------------------------------------------------------------------------

    async def status(self, document: Document) -> Document:
        """NodeStatus as a document."""
        now = self.world.clock.monotonic()
        jobs = tuple(self._job_status(held, now) for held in self.held.values())
        return strict.to_document(
            NodeStatus(
                self.guard, self.name, "boot", self._wall(), now, self.notice, self.notice_deadline_s, jobs,
                len(self.events), "0", "bundle",
            )
        )  # fmt: skip

    def _wall(self) -> str:
        return format_utc(self.world.clock.wall() + self.offset_s)

    # -- changing -------------------------------------------------------------------------------------------------

    def _check_start(self, document: Document) -> tuple[Job, Document]:
        job = strict.read(Job, document["job"], what="job")
        grant = document["grant"]
        if self.store_away:
            raise UnreachableError(f"node {self.name}: the store does not answer")
        if (job.uid, grant["epoch"]) in self.started:
            raise FencedError(f"epoch {grant['epoch']} of {job.name} was started here already")
        if not self.world.store.may_start(job.uid, grant["epoch"], self.guard, grant["nonce"]):
            raise FencedError(f"epoch {grant['epoch']} of {job.name} does not name this guard")
        self.started.add((job.uid, grant["epoch"]))
        self.keys[job.uid] = grant["key"]
        return job, grant

    async def start(self, document: Document) -> Document:
        """`start` and `protect`: a new process, or one taken under guard."""
        request = document["request"]
        if request not in self.outcomes:
            job, grant = self._check_start(document)
            process = self.world.spawn(job.uid, grant["epoch"], self.name, "genesis")
            held = HeldJob(job, grant["epoch"], process, "trial")
            self.held[job.uid] = held
            self.save_now(held)
            self.outcomes[request] = {
                "job": strict.to_document(self._job_status(held, self.world.clock.monotonic()))
            }
        return self.outcomes[request]

    async def restore(self, document: Document) -> Document:
        """Restore once per (job, epoch); a repeated request waits for, or returns, the first one's outcome."""
        request, now = document["request"], self.world.clock.monotonic()
        known = self.outcomes.get(request)
        if known is None:
            job, grant = self._check_start(document)
            known = {"state": "running", "step": "fetch", "until": now + self.restore_takes_s, "job": job}
            known["epoch"], known["checkpoint"] = grant["epoch"], document["checkpoint"]
            self.outcomes[request] = known
            self.held[job.uid] = HeldJob(job, grant["epoch"], None, "restoring")
        if known["state"] == "running":
            left = known["until"] - now
            await asyncio.sleep(max(0.0, min(left, float(document.get("wait_s", 0)))))
            if self.dead or known["state"] == "cut":
                raise UnreachableError(f"node {self.name}: the connection was lost")
            self.finish_restores()
        return {key: value for key, value in known.items() if key not in ("until", "job", "epoch")}

    def finish_restores(self) -> None:
        """Restores go on and end on the node whether or not their caller still listens."""
        if self.dead:
            return
        for known in list(self.outcomes.values()):
            if known.get("state") == "running" and self.world.clock.monotonic() >= known["until"] - 1e-9:
                self._restored(known)

    def deliver(self) -> None:
        """Calls that broke off arrive now, after all, at a moment when the store answers."""
        documents, self.late = self.late, []
        if self.dead or self.partitioned:
            return
        away, self.store_away = self.store_away, False
        for document in documents:
            arriving = self.restore({**document, "wait_s": 0.0})
            try:
                while True:  # it never waits: it runs to its end between two acts of the console
                    arriving.send(None)
            except (StopIteration, ReprieveError):
                continue
        self.store_away = away

    def restart_guard(self) -> None:
        """The guard is killed and comes back: restores under way are ended, and their epochs never start here."""
        for request, known in list(self.outcomes.items()):
            if known.get("state") == "running":
                known["state"] = "cut"
                del self.outcomes[request]
                self.held.pop(known["job"].uid, None)
                self.declined.add((known["job"].uid, known["epoch"]))

    def _restored(self, known: Document) -> None:
        job, epoch = known["job"], known["epoch"]
        error = self.failures.pop(0) if self.failures else None
        if error is None and not self.world.store.readable(job.uid, known["checkpoint"]):
            error = f"checkpoint {known['checkpoint']} is damaged"
        if error is not None:
            known.update(state="failed", error=error)
            self.held.pop(job.uid, None)
            self.declined.add((job.uid, epoch))
            return
        process = self.world.spawn(job.uid, epoch, self.name, known["checkpoint"])
        held = HeldJob(job, epoch, process, "unrehearsed")
        self.held[job.uid] = held
        known.update(
            state="restored", pid=process.pid, error=None, restore_s=self.restore_takes_s, step="done"
        )
        held.next_save_at = self.world.clock.monotonic()

    def save_now(self, held: HeldJob) -> str | None:
        """One save now; behind a newer epoch the process is frozen instead. None: nothing was saved."""
        now = self.world.clock.monotonic()
        held.next_save_at = now + (held.job.interval_s or 60.0)
        if held.process is None or not held.process.alive or held.process.frozen or self.store_away:
            return None
        try:
            checkpoint = self.world.store.commit(
                held.job.uid, held.epoch, self.name, self.world.clock.wall() + self.offset_s
            )
            if self.world.store.newest_epoch(held.job.uid) > held.epoch:
                held.process.frozen, held.state = True, "zombie"
                self.say("job.zombie", held)
                return None
        except StoreError as error:
            held.error = str(error)
            return None
        held.saved = SaveStatus(checkpoint, self._wall(), 0.0, 0.1, 1000, 0.2)
        held.saved_at, held.error = now, None
        if held.state in ("trial", "overdue"):
            held.state = "unrehearsed"
        self.say("save.committed", held, checkpoint=checkpoint)
        return checkpoint

    def say(self, kind: str, held: HeldJob, **data: Any) -> None:
        """Put an event into the spool."""
        number = len(self.events)
        self.events.append(
            {"id": f"{self.guard}/{number}", "time": self._wall(), "kind": kind, "node": self.name,
             "job": held.job.name, "text": kind, "data": data}
        )  # fmt: skip

    def tick(self) -> None:
        """What the guard's own timers do now: restores end, interval saves, a look for newer epochs."""
        if self.dead:
            return
        self.finish_restores()
        self.expire()
        for held in list(self.held.values()):
            process = held.process
            if process is None or not process.alive or process.frozen or held.state == "paused":
                continue
            behind = not self.store_away and self.world.store.newest_epoch(held.job.uid) > held.epoch
            if behind and not self.saves_late:
                process.frozen, held.state = True, "zombie"
                self.say("job.zombie", held)
            elif behind or self.world.clock.monotonic() >= held.next_save_at:
                self.save_now(held)

    def reclaim(self) -> None:
        """The provider takes the node: every process on it is gone at once."""
        self.dead = True
        for process in self.world.processes:
            if process.node == self.name:
                process.alive = False

    async def save(self, document: Document) -> Document:
        """A save asked for; repeated requests return the first one's checkpoint."""
        request = document["request"]
        if request not in self.outcomes:
            held = self._held(document["job"])
            checkpoint = self.save_now(held)
            self.outcomes[request] = {
                "state": "saved" if checkpoint else "failed", "checkpoint": checkpoint, "freeze_s": 0.1, "size_bytes": 1000,
                "upload_s": 0.2, "error": None if checkpoint else held.error or held.state,
            }  # fmt: skip
        return self.outcomes[request]

    async def stop(self, document: Document) -> Document:
        """Save if wanted, end the process, and say so: proof for this guard and epoch."""
        request = document["request"]
        if request not in self.outcomes:
            held = self._held(document["job"])
            if document.get("zombie") and held.state != "zombie":
                raise UsageError(f"job {held.job.name} is no zombie on this node: nothing was ended")
            checkpoint = self.save_now(held) if document.get("final_save") else None
            if document.get("final_save") and checkpoint is None:
                raise EngineError(f"the final save of {held.job.name} failed: {held.error or held.state}")
            if held.process is not None:
                held.process.alive = False
            held.state = "stopped"
            self.outcomes[request] = {
                "state": "stopped", "checkpoint": checkpoint, "error": None,
                "acknowledged": {"guard": self.guard, "epoch": held.epoch, "time": self._wall()},
            }  # fmt: skip
        return self.outcomes[request]

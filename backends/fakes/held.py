"""What a fake guard holds of its jobs, and its small verbs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backends.errors import NotFoundError
from backends.fakes.world import FakeProcess, FakeWorld
from backends.records import strict
from backends.records.job import Job
from backends.records.restarter import RestarterRef
from backends.records.status import JobStatus, SaveStatus
from backends.store.sealing import JobKey, escrow_test

Document = dict[str, Any]


@dataclass
class HeldJob:
    """A job as its guard holds it."""

    job: Job
    epoch: int
    process: FakeProcess | None
    state: str
    saved: SaveStatus | None = None
    saved_at: float = 0.0  # virtual monotonic seconds of the freeze
    next_save_at: float = 0.0
    error: str | None = None
    reclaimed: bool = False
    rebooted: bool = False
    restarter: RestarterRef | None = None


class SmallVerbs:
    """Verbs that look, or change a record."""

    name: str
    guard: str
    world: FakeWorld
    started: set[tuple[str, int]]
    declined: set[tuple[str, int]]
    held: dict[str, HeldJob]
    events: list[Document]
    keys: dict[str, str]
    facts: Document
    failures: list[str]
    store_away: bool
    restore_takes_s: float

    async def answer_facts(self, document: Document) -> Document:
        """What the test put there."""
        return dict(self.facts)

    async def answer_events(self, document: Document) -> Document:
        """Events from number `since` on."""
        since = int(document.get("since", 0))
        return {
            "events": self.events[since : since + int(document.get("limit", 500))],
            "next": len(self.events),
        }

    async def acknowledge(self, document: Document) -> Document:
        """Nothing is dropped here."""
        return {}

    async def examine(self, document: Document) -> Document:
        """Everything can be saved."""
        return {
            "verdicts": [{"answer": "ok", "reasons": [], "restart_line": None, "engine": "fake"}],
        }

    async def rehearse(self, document: Document) -> Document:
        """A rehearsal leaves nothing behind."""
        if self.failures:
            return {"state": "failed", "seconds": 1.0, "error": self.failures.pop(0)}
        return {"state": "rehearsed", "seconds": self.restore_takes_s, "error": None}

    async def prefetch(self, document: Document) -> Document:
        """What lies here before it is needed costs a fake nothing."""
        if document["checkpoint"] is None:
            return {"state": "fetched", "size_bytes": 0, "seconds": 0.0, "error": None}
        if self.store_away:
            return {"state": "failed", "size_bytes": None, "seconds": None, "error": "the store is away"}
        return {"state": "fetched", "size_bytes": 1000, "seconds": 1.0, "error": None}

    async def set(self, document: Document) -> Document:
        """Change fields of the job's record."""
        held = self._held(document["job"])
        record = strict.to_document(held.job) | document["changes"]
        held.job = strict.read(Job, record, what="job")
        return {"job": strict.to_document(self._job_status(held, self.world.clock.monotonic()))}

    async def pause(self, document: Document) -> Document:
        """Stop saving."""
        held = self._held(document["job"])
        held.state = "paused"
        return {"job": strict.to_document(self._job_status(held, self.world.clock.monotonic()))}

    async def resume(self, document: Document) -> Document:
        """Save again."""
        held = self._held(document["job"])
        held.state = "unrehearsed"
        return {"job": strict.to_document(self._job_status(held, self.world.clock.monotonic()))}

    async def escrow(self, document: Document) -> Document:
        """A test object sealed with the key that came with the grant."""
        held = self._held(document["job"])
        key = JobKey.from_hex(self.keys[held.job.uid])
        return {"test": escrow_test(key, held.job.uid, document["nonce"])}

    async def decline(self, document: Document) -> Document:
        """Promise that an epoch never starts here, unless it was begun."""
        key = (document["uid"], document["epoch"])
        held = self.held.get(document["uid"])
        if held is not None and held.epoch >= document["epoch"]:
            return {"declined": False, "guard": self.guard}
        if key not in self.started:
            self.started.add(key)
            self.declined.add(key)
        return {"declined": key in self.declined, "guard": self.guard}

    async def forget(self, document: Document) -> Document:
        """Drop the record; the process is untouched."""
        held = self._held(document["job"])
        del self.held[held.job.uid]
        return {}

    async def thaw(self, document: Document) -> Document:
        """The operator's word for a zombie."""
        held = self._held(document["job"])
        if held.process is not None:
            held.process.frozen = False
        held.state = "paused"
        return {"job": strict.to_document(self._job_status(held, self.world.clock.monotonic()))}

    def _held(self, name: str) -> HeldJob:
        held = next((each for each in self.held.values() if each.job.name == name), None)
        if held is None:
            raise NotFoundError(f"no job {name} on node {self.name}")
        return held

    def _job_status(self, held: HeldJob, now: float) -> JobStatus:
        process, saved = held.process, held.saved
        if saved is not None:
            saved = SaveStatus(
                saved.checkpoint,
                saved.frozen_at,
                now - held.saved_at,
                saved.freeze_s,
                saved.size_bytes,
                saved.upload_s,
            )
        since = held.saved_at if saved is not None else process.started_at if process is not None else now
        return JobStatus(
            held.job.name, held.job.uid, held.epoch, held.state, "fake", process.pid if process else None, None, None,
            held.job.interval_s, held.next_save_at - now, False, saved, now - since, held.error, held.job.store,
            held.reclaimed,
            rebooted=held.rebooted,
            restarter=held.restarter,
        )  # fmt: skip

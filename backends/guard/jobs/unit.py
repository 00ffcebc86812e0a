"""One job on this node, live: its record, its mind, its one engine thread, and whoever waits for a save."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from backends.clock import format_utc
from backends.engines.port import Engine, Process
from backends.engines.signal import ask_own_save
from backends.errors import EngineError, FullError
from backends.guard.decide.interval import interval
from backends.guard.decide.job import ENDED, step
from backends.guard.decide.model import (
    Asked,
    AskOwnSave,
    Decision,
    Durable,
    Freeze,
    JobEvent,
    Mind,
    Report,
    SaveDone,
    SaveFailed,
    StartSave,
)
from backends.guard.decide.show import at_risk_s, next_save_in_s, state_word
from backends.guard.disk.freezes import Entry
from backends.guard.engines import named
from backends.guard.jobs.held import Held
from backends.guard.jobs.progress import progress_line
from backends.guard.jobs.record import JobRecord, save_record
from backends.guard.jobs.tools import Tools, trouble
from backends.guard.probes.restarter import restarter_of
from backends.guard.vault import Vault
from backends.records.grant import Grant
from backends.records.restarter import RestarterRef
from backends.records.status import JobStatus, SaveStatus

OUTCOMES_KEPT = 16


@dataclass(frozen=True)
class SaveOutcome:
    """How one save ended: `durable` is set when it counts, else `error`."""

    durable: Durable | None
    error: str | None


class JobUnit:
    """All changes go through `take`, under one lock; the engine is called from one thread only."""

    def __init__(
        self, tools: Tools, record: JobRecord, grant: Grant, saver: Callable[[JobUnit, int], None]
    ) -> None:
        self.tools = tools
        self.grant = grant
        self.engine: Engine = named(tools.engines, record.engine)
        self.vault: Vault = tools.open_vault(record.job, grant)
        self.changed = threading.Condition()
        self.closed = False
        self.hold_number: int | None = (
            None  # the final save of a stop: the process stays frozen after its dump
        )
        self.held: Held | None = None  # the newest part in a group save
        self.leaving = False  # the guard is told to end: leases are withdrawn, nobody will keep them
        self.silence: str | None = None  # why the store does not answer
        self.look_now = threading.Event()  # the lineage should be read without waiting for its turn
        self._record = record
        self._saver = saver
        self._unwritten = False  # the record on disk is older than ours
        self._begun = 0
        self._restarts: tuple[Process | None, RestarterRef | None] = (None, None)
        self._outcomes: dict[int, SaveOutcome] = {}
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        name = f"engine-{record.job.name}"
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def record(self) -> JobRecord:
        """The record as it is now."""
        with self.changed:
            return self._record

    @property
    def mind(self) -> Mind:
        """The mind as it is now."""
        return self.record.mind

    @property
    def process(self) -> Process | None:
        """The job's root process."""
        return self.record.process

    @property
    def ended(self) -> bool:
        """Whether nothing of the job runs here any more."""
        return self.mind.phase in ENDED

    def take(self, event: JobEvent) -> None:
        """Take in one event: decide, write the record down when it changed, act."""
        with self.changed:
            if self.closed:
                return
            before = self._record.mind
            mind, decisions = step(before, event, self.tools.clock.monotonic())
            error = self._record.error
            if isinstance(event, SaveDone):
                error = None
            elif isinstance(event, SaveFailed):
                error = event.reason
            self._update(replace(self._record, mind=mind, error=error), before)
            if isinstance(event, SaveDone):
                self._settle(SaveOutcome(event.durable, None))
            elif isinstance(event, SaveFailed):
                self._settle(SaveOutcome(None, event.reason))
            for decision in decisions:
                self._execute(decision)
            self.changed.notify_all()

    def change(self, change: Callable[[JobRecord], JobRecord]) -> None:
        """Replace the record by `change(record)` and write it down."""
        with self.changed:
            self._record = change(self._record)
            if not self.closed:
                self._write()
            self.changed.notify_all()

    def _update(self, record: JobRecord, before: Mind) -> None:
        self._record = record
        same = record.mind is before and not self._unwritten  # the usual second, in which nothing happens
        if not same and (
            self._unwritten or replace(record.mind, contact_at=0.0) != replace(before, contact_at=0.0)
        ):
            self._write()

    def _write(self) -> None:
        """Write the record down; while the disk is full the job is looked after from memory and it is tried again."""
        try:
            save_record(self.tools.layout, self._record)
        except FullError as error:
            if not self._unwritten:
                self.tools.spool.add("guard.trouble", error.message, self._record.job.name)
            self._unwritten = True
        else:
            self._unwritten = False

    def _execute(self, decision: Decision) -> None:
        name = self._record.job.name
        if isinstance(decision, Report):
            self.tools.spool.add(decision.kind, decision.text, name, dict(decision.data))
        elif isinstance(decision, StartSave):
            self._begun += 1
            number = self._begun
            self.do(lambda: self._saver(self, number))
        elif isinstance(decision, Freeze):
            reason = decision.reason
            self.do(lambda: self._freeze(reason))
        elif isinstance(decision, AskOwnSave):
            self.do(self._ask_own_save)
        else:
            self.do(self._thaw)

    def _freeze(self, reason: str) -> None:
        process = self.process
        if process is not None and self.mind.frozen == reason:
            with contextlib.suppress(
                FullError
            ):  # the ledger keeps the watchdog away; without an entry it stays away
                self.enter_freeze(process, reason)
            self.engine.freeze(process)

    def _ask_own_save(self) -> None:
        record = self.record
        if record.process is None:
            return
        try:
            ask_own_save(record.job, record.process)
        except EngineError as error:
            text = f"the program could not be asked to save itself: {error.message}"
            self.tools.spool.add("notice.no_own_save", text, record.job.name)

    def _thaw(self) -> None:
        process = self.process
        if process is not None and self.mind.frozen is None:
            self.engine.thaw(process)
            self.tools.freezes.leave(self._record.job.uid)

    def enter_freeze(self, process: Process, reason: str) -> None:
        """Write down, synced, that the process is about to be frozen."""
        tools, job = self.tools, self._record.job
        self.tools.freezes.enter(
            Entry(
                uid=job.uid,
                process=process,
                engine=self.engine.name,
                reason=reason,
                since=tools.clock.monotonic(),
                boot_id=tools.boot_id,
                max_freeze_s=job.max_freeze_s,
            )
        )

    def do(self, task: Callable[[], None]) -> None:
        """Queue work for the engine thread."""
        self._tasks.put(task)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception as error:  # noqa: BLE001 - the thread must outlive whatever an engine does
                self.tools.spool.add("guard.trouble", trouble(error).message, self._record.job.name)

    def close(self) -> None:
        """Stop deciding for this job and end its thread once its work is done; the process is untouched."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        self._tasks.put(None)

    # Waiting for saves

    def ask_save(self) -> int:
        """Ask for a save that freezes after now; the number to hand to `save_outcome`."""
        with self.changed:
            number = self._begun + 1
            self.take(Asked())
            return number

    def _settle(self, outcome: SaveOutcome) -> None:
        self._outcomes[self._begun] = outcome
        for number in sorted(self._outcomes)[:-OUTCOMES_KEPT]:
            del self._outcomes[number]

    def save_outcome(self, number: int, wait_s: float) -> SaveOutcome | None:
        """How save `number` ended, waiting up to `wait_s`; None while it is under way or not begun."""
        with self.changed:
            self.changed.wait_for(lambda: number in self._outcomes or self.closed or self.ended, wait_s)
            if number in self._outcomes:
                return self._outcomes[number]
            if self.closed or self.ended:
                return SaveOutcome(None, f"the job is {self._record.mind.phase}: nothing to save any more")
            return None

    def status(self) -> JobStatus:
        """What the node verb `status` says of this job now."""
        record, now = self.record, self.tools.clock.monotonic()
        mind = record.mind
        saved, chosen = None, interval(mind.policy, mind.costs)
        if mind.durable is not None:
            done = mind.durable
            saved = SaveStatus(
                checkpoint=done.checkpoint,
                frozen_at=format_utc(done.frozen_wall),
                age_s=max(0.0, now - done.frozen_at),
                freeze_s=done.freeze_s,
                size_bytes=done.size_bytes,
                upload_s=done.upload_s,
            )
        return JobStatus(
            name=record.job.name,
            uid=record.job.uid,
            epoch=mind.epoch,
            state=state_word(mind, now),
            engine=record.engine,
            pid=record.process.pid if record.process is not None and mind.phase == "running" else None,
            started_at=record.started_at,
            progress=progress_line(self.tools.layout, record.job.uid),
            interval_s=chosen.seconds,
            interval_reason=chosen.reason,
            next_save_in_s=next_save_in_s(mind, now),
            saving=mind.saving_since is not None,
            saved=saved,
            at_risk_s=at_risk_s(mind, now),
            error=record.error or (self.silence if mind.durable is not None else None),
            store=self.grant.store,
            reclaimed=mind.reclaimed,
            rebooted=mind.rebooted,
            restarter=self._restarter(record.process),
        )

    def _restarter(self, process: Process | None) -> RestarterRef | None:
        """Who else would start this process again; looked up once for each, and remembered after its end."""
        if process is not None and self._restarts[0] != process:
            self._restarts = (process, restarter_of(process.pid))
        return self._restarts[1]

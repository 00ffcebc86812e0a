"""The verbs a guard answers (docs/internals.md section 2), each with the document it takes, read strictly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

from backends.clean import clean
from backends.engines.port import Process, process_of
from backends.errors import UsageError
from backends.guard import engines
from backends.guard.decide.model import Word
from backends.guard.disk.requests import Requests, Task
from backends.guard.jobs import ahead, beginning, changing, holding, restoring, stopping
from backends.guard.jobs.book import Book
from backends.guard.jobs.tools import Tools
from backends.guard.jobs.unit import JobUnit
from backends.guard.probes.restarter import restarter_of
from backends.ids import check_uid
from backends.records.grant import Grant
from backends.records.job import Job
from backends.records.status import NodeStatus
from backends.records.strict import read, to_document

Answer = dict[str, Any]
BEGIN_WAIT_S = 120.0  # protect and start answer when they are done
MOST_EVENTS = 500
MOST_NONCE = 64  # characters


class Host(Protocol):
    """The guard, as its verbs see it."""

    tools: Tools
    book: Book
    requests: Requests

    def status(self) -> NodeStatus:
        """The node's status now."""
        ...

    def end(self) -> None:
        """Let the guard end."""
        ...


@dataclass(frozen=True)
class Nothing:
    """`{}`."""


@dataclass(frozen=True)
class Events:
    """Which events to send."""

    since: int
    limit: int = 200


@dataclass(frozen=True)
class Acknowledge:
    """Events numbered below `upto` may be dropped."""

    upto: int


@dataclass(frozen=True)
class Examine:
    """A job to examine; `pid` is its process, when it is not under guard yet."""

    job: Job
    pid: int | None = None


@dataclass(frozen=True)
class Begin:
    """A job to take under guard or to start."""

    request: str
    job: Job
    grant: Grant


@dataclass(frozen=True)
class Save:
    """A job to save now; `full`: without reference to an older save."""

    request: str
    job: str
    wait_s: float = 0.0
    full: bool = False


@dataclass(frozen=True)
class HoldAsked:
    """A job to freeze at an instant of the node's boot clock, to save, and to hold until `release` or for `hold_s`."""

    request: str
    job: str
    group: str  # identity of the group save
    at: float
    hold_s: float
    wait_s: float = 0.0


@dataclass(frozen=True)
class ReleaseAsked:
    """The word for a held job: it runs on, and its save counts if `keep`."""

    request: str
    job: str
    group: str
    keep: bool
    wait_s: float = 0.0


@dataclass(frozen=True)
class Restore:
    """A checkpoint to bring back, or to rehearse."""

    request: str
    job: Job
    grant: Grant
    checkpoint: str
    wait_s: float = 0.0


@dataclass(frozen=True)
class Prefetch:
    """A checkpoint whose packs are to lie here before they are needed; None throws away what lies here."""

    request: str
    job: Job
    grant: Grant
    checkpoint: str | None
    wait_s: float = 0.0


@dataclass(frozen=True)
class Stop:
    """A job to end; `zombie`: only if it is an older copy that stands still behind a newer epoch."""

    request: str
    job: str
    final_save: bool
    wait_s: float = 0.0
    zombie: bool = False


@dataclass(frozen=True)
class Change:
    """A job's settings to change."""

    job: str
    changes: dict[str, Any]


@dataclass(frozen=True)
class Named:
    """A job by name."""

    job: str


@dataclass(frozen=True)
class Decline:
    """An epoch of a job that shall never start here."""

    uid: str
    epoch: int


@dataclass(frozen=True)
class Escrow:
    """A job whose key is to be proven; the nonce is the asker's."""

    job: str
    nonce: str


@dataclass(frozen=True)
class Thawing:
    """The operator's word that a frozen job shall run."""

    job: str
    word: str


class Verbs:
    """Reads a verb's document, carries it out on the guard and gives the answer."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._table: dict[str, tuple[type, Callable[[Any], Answer]]] = {
            "status": (Nothing, self._status),
            "events": (Events, self._events),
            "acknowledge": (Acknowledge, self._acknowledge),
            "examine": (Examine, self._examine),
            "protect": (Begin, self._protect),
            "start": (Begin, self._start),
            "save": (Save, self._save),
            "clock": (Nothing, self._clock),
            "hold": (HoldAsked, self._hold),
            "release": (ReleaseAsked, self._release),
            "restore": (Restore, self._restore),
            "rehearse": (Restore, self._rehearse),
            "prefetch": (Prefetch, self._prefetch),
            "stop": (Stop, self._stop),
            "set": (Change, self._set),
            "pause": (Named, lambda named: self._pause(named, paused=True)),
            "resume": (Named, lambda named: self._pause(named, paused=False)),
            "forget": (Named, self._forget),
            "thaw": (Thawing, self._thaw),
            "escrow": (Escrow, self._escrow),
            "decline": (Decline, self._decline),
            "shutdown": (Nothing, self._shutdown),
        }

    def answer(self, verb: str, document: Answer) -> Answer:
        """The answer to one call; raises ReprieveError for a refusal."""
        entry = self._table.get(verb)
        if entry is None:
            raise UsageError(f"verb {clean(verb, limit=64)!r} is not known to this guard; update its bundle")
        kind, work = entry
        return work(read(cast("type[Any]", kind), document, what=verb))

    def _status(self, _: Nothing) -> Answer:
        return to_document(self._host.status())

    def _events(self, asked: Events) -> Answer:
        if asked.since < 0 or asked.limit < 1:
            raise UsageError(
                f"events since {asked.since}, limit {asked.limit}: 0 or more, and 1 or more, are needed"
            )
        found, following = self._host.tools.spool.events(asked.since, min(asked.limit, MOST_EVENTS))
        return {"events": [to_document(event) for event in found], "next": following}

    def _acknowledge(self, asked: Acknowledge) -> Answer:
        self._host.tools.spool.acknowledge(asked.upto)
        return {}

    def _examine(self, asked: Examine) -> Answer:
        process = self._process(asked)
        verdicts = engines.examine(asked.job, process, self._host.tools.engines)
        found = None if process is None else restarter_of(process.pid)
        return {
            "verdicts": [to_document(verdict) for verdict in verdicts],
            "restarter": None if found is None else to_document(found),
        }

    def _process(self, asked: Examine) -> Process | None:
        if asked.pid is not None:
            found = process_of(asked.pid)
            if found is None:
                raise UsageError(f"there is no process {asked.pid} on this node")
            return found
        for unit in self._host.book.all():
            if unit.record.job.name == asked.job.name and not unit.ended:
                return unit.process
        if asked.job.attach is None:
            return None
        return beginning.attached_process(asked.job, self._host.tools.engines)

    def _protect(self, asked: Begin) -> Answer:
        return self._begin("protect", asked, beginning.protect)

    def _start(self, asked: Begin) -> Answer:
        return self._begin("start", asked, beginning.start)

    def _begin(self, verb: str, asked: Begin, begin: Callable[[Book, Job, Grant, Task], JobUnit]) -> Answer:
        def work(task: Task) -> Answer:
            unit = begin(self._host.book, asked.job, asked.grant, task)
            return {"job": to_document(unit.status())}

        return self._host.requests.run(asked.request, verb, to_document(asked), work, BEGIN_WAIT_S)

    def _save(self, asked: Save) -> Answer:
        unit = self._host.book.get(asked.job)
        return self._run(
            "save", asked, asked.wait_s, lambda task: stopping.save_now(unit, task, full=asked.full)
        )

    def _clock(self, _: Nothing) -> Answer:
        tools = self._host.tools
        return {"guard": tools.identity.guard, "boot_s": tools.clock.monotonic()}

    def _hold(self, asked: HoldAsked) -> Answer:
        unit = self._host.book.get(asked.job)
        work = lambda task: holding.hold(unit, asked.group, asked.at, asked.hold_s, task)  # noqa: E731 - as below
        return self._run("hold", asked, asked.wait_s, work)

    def _release(self, asked: ReleaseAsked) -> Answer:
        unit = self._host.book.get(asked.job)
        work = lambda task: holding.release(unit, asked.group, asked.keep, task)  # noqa: E731 - as below
        return self._run("release", asked, asked.wait_s, work)

    def _restore(self, asked: Restore) -> Answer:
        order = restoring.Order(asked.job, asked.grant, asked.checkpoint)
        book = self._host.book
        return self._run("restore", asked, asked.wait_s, lambda task: restoring.restore(book, order, task))

    def _rehearse(self, asked: Restore) -> Answer:
        order = restoring.Order(asked.job, asked.grant, asked.checkpoint)
        tools = self._host.tools
        return self._run("rehearse", asked, asked.wait_s, lambda task: restoring.rehearse(tools, order, task))

    def _prefetch(self, asked: Prefetch) -> Answer:
        tools = self._host.tools
        work = lambda task: ahead.prefetch(tools, asked.job, asked.grant, asked.checkpoint, task)  # noqa: E731 - as below
        return self._run("prefetch", asked, asked.wait_s, work)

    def _stop(self, asked: Stop) -> Answer:
        unit = self._host.book.get(asked.job)
        work = lambda task: stopping.stop(unit, asked.final_save, task)  # noqa: E731 - short, used once
        if asked.zombie:
            work = lambda task: stopping.end_zombie(unit, task)  # noqa: E731 - as above
        return self._run("stop", asked, asked.wait_s, work)

    def _run(
        self,
        verb: str,
        asked: Save | HoldAsked | ReleaseAsked | Restore | Prefetch | Stop,
        wait_s: float,
        work: Callable[[Task], Answer],
    ) -> Answer:
        return self._host.requests.run(asked.request, verb, to_document(asked), work, min(wait_s, 3600.0))

    def _set(self, asked: Change) -> Answer:
        unit = self._host.book.get(asked.job)
        changing.change_job(unit, asked.changes)
        return {"job": to_document(unit.status())}

    def _pause(self, named: Named, *, paused: bool) -> Answer:
        unit = self._host.book.get(named.job)
        changing.change_job(unit, {"paused": paused})
        return {"job": to_document(unit.status())}

    def _forget(self, named: Named) -> Answer:
        self._host.book.forget(named.job)
        return {}

    def _thaw(self, asked: Thawing) -> Answer:
        if not asked.word.strip():
            raise UsageError(f"thawing {clean(asked.job, limit=64)} needs the operator's word; it is empty")
        unit = self._host.book.get(asked.job)
        text = f"the operator's word for thawing: {clean(asked.word)}"
        self._host.tools.spool.add("job.word", text, unit.record.job.name)
        unit.take(Word())
        return {"job": to_document(unit.status())}

    def _escrow(self, asked: Escrow) -> Answer:
        if not 16 <= len(asked.nonce) <= MOST_NONCE:
            raise UsageError(
                f"escrow nonce of {len(asked.nonce)} characters: 16 to {MOST_NONCE} are expected; ask with a fresh one"
            )
        return {"test": self._host.book.get(asked.job).vault.escrow(asked.nonce)}

    def _decline(self, asked: Decline) -> Answer:
        if asked.epoch < 1:
            raise UsageError(f"epoch {asked.epoch}: 1 or more is expected")
        declined = beginning.decline(self._host.book, check_uid(asked.uid), asked.epoch)
        return {"declined": declined, "guard": self._host.tools.identity.guard}

    def _shutdown(self, _: Nothing) -> Answer:
        self._host.end()
        return {}

"""Which engine saves a job: the one it names, else the best that says it can."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from backends.engines.port import Engine, Process, RestoreRequest, Saved, SaveRequest, Verdict
from backends.errors import EngineError, UsageError
from backends.records.job import Job

ACCEPT = "say --accept-unproven to use it all the same; its first save is a trial"
_RANK = {"ok": 0, "self_save_only": 1, "needs_restart": 2, "impossible": 3}


class Missing:
    """Stands for an engine that made a job's saves and is not on this node any more.

    Stopping, continuing and ending a process tree need no particular engine; everything else is refused.
    """

    def __init__(self, name: str, other: Engine) -> None:
        self.name = name
        self.freeze = other.freeze
        self.thaw = other.thaw
        self.end = other.end

    def _verdict(self) -> Verdict:
        reason = f"engine {self.name} is not on this node any more; install the bundle that has it"
        return Verdict("impossible", (reason,), None, self.name)

    def ready(self) -> Verdict:
        """It cannot work."""
        return self._verdict()

    def examine(self, job: Job, process: Process) -> Verdict:
        """It cannot save."""
        return self._verdict()

    def save(self, request: SaveRequest, frozen: Callable[[], None]) -> Saved:
        """Refuse."""
        raise EngineError(self._verdict().reasons[0])

    def restore(self, request: RestoreRequest) -> Process:
        """Refuse."""
        raise EngineError(self._verdict().reasons[0])


def named(engines: Mapping[str, Engine], name: str) -> Engine:
    """The engine of that name, or a stand-in that can still stop, continue and end what runs."""
    found = engines.get(name)
    return found if found is not None else Missing(name, next(iter(engines.values())))


def examine(job: Job, process: Process | None, engines: Mapping[str, Engine]) -> list[Verdict]:
    """Every engine's verdict on a job, the best first; without a process, on the node and the record only."""
    verdicts = []
    for name, engine in engines.items():
        if job.engine not in ("auto", name):
            continue
        verdict = engine.ready()
        if verdict.answer == "ok" and process is not None:
            verdict = engine.examine(job, process)
        if process is None and name == "signal" and job.marker is None:
            reason = "engine signal needs `marker`: the files that show that the program has saved itself"
            verdict = Verdict("impossible", (reason,))
        verdict = replace(verdict, engine=name)
        if verdict.unproven and job.engine == "auto" and not job.accept_unproven:
            verdict = replace(verdict, reasons=(f"{verdict.unproven}: {ACCEPT}", *verdict.reasons))
        verdicts.append(verdict)
    return sorted(verdicts, key=lambda verdict: (_RANK[verdict.answer], _barred(job, verdict)))


def _barred(job: Job, verdict: Verdict) -> bool:
    """Whether `auto` leaves this engine alone until the operator accepts it."""
    return bool(verdict.unproven) and job.engine == "auto" and not job.accept_unproven


def choose(job: Job, process: Process | None, engines: Mapping[str, Engine]) -> Engine:
    """The engine that will save this job.

    Raises:
        UsageError: the job names an engine that this node does not have.
        EngineError: none can; the message holds the best verdict's reason.
    """
    if job.engine not in ("auto", *engines):
        raise UsageError(
            f"engine {job.engine!r} of job {job.name} is not on this node: {', '.join(engines)} are"
        )
    verdicts = examine(job, process, engines)
    if not verdicts or verdicts[0].answer != "ok":
        best = verdicts[0] if verdicts else Verdict("impossible", ("no engine works here",))
        reason = "; ".join(best.reasons) or "no reason given"
        hint = f"restart it with: {best.restart_line}" if best.restart_line else None
        raise EngineError(f"job {job.name} cannot be saved here ({best.answer}): {reason}", hint=hint)
    if _barred(job, verdicts[0]):
        raise EngineError(f"job {job.name} is not saved: {verdicts[0].unproven}", hint=ACCEPT)
    return engines[verdicts[0].engine]

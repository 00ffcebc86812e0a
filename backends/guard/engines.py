"""Which engine saves a job: the one it names, else the best that says it can."""

from __future__ import annotations

from collections.abc import Mapping

from backends.engines.port import Engine, Process, Verdict
from backends.errors import EngineError, UsageError
from backends.records.job import Job

_RANK = {"ok": 0, "self_save_only": 1, "needs_restart": 2, "impossible": 3}


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
        verdicts.append(Verdict(verdict.answer, verdict.reasons, verdict.restart_line, name))
    return sorted(verdicts, key=lambda verdict: _RANK[verdict.answer])


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
    return engines[verdicts[0].engine]

"""Putting a job under guard: examine, claim its epoch, name the guard, hand over the grant, wait for the trial save."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

from backends.clean import clean
from backends.errors import (
    CredentialsError,
    DamagedError,
    EngineError,
    FencedError,
    IncompatibleError,
    NoProofError,
    StillRunningError,
    UsageError,
)
from backends.ids import new_nonce, new_uid
from backends.ledger.records import JobCurrent
from backends.records import strict
from backends.records.job import CONTROLLER_ONLY, Job
from backends.records.node import Node
from backends.records.status import JobStatus
from backends.schedulers.port import Answer
from console.operations.common.escrow import prove_escrow
from console.operations.common.grants import grant, job_document
from console.operations.common.locate import remember
from console.operations.common.restarters import ask_restarter, scaling_group
from console.operations.common.runs import Notebook
from console.operations.common.witness import ENDED, gather, proof_document
from console.operations.decide.loss import why_no_proof
from console.operations.fleet import CALL_S, Fleet
from console.operations.truth import EpochView

OnStep = Callable[[str], None]
TRIAL_LIMIT_S = 3600.0


async def examine(fleet: Fleet, job: Job, pid: int | None = None) -> list[dict[str, Any]]:
    """The verdicts of the engines on the job's node, best first: `{answer, reasons, restart_line, engine}`."""
    return (await look_at(fleet, job, pid))[0]


async def look_at(
    fleet: Fleet, job: Job, pid: int | None = None
) -> tuple[list[dict[str, Any]], Answer | None]:
    """As `examine`, and what another restarter of the process says; None where it belongs to none."""
    node = fleet.node(job.node)
    document: dict[str, Any] = {"job": job_document_or_plain(fleet, job, node)}
    if pid is not None:
        document["pid"] = pid
    answer = await fleet.ask(node, "examine", document, timeout_s=120.0)
    verdicts = answer.get("verdicts")
    found = (
        [verdict for verdict in verdicts if isinstance(verdict, dict)] if isinstance(verdicts, list) else []
    )
    other = answer.get("restarter")
    known = (
        {name: clean(value, limit=40) for name, value in other.items()} if isinstance(other, dict) else None
    )
    return found, await ask_restarter(fleet, known) or await scaling_group(fleet, node)


def job_document_or_plain(fleet: Fleet, job: Job, node: Node) -> dict[str, Any]:
    """The job's document; a job that has no store yet is examined without one."""
    if job.store or fleet.context.store:
        return job_document(fleet, job, node)
    record = {name: value for name, value in strict.to_document(job).items() if name not in CONTROLLER_ONLY}
    return {**record, "node": node.name}


def refusal(job: Job, verdicts: list[dict[str, Any]]) -> IncompatibleError | None:
    """Why the job cannot be protected as it stands, None when some engine can."""
    if not verdicts:
        return IncompatibleError(f"node {job.node} offers no engine that could save job {job.name}")
    best = verdicts[0]
    if best.get("answer") == "ok":
        return None
    reasons = "; ".join(str(reason) for reason in best.get("reasons") or ()) or "no reason given"
    line = best.get("restart_line")
    pid = job.attach.pid if job.attach is not None else None
    look = f"--node {job.node} --pid {pid}" if pid is not None else job.name
    hint = f"restart it as: {line}" if line else f"the reasons one by one: reprieve jobs doctor {look}"
    return IncompatibleError(
        f"job {job.name} cannot be protected ({best.get('answer')}): {reasons}", hint=hint
    )


async def protect(
    fleet: Fleet,
    job: Job,
    verb: Literal["start", "protect"],
    run: str,
    item: str,
    on_step: OnStep,
    *,
    wait: bool = True,
) -> JobStatus:
    """Start `job.command`, or take a running process under guard, and return its state after the trial save.

    Run again after an interruption, it goes on with what store and guard have.

    Raises:
        IncompatibleError: no engine can save it; the reasons and the restart line are in the message.
        NoProofError: an earlier process of this job may still run elsewhere.
        EngineError: the trial save failed; the process runs on.
        DamagedError: the key kept here does not open what the guard sealed; saves are paused.
        StillRunningError: not waited for.
    """
    node = fleet.node(job.node)
    if verb == "protect" or job.engine == "signal":
        bad = refusal(job, await examine(fleet, job, job.attach.pid if job.attach is not None else None))
        if bad is not None:
            raise bad
    job = await _registered(fleet, job)
    with fleet.locks.only_runner(f"job.{job.uid}", f"job {job.name}"):
        book = Notebook(fleet, run, item)
        epoch = await _named_epoch(fleet, job, node, book, on_step)
        request = f"{verb}-{job.uid}-{epoch.epoch}"
        document = {
            "request": request,
            "job": job_document(fleet, job, node),
            "grant": grant(fleet, job, epoch.epoch, epoch.nonce or "", epoch.checkpoint or "genesis"),
        }
        book.intend(verb, epoch=epoch.epoch, node=node.name, request=request)
        on_step(f"{node.name}: {'starting' if verb == 'start' else 'attaching to'} {job.name}")
        answer = await fleet.ask(node, verb, document, timeout_s=CALL_S * 3)
        status = strict.read(JobStatus, answer.get("job"), what=f"answer of {node.name}", ignore_unknown=True)
        book.observe(verb, epoch=epoch.epoch, state=status.state, pid=status.pid)
        remember(fleet, node, status)
        await _check_key(fleet, job, node)
        fleet.tell("job.protected", f"{job.name} is under guard on {node.name}", node=node.name, job=job.name)
        return await _after_trial(fleet, job, node, status, on_step, wait)


async def _check_key(fleet: Fleet, job: Job, node: Node) -> None:
    """No protection by saves that the key kept here does not open: they stop, and the process runs on."""
    try:
        await prove_escrow(fleet, job, node)
    except (DamagedError, CredentialsError) as error:
        await fleet.ask(node, "pause", {"job": job.name})
        raise type(error)(
            f"protection of job {job.name} is refused: {error.message}; its saves are paused, the process runs on",
            hint=error.hint,
        ) from None


async def _registered(fleet: Fleet, job: Job) -> Job:
    """The job with a uid and a key that were tried against the store; kept before anything is started."""
    known = fleet.ledger.jobs().get(job.uid)
    if not job.uid or (known is not None and known.state == "unprotected"):
        job = dataclasses.replace(job, uid=new_uid())
    job = dataclasses.replace(job, store=fleet.store_url(job))
    fleet.keys.new_job_key(job.uid)
    await fleet.blocking(fleet.truth(job).register, job.uid, job.name)
    if fleet.records.may_write_job(job.name):
        fleet.records.put_job(job)
    fleet.ledger.put_job(JobCurrent(job.name, job.uid, job.node, None, "trial"))
    return job


async def _named_epoch(fleet: Fleet, job: Job, node: Node, book: Notebook, on_step: OnStep) -> EpochView:
    """The epoch that names this node's guard and has not begun; made when there is none."""
    truth = fleet.truth(job)
    evidence = await gather(fleet, job)
    status = await fleet.status(node)
    running = evidence.running
    if running is not None:
        if evidence.guard.word in ("running", "restoring"):
            raise UsageError(
                f"job {job.name} is under guard on {running.target} already (epoch {running.epoch})"
            )
        if evidence.guard.word == "absent" and running.guard == status.guard and running.checkpoint is None:
            return running
        if evidence.proof is None:
            raise NoProofError(why_no_proof(job.name, running.target, evidence.verdict, evidence.guard))
    highest = evidence.lineage.highest
    if highest is not None and highest.kind == "none":
        await fleet.blocking(truth.void, job.uid, highest.epoch)
    epoch = (highest.epoch if highest is not None else 0) + 1
    claim, nonce = new_nonce(), new_nonce()
    book.intend("claim", epoch=epoch, nonce=claim, proof=proof_document(evidence))
    on_step(f"claiming epoch {epoch}")
    won = await fleet.blocking(truth.claim, job.uid, epoch, claim, proof_document(evidence))
    book.intend("continues", epoch=epoch, nonce=nonce, target=node.name, guard=status.guard)
    kind: Literal["genesis", "cold"] = "genesis" if running is None else "cold"
    won = won and await fleet.blocking(
        truth.name,
        job.uid,
        epoch,
        kind=kind,
        checkpoint=None,
        target=node.name,
        guard=status.guard,
        nonce=nonce,
    )
    if not won:
        raise FencedError(f"job {job.name}: another controller took epoch {epoch}; look and try again")
    return EpochView(epoch, claim, kind, None, node.name, status.guard, nonce)


async def _after_trial(
    fleet: Fleet, job: Job, node: Node, status: JobStatus, on_step: OnStep, wait: bool
) -> JobStatus:
    deadline = fleet.clock.monotonic() + TRIAL_LIMIT_S
    while status.state == "trial" and status.error is None:
        if not wait or fleet.clock.monotonic() > deadline:
            raise StillRunningError(
                f"the trial save of job {job.name} goes on", hint="see `reprieve jobs list`"
            )
        on_step(f"{node.name}: trial save under way")
        await fleet.clock.pause(0.5)
        _, found = await fleet.job_status(node, job.uid)
        if found is None:
            raise EngineError(f"job {job.name}: the guard on {node.name} does not know it any more")
        status = found
    remember(fleet, node, status)
    if status.saved is None and status.state in ENDED:
        raise EngineError(
            f"job {job.name} ended on {node.name} before its trial save was done ({status.error or status.state})",
            hint="try its command on the node by hand; see `reprieve events list`",
        )
    if status.saved is None:
        raise EngineError(
            f"the trial save of job {job.name} failed: {status.error or status.state}; the process runs on",
            hint=f"reprieve jobs doctor {job.name}",
        )
    return status

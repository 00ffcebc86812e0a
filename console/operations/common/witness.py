"""Gathering evidence: what node, provider, guard and operator say of the newest process of a job."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

from backends.clock import format_utc
from backends.clouds.port import InstanceState
from backends.errors import CredentialsError, DamagedError, NotInstalledError, ReprieveError, UnreachableError
from backends.records.job import Job
from backends.records.node import Node
from backends.records.status import JobStatus, NodeStatus
from console.operations.common.leases import lease_word
from console.operations.decide.loss import (
    GuardWord,
    LeaseWord,
    Limits,
    NodeVerdict,
    Proof,
    Witness,
    judge_node,
    judge_unanswered,
    prove,
)
from console.operations.fleet import Fleet
from console.operations.truth import EpochView, LineageView

QUICK_S = 1.5  # a node whose provider says that it ended is not waited for any longer
STATUS_S = 5.0  # silence proves nothing, so there is no use in waiting long for it ...
PATIENT_S = 12.0  # ... unless a refusal would follow: a loaded node may need that for a handshake
ENDED = ("stopped", "finished", "failed", "ended_unknown")


@dataclass(frozen=True)
class Evidence:
    """What was found about the newest epoch that names a node."""

    lineage: LineageView
    running: EpochView | None
    node: Node | None  # its target; None when it is not in the fleet any more
    verdict: NodeVerdict
    guard: GuardWord
    proof: Proof | None
    status: JobStatus | None = None
    lease: LeaseWord | None = None  # asked only where the node is silent and nothing else proves the end

    @property
    def to_be_asked(self) -> bool:
        """Whether the newest epoch names a guard that answers and has not finished it: a restore goes on there."""
        running = self.running
        if running is None or running is not self.lineage.highest or running.kind != "checkpoint":
            return False
        return self.guard.word in ("restoring", "absent")


def guard_word(status: NodeStatus, job: JobStatus | None, running: EpochView) -> GuardWord:
    """The word of the guard that answered, about the epoch `running`."""
    if status.guard != running.guard:
        detail = "another guard answers there: the one that the epoch names is gone"
        return GuardWord("unreachable", status.guard, None, status.time, detail)
    if job is None or job.epoch < running.epoch:
        return GuardWord("absent", status.guard, running.epoch, status.time)
    detail = job.error or job.state
    if job.state == "zombie":
        return GuardWord("behind", status.guard, job.epoch, status.time, detail)
    if job.state == "restoring":
        return GuardWord("restoring", status.guard, job.epoch, status.time)
    word: Literal["ended", "running"] = "ended" if job.state in ENDED else "running"
    return GuardWord(word, status.guard, job.epoch, status.time, detail, job.state == "finished")


async def ask_node(
    fleet: Fleet, node: Node, limits: Limits | None = None, *, timeout_s: float = STATUS_S
) -> tuple[NodeStatus | None, NodeVerdict]:
    """The guard's status, None when it does not answer, and what that makes of the node, its provider asked too."""
    seen = fleet.ledger.nodes().get(node.name)
    silence = None if seen is None else max(0.0, fleet.clock.wall() - seen.seen_at)
    asking = asyncio.ensure_future(fleet.status(node, timeout_s=timeout_s))
    cloud: InstanceState | None = None
    try:
        await asyncio.wait({asking}, timeout=QUICK_S)
        if not asking.done():
            cloud = await fleet.instance(node)
            verdict = judge_node(Witness(silence, False, cloud, node.cordoned), limits or Limits())
            if verdict.proof is not None:
                return None, verdict
        await asyncio.wait(
            {asking}, timeout=max(0.0, timeout_s - QUICK_S)
        )  # opening a link has longer limits
        if not asking.done():
            raise UnreachableError(f"node {node.name}: no answer in {timeout_s:.0f} s")
        status = await asking
    except (DamagedError, NotInstalledError, CredentialsError) as error:
        return None, judge_node(Witness(None, True, None, node.cordoned, error.message), limits or Limits())
    except ReprieveError:
        silence = None if seen is None else max(0.0, fleet.clock.wall() - seen.seen_at)
        cloud = cloud or await fleet.instance(node)
        return None, judge_unanswered(Witness(silence, False, cloud, node.cordoned), limits or Limits())
    finally:
        asking.cancel()
    return status, judge_node(Witness(0.0, True, None, node.cordoned), limits or Limits())


def kept_word(fleet: Fleet, job: Job, epoch: int) -> Proof | None:
    """What the ledger keeps about the end of `epoch`: a guard's acknowledged stop, or the operator's typed word.

    Of several typed words the first counts that nothing has spoken against since: the process was seen running before it.
    """
    words = [word for word in fleet.ledger.words() if (word.uid, word.epoch) == (job.uid, epoch)]
    newest = words[-1] if words else None
    if newest is None or newest.kind not in ("stopped", "dead"):
        return None
    if newest.kind == "stopped":
        return Proof(
            "stopped", f"{newest.who} confirmed the stop of epoch {epoch}", newest.who, format_utc(newest.at)
        )
    current = fleet.ledger.jobs().get(job.uid)
    seen = None if current is None or current.epoch != epoch else current.running_at
    first = next(
        (word for word in words if word.kind == "dead" and (seen is None or word.at >= seen)), newest
    )
    detail = f"{first.who} typed that the old process of {job.name} is dead"
    return Proof("word", detail, f"operator {first.who}", format_utc(first.at))


async def gather(fleet: Fleet, job: Job, failed: dict[int, str] | None = None) -> Evidence:
    """All evidence about `job` now; the store is read first.

    `failed` holds epochs whose guard answered a restore with `failed` and why: its own word that nothing runs, unless
    its status says otherwise now.
    """
    truth = fleet.truth(job)
    lineage = await fleet.blocking(truth.lineage, job.uid)
    running = lineage.running
    if running is None:
        return Evidence(lineage, None, None, NodeVerdict("ok"), GuardWord("absent"), None)
    evidence = await _hear(fleet, job, lineage, running, failed or {}, STATUS_S)
    if (
        evidence.proof is None
        and evidence.guard.word == "unreachable"
        and evidence.verdict.state != "not_ready"
    ):
        evidence = await _hear(fleet, job, lineage, running, failed or {}, PATIENT_S)
    return evidence


async def _hear(
    fleet: Fleet, job: Job, lineage: LineageView, running: EpochView, failed: dict[int, str], timeout_s: float
) -> Evidence:
    """What the node that `running` names, its provider and the ledger say now."""
    node = fleet.records.nodes().get(running.target or "")
    verdict, guard, job_status = (
        NodeVerdict("unreachable", "not in the fleet any more"),
        GuardWord("unreachable"),
        None,
    )
    if node is not None:
        status, verdict = await ask_node(fleet, node, timeout_s=timeout_s)
        if status is not None:
            job_status = next((each for each in status.jobs if each.uid == job.uid), None)
            guard = guard_word(status, job_status, running)
    if running.epoch in failed and guard.word not in ("running", "restoring"):
        guard = GuardWord("ended", running.guard, running.epoch, fleet.now_text(), failed[running.epoch])
    word = kept_word(fleet, job, running.epoch)
    proof = prove(verdict, guard, epoch=running.epoch, named_guard=running.guard, word=word)
    lease = None
    if proof is None and guard.word == "unreachable" and verdict.state in ("late", "unreachable"):
        lease = await lease_word(fleet, job, running)
        proof = prove(
            verdict,
            guard,
            epoch=running.epoch,
            named_guard=running.guard,
            word=word,
            lease=lease,
            now=fleet.now_text(),
        )
    return Evidence(lineage, running, node, verdict, guard, proof, job_status, lease)


def proof_document(evidence: Evidence) -> dict[str, Any]:
    """The proof as a claim records it: whose end it covers, who says so, when."""
    proof, running = evidence.proof, evidence.running
    if running is None or proof is None:
        return {
            "kind": "first",
            "epoch": 0,
            "target": "",
            "guard": "",
            "by": "",
            "at": "",
            "detail": "nothing was ever started",
        }
    return {
        "kind": proof.kind,
        "epoch": running.epoch,
        "target": running.target or "",
        "guard": running.guard or "",
        "by": proof.source,
        "at": proof.at,
        "detail": proof.detail,
    }

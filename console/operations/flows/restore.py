"""Bringing a job back: durable steps, each recorded before and after, resumed by looking at store and node first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from backends.errors import IncompatibleError, NoProofError, ReprieveError, UnreachableError
from backends.ids import new_nonce
from backends.ledger.locks import only_runner
from backends.ledger.records import JobCurrent, Reclaim
from backends.records.job import Job
from backends.records.node import Node
from console.operations.common.candidates import find_place
from console.operations.common.costs import Costs, measure
from console.operations.common.grants import grant, job_document
from console.operations.common.runs import Notebook
from console.operations.common.witness import Evidence, gather
from console.operations.decide.loss import why_no_proof
from console.operations.decide.restore import Observed, Step, extra_loss_text, next_step
from console.operations.fleet import Fleet
from console.operations.truth import Choice, SaveView

POLL_S = 2.0
NODE_WAIT_S = 20.0  # how long a node holds one restore call open
RESTORE_LIMIT_S = 3600.0
BROKEN_LIMIT = 5


@dataclass(frozen=True)
class RestoreWish:
    """What was asked for."""

    job: Job
    to: str | None = None  # node or pool
    checkpoint: str | None = None  # None: the newest usable
    force: dict[str, str] = field(default_factory=dict)  # gate property → recorded reason
    cause: str = "operator"  # operator | reclaim | move | batch
    detected_at: float | None = None  # wall clock; None: now
    patience_s: float = 0.0  # how long to wait for proof
    max_tries: int = 3
    notice: bool | None = None
    notice_s: float | None = None


@dataclass(frozen=True)
class Restored:
    """One live process, confirmed by its guard."""

    state: str  # restored | already_restored
    job: str
    uid: str
    node: str
    epoch: int
    pid: int | None
    checkpoint: str | None
    lost_work_s: float | None
    restore_s: float | None
    wait_s: float | None
    failed_tries: int = 0
    notes: tuple[str, ...] = ()


OnStep = Callable[[str], None]


async def restore(fleet: Fleet, wish: RestoreWish, run: str, item: str, on_step: OnStep) -> Restored:
    """Bring `wish.job` back once and return where it lives.

    lost_work_s counts from the freeze instant of the checkpoint used to the moment when death was proven (the provider's
    answer, the guard's acknowledgement, the word): at or after the true end, so never below the truth. wait_s counts from
    the detection of the loss until proof and a node were there and work could begin; restore_s from then to proof of
    life: choosing, verifying, claiming, fetching, failed tries and interruptions of this program included.

    Raises:
        NoProofError: nothing proves that the old process is gone; nothing was started.
        IncompatibleError: no node fits, or no checkpoint can be used.
        StillRunningError: another reprieve here works on this job.
        ReprieveError: every try failed; the message holds the last reason.
    """
    with only_runner(fleet.context.state / "locks", f"job.{wish.job.uid}", f"job {wish.job.name}"):
        return await _Restore(fleet, wish, Notebook(fleet, run, item), on_step).drive()


class _Restore:
    def __init__(self, fleet: Fleet, wish: RestoreWish, book: Notebook, on_step: OnStep) -> None:
        self.fleet, self.wish, self.book, self.on_step = fleet, wish, book, on_step
        self.job = wish.job
        self.truth = fleet.truth(wish.job)
        self.key = fleet.job_key(wish.job.uid)
        self.waited_s = 0.0
        self.broken = 0  # calls in a row that broke off on a node that answers
        self.claim_first_seen: tuple[int, float] = (0, 0.0)
        self.trusted: frozenset[str] = frozenset()
        self.notes: list[str] = []
        self.warned: set[tuple[str, str]] = set()

    # -- what the journal remembers ------------------------------------------------------------------------------

    @property
    def claims(self) -> dict[int, str]:
        return {data["epoch"]: data["nonce"] for data in self.book.intended("claim")}

    @property
    def failed(self) -> dict[int, str]:
        return {
            data["epoch"]: data["error"] for data in self.book.observed("ask") if data["state"] == "failed"
        }

    @property
    def named(self) -> dict[str, dict[str, Any]]:
        return {data["nonce"]: data for data in self.book.intended("continues")}

    # -- the loop -------------------------------------------------------------------------------------------------

    async def drive(self) -> Restored:
        evidence = await gather(self.fleet, self.job, self.failed)
        if self.book.first("begin") is None:
            highest = evidence.lineage.highest
            known = self.fleet.ledger.jobs().get(self.job.uid)
            self.book.observe(
                "begin",
                started_from=highest.epoch if highest else 0,
                detected_at=self.wish.detected_at or self.fleet.clock.wall(),
                from_node=evidence.running.target if evidence.running else None,
                running_at=known.running_at if known is not None else None,
            )
        while True:
            step = next_step(self.observed(evidence))
            match step.name:
                case "done" | "already":
                    return await self.finish(evidence, step)
                case "ask_node":
                    await self.ask_node(evidence)
                case "write_continues":
                    await self.write_continues(evidence)
                case "take_over":
                    await self.take_over(evidence)
                case "wait":
                    await self.wait(step)
                case "no_proof":
                    self.refuse(evidence)
                case "give_up":
                    raise ReprieveError(
                        f"job {self.job.name} was not restored after {len(self.book.observed('ask'))} tries: {step.reason}",
                        hint="its checkpoints are untouched; see `reprieve checkpoints list` and `reprieve fleet doctor`",
                    )
            evidence = await gather(self.fleet, self.job, self.failed)

    def observed(self, evidence: Evidence) -> Observed:
        highest, running = evidence.lineage.highest, evidence.running
        begin = self.book.first("begin")
        now = self.fleet.clock.monotonic()
        epoch = highest.epoch if highest else 0
        if self.claim_first_seen[0] != epoch:
            self.claim_first_seen = (epoch, now)
        return Observed(
            epoch=epoch,
            claim_is_ours=highest is not None and self.claims.get(epoch) == highest.claim_nonce,
            claim_seen_s=now - self.claim_first_seen[1],
            kind=highest.kind if highest else "void",
            continues_is_ours=highest is not None and highest.nonce in self.named,
            running_epoch=running.epoch if running else 0,
            guard=evidence.guard,
            proof=evidence.proof,
            started_from=begin.data["started_from"] if begin else epoch,
            tries=len({data["epoch"] for data in self.book.observed("ask")}),
            max_tries=self.wish.max_tries,
            waited_s=self.waited_s,
            patience_s=self.wish.patience_s,
        )

    async def wait(self, step: Step) -> None:
        if self.waited_s == 0.0:
            self.on_step(f"waiting: {step.reason}")
        self.waited_s += POLL_S
        await self.fleet.clock.pause(POLL_S)

    def refuse(self, evidence: Evidence) -> None:
        node, name = (evidence.running.target if evidence.running else None), self.job.name
        hint = f"if you know that it is dead: reprieve jobs restore {name} --i-know-it-is-dead {name}"
        if evidence.guard.word in ("running", "restoring"):
            hint = f"to run it elsewhere: reprieve jobs move {name} --to NODE"
        raise NoProofError(why_no_proof(name, node, evidence.verdict, evidence.guard), hint=hint)

    # -- taking over ----------------------------------------------------------------------------------------------

    async def take_over(self, evidence: Evidence) -> None:
        """Look for a checkpoint and a node first, so that an epoch is only spent on a restore that can begin."""
        if self.book.first("ready") is None:
            self.book.observe("ready", at=self.fleet.clock.wall())
        highest = evidence.lineage.highest
        if highest is not None and highest.kind == "none":
            self.book.intend("void", epoch=highest.epoch)
            await self.fleet.blocking(self.truth.void, self.job.uid, highest.epoch)
        choice = await self.choose()
        await self.place(choice.chosen, evidence)
        epoch = (highest.epoch if highest else 0) + 1
        proof = proof_document(evidence)
        nonce = new_nonce()
        self.book.intend("claim", epoch=epoch, nonce=nonce, proof=proof)
        self.on_step(f"claiming epoch {epoch}: {proof['detail']}")
        won = await self.fleet.blocking(self.truth.claim, self.job.uid, epoch, nonce, proof)
        self.book.observe("claim", epoch=epoch, won=won)
        if not won:
            self.on_step(f"epoch {epoch} was taken by another controller")

    async def choose(self) -> Choice:
        self.on_step("choosing and verifying the checkpoint")
        choice = await self.fleet.blocking(
            self.truth.choose, self.job.uid, self.key, self.wish.checkpoint, self.trusted
        )
        if choice.chosen is None:
            reasons = (
                "; ".join(f"{name}: {reason}" for name, reason in choice.skipped)
                or choice.reason
                or "none was ever committed"
            )
            raise IncompatibleError(
                f"job {self.job.name} has no usable checkpoint ({reasons})",
                hint="a cold start from its beginning is for you to decide: reprieve jobs run",
            )
        if choice.skipped:
            note = extra_loss_text([name for name, _ in choice.skipped], choice.extra_loss_s)
            if note not in self.notes:
                self.notes.append(note)
                self.on_step(note)
                self.fleet.tell(
                    "restore.fallback", note, job=self.job.name, data={"skipped": dict(choice.skipped)}
                )
        self.trusted |= {choice.chosen.checkpoint}
        return choice

    async def place(self, save: SaveView | None, evidence: Evidence) -> Node:
        fingerprint = save.fingerprint if save is not None else {}
        lost = (
            {evidence.node.name: evidence.verdict.reason} if evidence.node and evidence.verdict.proof else {}
        )
        tried = {
            data["target"]: data["error"] or "it died there right after its restore"
            for data in self.book.observed("ask")
        }
        placement = await find_place(
            self.fleet,
            self.job,
            fingerprint,
            to=self.wish.to,
            exclude={**tried, **lost},
            force=self.wish.force,
        )
        if placement.node is None:
            raise IncompatibleError(
                f"no node can take job {self.job.name}: {placement.explain()}",
                hint="add a node, or choose one with --to NODE",
            )
        for warning in placement.warnings:
            if (placement.node, warning) not in self.warned:
                self.warned.add((placement.node, warning))
                self.on_step(f"{placement.node}: {warning}")
        return self.fleet.node(placement.node)

    async def write_continues(self, evidence: Evidence) -> None:
        """Choose again now that the epoch is ours (the old one may have committed since), and name the guard."""
        highest = evidence.lineage.highest
        if highest is None:
            return
        choice = await self.choose()
        node = await self.place(choice.chosen, evidence)
        status = await self.fleet.status(node)
        save = choice.chosen
        checkpoint = save.checkpoint if save is not None else None
        nonce = new_nonce()
        self.book.intend(
            "continues",
            epoch=highest.epoch,
            nonce=nonce,
            checkpoint=checkpoint,
            target=node.name,
            guard=status.guard,
            frozen_at=save.frozen_at if save is not None else None,
            made_on=save.node if save is not None else None,
            clock_offset_s=save.clock_offset_s if save is not None else None,
        )
        self.on_step(f"epoch {highest.epoch} continues {checkpoint} on {node.name}")
        won = await self.fleet.blocking(
            self.truth.name,
            self.job.uid,
            highest.epoch,
            kind="checkpoint",
            checkpoint=checkpoint,
            target=node.name,
            guard=status.guard,
            nonce=nonce,
        )
        self.book.observe("continues", epoch=highest.epoch, won=won)

    # -- the node -------------------------------------------------------------------------------------------------

    async def ask_node(self, evidence: Evidence) -> None:
        """Ask the named guard to restore; the same request again returns the first one's outcome."""
        running, node = evidence.running, evidence.node
        if running is None or node is None:
            return
        request = f"restore-{self.job.uid}-{running.epoch}"
        self.book.intend("ask", epoch=running.epoch, target=node.name, request=request)
        document = {
            "request": request,
            "job": job_document(self.fleet, self.job, node),
            "grant": grant(
                self.fleet, self.job, running.epoch, running.nonce or "", running.checkpoint or "genesis"
            ),
            "checkpoint": running.checkpoint,
            "wait_s": NODE_WAIT_S,
        }
        self.on_step(f"{node.name}: fetching, verifying and restoring {running.checkpoint}")
        deadline = self.fleet.clock.monotonic() + RESTORE_LIMIT_S
        while self.fleet.clock.monotonic() < deadline:
            try:
                answer = await self.fleet.ask(node, "restore", document, timeout_s=NODE_WAIT_S + 20)
            except UnreachableError as error:
                await self.fleet.clock.pause(POLL_S)
                await self.broke_off(running.epoch, node, error)
                return
            except ReprieveError as error:
                answer = {"state": "failed", "error": error.message}
            if answer.get("state") != "running":
                self.answered(running.epoch, node.name, answer)
                return
            self.on_step(f"{node.name}: {answer.get('step') or 'restoring'}")
            await self.fleet.clock.pause(0.2)

    async def broke_off(self, epoch: int, node: Node, error: UnreachableError) -> None:
        """A call that fails again and again although its guard answers, and says that nothing runs, has failed."""
        try:
            _, job = await self.fleet.job_status(node, self.job.uid)
        except ReprieveError:
            self.broken = 0
            return
        self.broken = self.broken + 1 if job is None or job.epoch < epoch else 0
        if self.broken >= BROKEN_LIMIT:
            self.answered(epoch, node.name, {"state": "failed", "error": error.message})

    def answered(self, epoch: int, target: str, answer: dict[str, Any]) -> None:
        state = "restored" if answer.get("state") == "restored" else "failed"
        error = str(answer.get("error") or "")
        self.book.observe(
            "ask",
            epoch=epoch,
            target=target,
            state=state,
            error=error or ("" if state == "restored" else "no reason given"),
            pid=answer.get("pid"),
            restore_s=answer.get("restore_s"),
        )
        if state == "failed":
            self.on_step(f"{target}: restore failed: {error}")
            self.fleet.tell(
                "restore.failed", f"restore on {target} failed: {error}", node=target, job=self.job.name
            )

    # -- the end --------------------------------------------------------------------------------------------------

    async def finish(self, evidence: Evidence, step: Step) -> Restored:
        """Record what it cost and where the job lives now."""
        running, status = evidence.running, evidence.status
        if running is None or status is None:
            raise ReprieveError(f"job {self.job.name}: its guard gave no status")
        costs = measure(self.fleet, self.book, self.named.get(running.nonce or ""))
        result = Restored(
            "restored" if step.name == "done" else "already_restored",
            self.job.name,
            self.job.uid,
            running.target or "",
            running.epoch,
            status.pid,
            running.checkpoint,
            costs.lost_work_s,
            costs.restore_s,
            costs.wait_s,
            len(self.failed),
            tuple(self.notes),
        )
        if self.book.first("result") is None:
            self.book.observe("result", **asdict(costs))
        if result.state == "restored":
            await self.attest(result)
            self.keep(result, costs)
        now = self.fleet.clock.wall()
        self.fleet.ledger.put_job(
            JobCurrent(
                result.job,
                result.uid,
                result.node,
                result.epoch,
                status.state,
                result.checkpoint,
                None,
                now,
                now,
            )
        )
        return result

    async def attest(self, result: Restored) -> None:
        """It has run on another host than the one that saved it: as good as a rehearsal."""
        named = next((data for data in self.named.values() if data["epoch"] == result.epoch), None)
        if named is None or result.checkpoint is None or named.get("made_on") in (None, result.node):
            return
        data = {"by": self.fleet.who, "seconds": 0.0, "how": result.node}
        await self.fleet.blocking(self.truth.mark, self.job.uid, result.checkpoint, "rehearsed", data)

    def keep(self, result: Restored, costs: Costs) -> None:
        begin = self.book.first("begin")
        self.fleet.ledger.put_reclaim(
            Reclaim(
                key=f"{self.book.run}/{self.book.item}",
                at=begin.data["detected_at"] if begin else self.fleet.clock.wall(),
                job=result.job,
                uid=result.uid,
                from_node=begin.data["from_node"] if begin else None,
                notice=self.wish.notice,
                notice_s=self.wish.notice_s,
                lost_work_s=costs.lost_work_s,
                least_lost_s=costs.least_lost_s,
                restore_s=costs.restore_s,
                wait_s=costs.wait_s,
                from_checkpoint=result.checkpoint,
                to_node=result.node,
                epoch=result.epoch,
                failed_tries=result.failed_tries,
                cause=self.wish.cause,
            )
        )
        text = f"{result.job} came back on {result.node} from {result.checkpoint}"
        self.fleet.tell(
            "restore.done",
            text,
            node=result.node,
            job=result.job,
            data={**asdict(result), "notes": list(result.notes)},
        )


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

"""Bringing a job back: durable steps, each recorded before and after, resumed by looking at store and node first."""

from __future__ import annotations

from backends.clock import parse_utc
from backends.errors import NoProofError, ReprieveError
from backends.ids import new_nonce
from console.operations.common.runs import Notebook
from console.operations.common.witness import Evidence, gather, proof_document
from console.operations.decide.loss import why_no_proof, word_hint
from console.operations.decide.restore import Observed, Step, next_step
from console.operations.fleet import Fleet
from console.operations.flows.asking import POLL_S, Asking
from console.operations.flows.choosing import Choosing
from console.operations.flows.ending import Ending
from console.operations.flows.wish import OnStep, Restored, RestoreWish

__all__ = ["RestoreWish", "Restored", "restore"]

LEASE_MORE_S = 10.0  # waited beyond a whole lease: the reads themselves take time


async def restore(fleet: Fleet, wish: RestoreWish, run: str, item: str, on_step: OnStep) -> Restored:
    """Bring `wish.job` back once and return where it lives.

    lost_work_s counts from the freeze instant of the checkpoint used to the moment when death was proven (the provider's
    answer, the guard's acknowledgement, the first typed word that stands): at or after the true end, so never below the truth;
    after a word alone lost_work_at_least_s, to the last sign of life, is told beside it. wait_s is the time
    in which no node was ready to take the job, 0 when one was at once; restore_s is all the rest from the detection of the
    loss to proof of life: choosing, verifying, claiming, fetching, failed tries and interruptions of this program included.

    Raises:
        NoProofError: nothing proves that the old process is gone; nothing was started.
        IncompatibleError: no node fits, or no checkpoint can be used.
        StillRunningError: another reprieve here works on this job.
        ReprieveError: every try failed; the message holds the last reason.
    """
    with fleet.locks.only_runner(f"job.{wish.job.uid}", f"job {wish.job.name}"):
        try:
            return await _Restore(fleet, wish, Notebook(fleet, run, item), on_step).drive()
        except BaseException:
            fleet.placing.pop(wish.job.uid, None)
            raise


class _Restore(Choosing, Asking, Ending):
    """The loop: observe, ask what is next, do it, observe again."""

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
                no_node_s=self.wish.no_node_s,
                from_node=evidence.running.target if evidence.running else None,
                proven_at=self.proven_at(evidence),
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

    def proven_at(self, evidence: Evidence) -> float | None:
        """When the old process was gone for certain, as far as that is known at the beginning.

        The moment at which its machine ended, where the provider tells it; else that at which the end was first proven.
        """
        proof = evidence.proof
        known = [self.wish.detected_at] if self.wish.cause in ("reclaim", "reboot") else []
        known += [parse_utc(text) for text in (proof.at, proof.ended_at) if text] if proof is not None else []
        return min((moment for moment in known if moment is not None), default=None)

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
            patience_s=max(
                self.wish.patience_s, 0.0 if evidence.lease is None else evidence.lease.whole_s + LEASE_MORE_S
            ),
            awaits=""
            if evidence.lease is None
            else f"its lease runs out in {evidence.lease.left_s:.0f} s if it is not renewed",
        )

    async def wait(self, step: Step) -> None:
        if self.waited_s == 0.0:
            self.on_step(f"waiting: {step.reason}")
        self.waited_s += POLL_S
        await self.fleet.clock.pause(POLL_S)

    def refuse(self, evidence: Evidence) -> None:
        node, name = (evidence.running.target if evidence.running else None), self.job.name
        hint = word_hint(name, evidence.guard, self.wish.to, self.wish.checkpoint)
        raise NoProofError(
            why_no_proof(name, node, evidence.verdict, evidence.guard, evidence.lease), hint=hint
        )

    # -- taking over ----------------------------------------------------------------------------------------------

    async def take_over(self, evidence: Evidence) -> None:
        """Look for a checkpoint and a node first, so that an epoch is only spent on a restore that can begin."""
        await self.ask_others()
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

    async def write_continues(self, evidence: Evidence) -> None:
        """Choose again now that the epoch is ours (the old one may have committed since), and name the guard."""
        highest = evidence.lineage.highest
        if highest is None:
            return
        if highest.proof.get("kind") == "lease" and evidence.proof is None:
            # Renewed between our look and our claim: the guard may have looked before the claim and run on.
            self.on_step(f"epoch {highest.epoch} starts nothing: the lease was renewed meanwhile")
            await self.fleet.blocking(self.truth.void, self.job.uid, highest.epoch)
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

"""Asking the named guard to restore, and taking its answer down."""

from __future__ import annotations

from typing import Any

from backends.errors import NoProofError, ReprieveError, StillRunningError, UnreachableError
from backends.records.node import Node
from console.operations.common.grants import grant, job_document
from console.operations.common.witness import Evidence
from console.operations.decide.loss import GuardWord, word_hint
from console.operations.flows.attempt import Attempt
from console.operations.truth import EpochView

POLL_S = 2.0
NODE_WAIT_S = 20.0  # how long a node holds one restore call open
RESTORE_LIMIT_S = 3600.0
BROKEN_LIMIT = 5
DECLINE_S = 20.0


class Asking(Attempt):
    """Calls the node until it says restored or failed."""

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
            "wait_s": NODE_WAIT_S if self.wish.wait else 0.0,
        }
        self.on_step(f"{node.name}: fetching, verifying and restoring {running.checkpoint}")
        deadline = self.fleet.clock.monotonic() + RESTORE_LIMIT_S
        while self.fleet.clock.monotonic() < deadline:
            try:
                answer = await self.fleet.ask(node, "restore", document, timeout_s=NODE_WAIT_S + 20)
            except UnreachableError as error:
                await self.fleet.clock.pause(POLL_S)
                await self.broke_off(evidence, running, node, error)
                return
            except ReprieveError as error:
                why = "" if evidence.proof is not None else await self.not_declined(running, node)
                if why:
                    raise self.no_promise(
                        running, node, f"it was refused ({error.message}), and {why}"
                    ) from None
                answer = {"state": "failed", "error": error.message}
            if answer.get("state") != "running":
                self.answered(running.epoch, node.name, answer)
                return
            if not self.wish.wait:
                raise StillRunningError(
                    f"job {self.job.name} is being restored on {node.name}: it goes on there by itself",
                    hint="the same command waits for its end and keeps the books; `reprieve jobs list` shows the job",
                )
            self.on_step(f"{node.name}: {answer.get('step') or 'restoring'}")
            await self.fleet.clock.pause(0.2)

    async def broke_off(
        self, evidence: Evidence, running: EpochView, node: Node, error: UnreachableError
    ) -> None:
        """A call that fails again and again has failed once its guard promises that it never begins, or by a typed word.

        Raises:
            NoProofError: it fails on and on, and nothing promises that.
        """
        epoch = running.epoch
        try:
            _, job = await self.fleet.job_status(node, self.job.uid)
        except ReprieveError:
            self.broken = 0
            return
        self.broken = self.broken + 1 if job is None or job.epoch < epoch else 0
        if self.broken < BROKEN_LIMIT:
            return
        why = "" if evidence.proof is not None else await self.not_declined(running, node)
        if not why:
            self.answered(epoch, node.name, {"state": "failed", "error": error.message})
        elif self.broken >= 2 * BROKEN_LIMIT:
            raise self.no_promise(running, node, f"its calls break off ({error.message}), and {why}")

    async def not_declined(self, running: EpochView, node: Node) -> str:
        """Empty once exactly the named guard promises, synced, that this epoch never starts on it; else why it does not.

        That nothing runs now is not enough: a call that broke off may be under way still, and so may another controller's.
        A guard that does not know the verb promises nothing.
        """
        self.book.intend("decline", epoch=running.epoch, target=node.name)
        try:
            answer = await self.fleet.ask(
                node, "decline", {"uid": self.job.uid, "epoch": running.epoch}, timeout_s=DECLINE_S
            )
        except ReprieveError as error:
            return f"its guard cannot be asked to decline it ({error.message})"
        named = answer.get("guard") == running.guard
        good = named and answer.get("declined") is True
        self.book.observe("decline", epoch=running.epoch, target=node.name, declined=good)
        if good:
            return ""
        return "its guard says that it was begun there" if named else "another guard answers there"

    def no_promise(self, running: EpochView, node: Node, what: str) -> NoProofError:
        """The one line for an epoch of which nothing tells whether it may still begin."""
        name = self.job.name
        word = word_hint(name, GuardWord("absent"), self.wish.to, self.wish.checkpoint)
        return NoProofError(
            f"job {name}: epoch {running.epoch} may still begin on {node.name}: {what}; nothing was started elsewhere",
            hint=f"an older guard learns to decline by `reprieve fleet install {node.name}`; {word}",
        )

    def answered(self, epoch: int, target: str, answer: dict[str, Any]) -> None:
        """Take the node's outcome down; a failure is told at once."""
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
            ahead_bytes=answer.get("ahead_bytes"),
            moved_bytes=answer.get("moved_bytes"),
        )
        if state == "failed":
            self.on_step(f"{target}: restore failed: {error}")
            self.fleet.tell(
                "restore.failed", f"restore on {target} failed: {error}", node=target, job=self.job.name
            )

"""The end of a restore: what it cost and where the job lives now, kept for good."""

from __future__ import annotations

from dataclasses import asdict

from backends.errors import ReprieveError
from backends.ledger.records import JobCurrent, Reclaim
from console.operations.common.costs import Costs, frozen_at, measure
from console.operations.common.witness import Evidence
from console.operations.decide.restore import Step
from console.operations.flows.attempt import Attempt
from console.operations.flows.wish import Restored


class Ending(Attempt):
    """Records costs, attests, tells."""

    async def finish(self, evidence: Evidence, step: Step) -> Restored:
        """Record what it cost and where the job lives now."""
        running, status = evidence.running, evidence.status
        if running is None or status is None:
            raise ReprieveError(f"job {self.job.name}: its guard gave no status")
        named = self.named.get(running.nonce or "")
        costs = measure(self.fleet, self.book, named)
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
            costs.gap_s,
            len(self.failed),
            tuple(self.notes),
            costs.least_lost_s,
            self.proof_kind() == "word",
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
                None if named is None else frozen_at(self.fleet, named),
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

    def proof_kind(self) -> str:
        """What proved the old process gone at the first claim; empty without one."""
        claims = self.book.intended("claim")
        return str(claims[0]["proof"]["kind"]) if claims else ""

    def cause(self) -> str:
        """Why the job had to come back: a machine that its provider took is a reclaim, whoever asked for the restore."""
        taken = self.proof_kind() == "cloud"
        return "reclaim" if taken and self.wish.cause in ("operator", "batch") else self.wish.cause

    def keep(self, result: Restored, costs: Costs) -> None:
        """Put the costs into the ledger and the news into the history."""
        begin = self.book.first("begin")
        from_name = begin.data["from_node"] if begin else None
        from_node = self.fleet.records.nodes().get(from_name or "")
        self.fleet.ledger.put_reclaim(
            Reclaim(
                key=f"{self.book.run}/{self.book.item}",
                at=begin.data["detected_at"] if begin else self.fleet.clock.wall(),
                job=result.job,
                uid=result.uid,
                from_node=from_name,
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
                cause=self.cause(),
                pool=from_node.pool if from_node is not None else None,
            )
        )
        text = f"{result.job} came back on {result.node} from {result.checkpoint}"
        if result.by_word:
            text += f"; lost work {result.lost}"
        self.fleet.tell(
            "restore.done",
            text,
            node=result.node,
            job=result.job,
            data={**asdict(result), "notes": list(result.notes)},
        )

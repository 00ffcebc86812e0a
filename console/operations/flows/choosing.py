"""Which checkpoint, and which node."""

from __future__ import annotations

from backends.errors import IncompatibleError, NoProofError
from backends.ledger.records import Word
from backends.records.job import Job
from backends.records.node import Node
from console.operations.common.candidates import find_place
from console.operations.common.restarters import PROPERTY, ask_restarter, remedy_line, scaling_group
from console.operations.common.witness import Evidence
from console.operations.decide.restore import extra_loss_text
from console.operations.fleet import Fleet
from console.operations.flows.attempt import Attempt
from console.operations.truth import Choice, SaveView


def tell_fallback(fleet: Fleet, job: Job, choice: Choice, kind: str) -> str | None:
    """Keep in the history that newer checkpoints were passed over; the sentence, None when none was."""
    if not choice.skipped:
        return None
    note = extra_loss_text([name for name, _ in choice.skipped], choice.extra_loss_s)
    fleet.tell(kind, note, job=job.name, data={"skipped": dict(choice.skipped)})
    return note


class Choosing(Attempt):
    """Chooses on the chain and through the gate."""

    async def ask_others(self) -> None:
        """Nothing is restored that its scheduler starts again by itself, or may for all we know.

        Raises:
            NoProofError: it will, it did, or it cannot be asked; unless the operator has set that aside.
        """
        known = self.fleet.ledger.jobs().get(self.job.uid)
        if self.wish.cause == "move" or known is None:
            return  # a job that was stopped has ended for its scheduler too
        group = await scaling_group(self.fleet, self.fleet.records.nodes().get(known.node or ""))
        if group is not None and group.detail not in self.notes:
            self.notes.append(group.detail)
            self.on_step(group.detail)
        answer = await ask_restarter(self.fleet, known.status.get("restarter"))
        if answer is None or answer.word == "no":
            return
        reason = self.wish.force.get(PROPERTY)
        if reason is None:
            raise NoProofError(
                f"job {self.job.name} was not restored: {answer.detail}: it would run twice",
                hint=remedy_line(self.job.name, answer),
            )
        note = f"{answer.detail}; set aside: {reason}"
        if note not in self.notes:
            self.notes.append(note)
            self.on_step(note)
            self.fleet.tell("restore.restarter", note, job=self.job.name)

    async def choose(self) -> Choice:
        """The checkpoint to go on from, verified; IncompatibleError when none can be used. A fall-back is told."""
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
                tell_fallback(self.fleet, self.job, choice, "restore.fallback")
        self.trusted |= {choice.chosen.checkpoint}
        return choice

    async def place(self, save: SaveView | None, evidence: Evidence) -> Node:
        """A node that fits and was not tried yet; IncompatibleError with every node's reason otherwise."""
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
            force={name: why for name, why in self.wish.force.items() if name != PROPERTY},
            hearing=self.wish.hearing,
            reserve=True,
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
        self.keep_overrides(placement.node, placement.overridden)
        return self.fleet.node(placement.node)

    def keep_overrides(self, node: str, overridden: dict[str, str]) -> None:
        """What the operator set aside, with the reason, goes into the record before anything is claimed on it."""
        for name, reason in sorted(overridden.items()):
            note = f"{name} set aside on {node}: {reason}"
            if note in self.notes or any(data["note"] == note for data in self.book.observed("override")):
                continue
            self.book.observe("override", note=note)
            self.notes.append(note)
            now, who = self.fleet.clock.wall(), self.fleet.who
            self.fleet.ledger.add_word(Word(now, who, "accept", self.job.name, self.job.uid, None, note))
            data = {"property": name, "reason": reason}
            self.fleet.tell("restore.override", note, node=node, job=self.job.name, data=data)

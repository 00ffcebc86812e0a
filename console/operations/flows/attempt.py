"""One restore of one job: what it works on and what its journal remembers of earlier lives of this program."""

from __future__ import annotations

from typing import Any

from console.operations.common.runs import Notebook
from console.operations.fleet import Fleet
from console.operations.flows.wish import OnStep, RestoreWish


class Attempt:
    """The common ground of all steps of a restore."""

    def __init__(self, fleet: Fleet, wish: RestoreWish, book: Notebook, on_step: OnStep) -> None:
        self.fleet, self.wish, self.book, self.on_step = fleet, wish, book, on_step
        self.job = wish.job
        self.truth = fleet.truth(wish.job)
        self.key = fleet.job_key(wish.job.uid)
        self.waited_s = 0.0
        self.broken = 0  # calls in a row that broke off on a node that answers
        self.claim_first_seen: tuple[int, float] = (0, 0.0)
        self.trusted: frozenset[str] = wish.trusted
        self.notes: list[str] = []
        self.warned: set[tuple[str, str]] = set()

    @property
    def claims(self) -> dict[int, str]:
        """Epoch → nonce of every claim we intended."""
        return {data["epoch"]: data["nonce"] for data in self.book.intended("claim")}

    @property
    def failed(self) -> dict[int, str]:
        """Epoch → reason of every restore that its node called failed."""
        return {
            data["epoch"]: data["error"] for data in self.book.observed("ask") if data["state"] == "failed"
        }

    @property
    def named(self) -> dict[str, dict[str, Any]]:
        """Nonce → data of every continues we intended."""
        return {data["nonce"]: data for data in self.book.intended("continues")}

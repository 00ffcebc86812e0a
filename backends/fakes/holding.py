"""A fake guard's part in a group save: it freezes at the instant, and lets go by itself when the word does not come."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from backends.errors import EngineError
from backends.fakes.held import HeldJob
from backends.fakes.world import FakeWorld

Document = dict[str, Any]


@dataclass
class FakeHold:
    """One job that stands still for its group."""

    identity: str
    until: float  # virtual monotonic seconds
    over: bool = False


class GroupVerbs:
    """`clock`, `hold` and `release`."""

    name: str
    guard: str
    world: FakeWorld
    dead: bool
    outcomes: dict[str, Document]
    holds: dict[str, FakeHold]  # by job uid
    boot_ahead_s: float  # its boot clock minus the world's
    dump_takes_s: float
    hold_failures: list[str]  # next holds fail with these messages

    def _held(self, name: str) -> HeldJob:
        raise NotImplementedError

    def save_now(self, held: HeldJob) -> str | None:
        """One save now."""
        raise NotImplementedError

    def boot(self) -> float:
        """Its boot clock."""
        return self.world.clock.monotonic() + self.boot_ahead_s

    async def clock(self, document: Document) -> Document:
        """What its boot clock says."""
        return {"guard": self.guard, "boot_s": self.boot()}

    async def hold(self, document: Document) -> Document:
        """Freeze at the instant, save, stay."""
        request = document["request"]
        if request in self.outcomes:
            return self.outcomes[request]
        held = self._held(document["job"])
        process = held.process
        if process is None or not process.alive or process.frozen:
            raise EngineError(f"job {held.job.name} does not run on {self.name}")
        left = document["at"] - self.boot()
        answer: Document = {"state": "failed", "froze": None, "late": left < 0, "error": "it came too late"}
        if left >= 0:
            await asyncio.sleep(left)
            if self.dead:
                return answer
            if self.hold_failures:
                answer["error"] = self.hold_failures.pop(0)
            else:
                began = self.boot()
                process.frozen = True
                limit_s = min(document["hold_s"], 0.8 * held.job.max_freeze_s)
                self.holds[held.job.uid] = FakeHold(document["group"], self.world.clock.monotonic() + limit_s)
                self.world.moment(f"frozen {held.job.name}")
                await asyncio.sleep(self.dump_takes_s)
                answer = {"state": "held", "froze": [began, began + 0.001], "late": False, "error": None}
        self.outcomes[request] = answer
        return answer

    async def release(self, document: Document) -> Document:
        """The word."""
        request = document["request"]
        if request in self.outcomes:
            return self.outcomes[request]
        held = self._held(document["job"])
        self.expire()
        hold = self.holds.get(held.job.uid)
        answer: Document = {"state": "dropped", "checkpoint": None, "error": "nothing is held"}
        if hold is not None and hold.identity == document["group"] and not hold.over:
            self._let_go(held.job.uid, hold)
            if document["keep"]:
                checkpoint = self.save_now(held)
                answer = {
                    "state": "saved" if checkpoint else "failed", "checkpoint": checkpoint, "freeze_s": 0.1,
                    "size_bytes": 1000, "upload_s": 0.2, "error": None if checkpoint else held.error or held.state,
                }  # fmt: skip
        self.outcomes[request] = answer
        return answer

    def expire(self) -> None:
        """Let go what has stood for too long."""
        for uid, hold in self.holds.items():
            if not hold.over and self.world.clock.monotonic() >= hold.until:
                self._let_go(uid, hold)

    def _let_go(self, uid: str, hold: FakeHold) -> None:
        hold.over = True
        for process in self.world.processes:
            if process.uid == uid and process.node == self.name and process.alive:
                process.frozen = False

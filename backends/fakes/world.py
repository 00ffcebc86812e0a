"""A small world for tests: processes that live on fake nodes, and who may commit for them.

`StoreSide` is what a fake guard asks of the store; tests pass one that writes real checkpoints or one in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from backends.fakes.clock import FakeClock


class StoreSide(Protocol):
    """The store as a guard sees it. Raises StoreError subclasses."""

    def commit(self, uid: str, epoch: int, node: str, frozen_at: float) -> str:
        """Commit one save of `epoch` and return its checkpoint id."""
        ...

    def newest_epoch(self, uid: str) -> int:
        """The highest claimed epoch."""
        ...

    def may_start(self, uid: str, epoch: int, guard: str, nonce: str) -> bool:
        """Does a valid continues of the highest epoch name this guard with this nonce?"""
        ...

    def readable(self, uid: str, checkpoint: str) -> bool:
        """Is this checkpoint whole?"""
        ...


@dataclass
class FakeProcess:
    """One incarnation of a job."""

    uid: str
    epoch: int
    node: str
    pid: int
    started_at: float  # virtual monotonic seconds
    alive: bool = True
    frozen: bool = False
    continues: str = "genesis"


@dataclass
class FakeWorld:
    """All processes there ever were; `moment` is called around every act, so that a test can crash its caller there."""

    clock: FakeClock
    store: StoreSide
    processes: list[FakeProcess] = field(default_factory=list)
    moment: Callable[[str], None] = lambda label: None
    next_pid: int = 100

    def spawn(self, uid: str, epoch: int, node: str, continues: str) -> FakeProcess:
        """Start an incarnation."""
        self.next_pid += 1
        process = FakeProcess(uid, epoch, node, self.next_pid, self.clock.monotonic(), continues=continues)
        self.processes.append(process)
        return process

    def live(self, uid: str) -> list[FakeProcess]:
        """Incarnations of `uid` that run: alive and not frozen."""
        return [each for each in self.processes if each.uid == uid and each.alive and not each.frozen]

    def starts(self, uid: str, epoch: int) -> int:
        """How often `epoch` of `uid` was started anywhere."""
        return sum(1 for each in self.processes if each.uid == uid and each.epoch == epoch)

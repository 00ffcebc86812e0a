"""What the controller does for stores by itself: reads checkpoints back, and deletes what retention lets go.

A node's credentials cannot delete, and what a node says of its own saves is not believed: both are the controller's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from backends.errors import ReprieveError, UnreachableError
from backends.records.job import Job
from console.operations.common.escrow import prove_escrow
from console.operations.common.rates import job_rate, tell_rate
from console.operations.common.scrubs import scrubs, tell_scrub
from console.operations.decide.upkeep import Check, first_whole, may_retain, may_scrub, samples, scrub_due
from console.operations.fleet import Fleet
from console.operations.truth import SaveView

RETAIN_EVERY_S = 3600.0
SCRUB_EVERY_S = 86400.0
ESCROW_EVERY_S = 86400.0
FIRST_S = 60.0  # a controller that just started looks after lost jobs first
RATE_CHANGE = 0.1  # share by which a rate must have changed to be told again
AGAIN_S = 600.0  # between two looks for checks that are due


@dataclass
class Upkeep:
    """Rounds over all jobs, one after the other; `told` hears what was done, `alert` what is wrong (uid, text)."""

    fleet: Fleet
    told: Callable[[str], None]
    alert: Callable[[str, str], None]
    retain_every_s: float = RETAIN_EVERY_S  # 0: never
    scrub_every_s: float = SCRUB_EVERY_S  # 0: never
    stopping: bool = False
    _task: asyncio.Task[None] | None = None
    _looked_at: float | None = None
    _rates: dict[str, tuple[int | None, float]] = field(
        default_factory=dict
    )  # uid → epoch and rate told to it
    _retained_at: dict[str, float] = field(default_factory=dict)  # uid → monotonic
    _proven_at: dict[str, float] = field(default_factory=dict)  # uid → monotonic

    def tick(self) -> None:
        """Begin a round when one is due; called at every look."""
        now = self.fleet.clock.monotonic()
        if self._looked_at is None:
            self._looked_at = now + FIRST_S - AGAIN_S
        if now - self._looked_at < min(AGAIN_S, self.retain_every_s or AGAIN_S):
            return
        if self._task is None or self._task.done():
            self._looked_at = now
            self._task = asyncio.create_task(self.round())

    async def close(self) -> None:
        """Call off what is under way; a half-read checkpoint counts as not looked at."""
        self.stopping = True
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def round(self) -> None:
        """Check and retain every job for which it is due."""
        for job in self.fleet.jobs().values():
            if self.stopping:
                return
            current = self.fleet.ledger.jobs().get(job.uid)
            if not job.uid or current is None:
                continue
            try:
                if may_scrub(current.state):
                    await self._scrub(job)
                if may_retain(current.state):
                    await self._escrow(job, current.node)
                    await self._retain(job)
                    await self._rate(job, current.epoch)
            except ReprieveError as error:
                self.alert(
                    job.uid, f"job {job.name}: its checkpoints cannot be looked after: {error.message}"
                )

    async def _escrow(self, job: Job, where: str | None) -> None:
        """Once a day, and after each start of a controller: the key kept here opens what the guard seals."""
        now = self.fleet.clock.monotonic()
        last = self._proven_at.get(job.uid)
        if where is None or (last is not None and now - last < ESCROW_EVERY_S):
            return
        try:
            await prove_escrow(self.fleet, job, self.fleet.node(where))
        except UnreachableError:
            return  # a silent node is told elsewhere; the next round asks again
        except ReprieveError as error:
            text = f"job {job.name}: its key could not be proven against {where}: {error.message}"
            self.alert(job.uid, text)
            self.fleet.tell("escrow.failed", text, node=where, job=job.name)
        self._proven_at[job.uid] = now

    async def _scrub(self, job: Job) -> None:
        """The newest whole checkpoint in full, unless it was verified before; then samples of older ones."""
        fleet = self.fleet
        known = scrubs(fleet.ledger, job)
        if not scrub_due(known, fleet.clock.wall(), self.scrub_every_s):
            return
        saves = await fleet.blocking(fleet.truth(job).saves, job.uid, fleet.job_key(job.uid))
        for check in first_whole(saves, known):
            if await self._check(job, check):
                break
        for check in samples(saves, known):
            await self._check(job, check)

    async def _check(self, job: Job, check: Check) -> bool:
        save = await check_one(self.fleet, job, check.checkpoint, check.sample, lambda: not self.stopping)
        if not save.usable:
            self.alert(job.uid, f"checkpoint {check.checkpoint} of job {job.name} is damaged: {save.reason}")
        return save.usable

    async def _retain(self, job: Job) -> None:
        now = self.fleet.clock.monotonic()
        last = self._retained_at.get(job.uid)
        if self.retain_every_s <= 0 or (last is not None and now - last < self.retain_every_s):
            return
        self._retained_at[job.uid] = now
        plan = await retain(self.fleet, job, dry_run=False)
        if plan["delete"]:
            names = ", ".join(plan["delete"])
            text = f"{job.name}: retention deleted {names} ({plan.get('freed_bytes', 0) / 2**20:.1f} MiB)"
            self.told(text)
            self.fleet.tell("retention.done", text, job=job.name, data={"deleted": plan["delete"]})

    async def _rate(self, job: Job, epoch: int | None) -> None:
        """A guard whose interval is `auto` needs the rate: told anew to each epoch, and when it has changed."""
        rate = job_rate(self.fleet, job) if job.interval_s is None else None
        told = self._rates.get(job.uid)
        if rate is None or (
            told is not None and told[0] == epoch and abs(rate["per_hour"] - told[1]) <= RATE_CHANGE * told[1]
        ):
            return
        if await tell_rate(self.fleet, job) is not None:
            self._rates[job.uid] = (epoch, rate["per_hour"])


async def check_one(
    fleet: Fleet, job: Job, checkpoint: str, sample: float | None, wanted: Callable[[], bool] = lambda: True
) -> SaveView:
    """Read one checkpoint back and keep what was found; `usable` and `reason` say it.

    Only a full check makes it `verified`: a sample says little of what it did not read.

    Raises:
        StoreError: the store cannot be read, or `wanted` said no; nothing is known.
    """
    truth, started = fleet.truth(job), fleet.clock.monotonic()
    save: SaveView = await fleet.blocking(
        truth.verify, job.uid, checkpoint, fleet.job_key(job.uid), sample=sample, wanted=wanted
    )
    seconds = fleet.clock.monotonic() - started
    reason = "" if save.usable else save.reason or "it does not verify"
    scrub = tell_scrub(fleet, job, checkpoint, sample, reason, seconds)
    if sample is None and scrub.whole:
        data = {"by": fleet.who, "seconds": seconds, "how": scrub.how}
        await fleet.blocking(truth.mark, job.uid, checkpoint, "verified", data)
    return save


async def retain(
    fleet: Fleet,
    job: Job,
    *,
    dry_run: bool,
    keep_last: int | None = None,
    min_age_s: float | None = None,
    shown: tuple[str, ...] | None = None,
) -> dict[str, Any]:
    """One job's retention by its own policy, or another; the plan, see `Truth.prune`."""
    return await fleet.blocking(
        fleet.truth(job).prune,
        job.uid,
        fleet.job_key(job.uid),
        keep_last=job.keep_last if keep_last is None else keep_last,
        min_age_s=job.min_age_s if min_age_s is None else min_age_s,
        dry_run=dry_run,
        shown=shown,
    )

"""Seeded Monte Carlo of a job on nodes of any life, with waits for capacity and a price that moves.

For what has no closed form: empirical lifetimes, waits that differ, price series; and as a check of the closed forms. All
runs go round by round: in each round every unfinished run gets one fresh node. Times are hours, prices USD per hour.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from planner.makespan import piece_count

Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]
MOST_ROUNDS = 100_000


@dataclass(frozen=True)
class Job:
    """What runs, and how it is saved; `interval_hours` None is no saves: after a reclaim it starts over."""

    hours: float
    interval_hours: float | None = None
    save_hours: float = 0.0
    restore_hours: float = 0.0
    upload_hours: float = 0.0  # overlaps the work; a save counts once it has ended


@dataclass(frozen=True)
class Prices:
    """A price that holds from each time to the next; the last one for ever."""

    times_hours: tuple[float, ...] = (0.0,)  # ascending, from 0
    usd_per_hour: tuple[float, ...] = (0.0,)

    def paid(self, begin: Floats, end: Floats) -> Floats:
        """USD for each span of wall time."""
        return self._until(end) - self._until(begin)

    def _until(self, when: Floats) -> Floats:
        times, prices = np.array(self.times_hours), np.array(self.usd_per_hour)
        totals = np.concatenate(([0.0], np.cumsum(np.diff(times) * prices[:-1])))
        at = np.clip(np.searchsorted(times, when, side="right") - 1, 0, len(times) - 1)
        paid: Floats = totals[at] + (when - times[at]) * prices[at]
        return paid


@dataclass(frozen=True)
class World:
    """Where it runs: lives of nodes, waits for the next one, prices."""

    lives: Draw
    waits: Draw = field(default=lambda rng, count: np.zeros(count))
    prices: Prices = Prices()


@dataclass(frozen=True)
class Runs:
    """One value a run; `unfinished` counts those that were given up."""

    billed_hours: Floats
    wall_hours: Floats
    reclaims: Floats
    usd: Floats
    unfinished: int

    def mean_and_error(self, values: Floats) -> tuple[float, float]:
        """Mean of a column and its standard error."""
        return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def exponential(rate_per_hour: float) -> Draw:
    """Memoryless lives."""
    return lambda rng, count: rng.exponential(1.0 / rate_per_hour, count)


def constant(hours: float) -> Draw:
    """The same every time."""
    return lambda rng, count: np.full(count, hours)


def empirical(sample: npt.ArrayLike) -> Draw:
    """Draws from observed values, with replacement. Raises ValueError for an empty sample or a negative value."""
    values = np.asarray(sample, dtype=float)
    if values.size == 0 or not (values >= 0).all():
        raise ValueError("an empirical law needs at least one value, none negative")
    return lambda rng, count: rng.choice(values, count)


def weibull(shape: float, scale_hours: float) -> Draw:
    """Lives with S(t) = exp(-(t/η)^k)."""
    return lambda rng, count: scale_hours * rng.weibull(shape, count)


def simulate(job: Job, world: World, *, runs: int, seed: int, give_up_hours: float = 1e6) -> Runs:
    """Run a job `runs` times from one seed; a run is given up after `give_up_hours` of wall time."""
    rng = np.random.default_rng(seed)
    billed, wall, usd = np.zeros(runs), np.zeros(runs), np.zeros(runs)
    reclaims, durable = np.zeros(runs), np.zeros(runs)
    active, lead = np.arange(runs), 0.0
    for _ in range(MOST_ROUNDS):
        if len(active) == 0:
            break
        life = world.lives(rng, len(active))
        left = lead + remaining_hours(job, durable[active])
        ends = life >= left
        spent = np.where(ends, left, life)
        begin = wall[active]
        usd[active] += world.prices.paid(begin, begin + spent)
        billed[active] += spent
        wall[active] += spent
        durable[active] += np.where(ends, 0.0, durable_saves(job, life - lead, durable[active]))
        active = active[~ends]
        reclaims[active] += 1.0
        wall[active] += world.waits(rng, len(active))
        lead = job.restore_hours if job.interval_hours is not None else 0.0
        active = active[wall[active] < give_up_hours]
    unfinished = int((wall >= give_up_hours).sum()) + (len(active) or 0)
    return Runs(billed, wall, reclaims, usd, unfinished)


def _pieces(job: Job) -> int:
    """Pieces of definition 3: a last save that could not end before the work does is dropped."""
    if job.interval_hours is None:
        return 1
    pieces = piece_count(job.hours, job.interval_hours)
    last = job.hours - (pieces - 1) * job.interval_hours
    return pieces - 1 if job.upload_hours > 0 and pieces >= 2 and last <= job.upload_hours else pieces


def remaining_hours(job: Job, durable: Floats) -> Floats:
    """Time to the end without a reclaim, from the newest durable save."""
    if job.interval_hours is None:
        return np.full(len(durable), job.hours)
    saves = _pieces(job) - 1 - durable
    left: Floats = job.hours - durable * job.interval_hours + saves * job.save_hours
    return left


def durable_saves(job: Job, time: Floats, before: Floats) -> Floats:
    """Saves that became durable in `time` of running."""
    if job.interval_hours is None:
        return np.zeros(len(time))
    done = np.floor((time - job.upload_hours) / (job.interval_hours + job.save_hours))
    return np.clip(done, 0.0, _pieces(job) - 1 - before)

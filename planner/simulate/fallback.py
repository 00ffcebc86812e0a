"""Spot with on-demand as a fallback against a deadline, by seeded Monte Carlo.

The job runs on spot while even one more reclaim at the worst moment would leave time to finish on demand; after a reclaim
that leaves less, it goes on-demand for good, from its newest durable save. On-demand is taken as always to be had and
never reclaimed. The deadline is then always met when it can be met at all; what is asked is the cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.plan.costs import Bill
from planner.plan.inputs import PlanInputs
from planner.simulate.runs import Job, World, constant, durable_saves, exponential, remaining_hours

RUNS, SEED = 20_000, 1
MOST_RECLAIMS = 500.0  # expected: each is a round of the simulation


@dataclass(frozen=True)
class Fallback:
    """What the policy costs, in on-demand hours."""

    cost_in_on_demand_hours: float
    standard_error: float
    p_switch: float  # share of runs that ended on demand
    saving_fraction: float


def with_fallback(inputs: PlanInputs, bill: Bill) -> Fallback | None:
    """The policy on this plan; None without saves or deadline, when the work does not fit, or with too many reclaims."""
    if inputs.deadline is None or inputs.no_resume or inputs.lost is not None or bill.rate_per_hour <= 0:
        return None
    if not bill.reclaims <= MOST_RECLAIMS:
        return None
    restore = inputs.effective_restore_hours or 0.0
    if inputs.deadline < inputs.hours + restore:
        return None
    save, upload = inputs.save_hours or 0.0, inputs.upload_hours if bill.interval_hours else 0.0
    job = Job(inputs.hours, bill.interval_hours, save, restore, upload)
    world = World(exponential(bill.rate_per_hour), constant(inputs.effective_wait_hours))
    return _race(job, world, inputs.deadline, 1.0 - inputs.d)


def _race(job: Job, world: World, deadline: float, price: float) -> Fallback:
    rng = np.random.default_rng(SEED)
    wall, cost, durable = np.zeros(RUNS), np.zeros(RUNS), np.zeros(RUNS)
    switched = np.zeros(RUNS, dtype=bool)
    active, lead = np.arange(RUNS), 0.0
    piece = job.hours if job.interval_hours is None else job.interval_hours
    while len(active):
        done = durable[active] * (piece if job.interval_hours is not None else 0.0)
        wait = world.waits(rng, len(active)) if lead or wall[active].any() else np.zeros(len(active))
        worst = wait + lead + piece + job.save_hours + job.upload_hours  # one more try, lost at its end
        leave = wall[active] + worst + job.restore_hours + job.hours - done > deadline
        gone = active[leave]
        cost[gone] += (job.restore_hours if lead else 0.0) + job.hours - done[leave]
        switched[gone] = True
        active, wait = active[~leave], wait[~leave]
        life = world.lives(rng, len(active))
        left = lead + remaining_hours(job, durable[active])
        ends = life >= left
        spent = np.where(ends, left, life)
        cost[active] += price * spent
        wall[active] += wait + spent
        durable[active] += np.where(ends, 0.0, durable_saves(job, life - lead, durable[active]))
        active, lead = active[~ends], job.restore_hours
    mean, error = float(cost.mean()), float(cost.std(ddof=1) / np.sqrt(RUNS))
    return Fallback(mean, error, float(switched.mean()), 1.0 - mean / job.hours)

"""When to save on nodes that are not memoryless: the age-aware schedule, by dynamic programming.

State: work units left since the last save, and the node's age a. One exposure of i units takes w = iδ + C (no C after
the last). It is billed ∫ₐ^{a+w} S/S(a) in the mean and succeeds with q = S(a + w)/S(a); a failure starts a fresh node with
a restore of R that can itself be hit:

    V_j(a) = min_i [ (I(a+w) - I(a))/S(a) + q V_{j-i}(a + w) + (1 - q) F_j ],      F_j = I(R)/S(R) + V_j(R)

and, with the same i taken after every restart, F_j = min_i (I(R)/S(R) + m_i + q_i V_{j-i}(R + w_i))/q_i. Values between
ages of the grid are interpolated. Sources: the equations follow Kadupitiya, Jadhao, Sharma (HPDC'20) in idea; derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.lives.laws import Law

Floats = npt.NDArray[np.floating[Any]]
UNITS = 96


@dataclass(frozen=True)
class Schedule:
    """The best schedule, and the best fixed interval on the same lives."""

    expected_billed_hours: float
    steps: tuple[tuple[float, float], ...]  # (age of the node, work until the next save), without a reclaim
    fixed_interval_hours: float
    fixed_expected_billed_hours: float
    unit_hours: float
    choices: npt.NDArray[np.int64]  # [units left, age in units]: units until the next save

    def next_units(self, units_left: int, age_hours: float) -> int:
        """Units of work until the next save, for what is left and the node's age."""
        at = min(max(round(age_hours / self.unit_hours), 0), self.choices.shape[1] - 1)
        return int(self.choices[units_left][at]) or units_left


class _Grid:
    """Survival and its integral at the ages that exposures can start and end at."""

    def __init__(self, law: Law, hours: float, save: float, restore: float, units: int) -> None:
        self.units, self.unit = units, hours / units
        self.save, self.restore = save, restore
        reach = restore + hours + save * units
        self.count = math.ceil(min(reach, law.cap_hours) / self.unit) + 2
        self.ages = np.arange(self.count) * self.unit
        ends = np.arange(self.count + units + 1) * self.unit
        self.plain = _table(law, ends)
        self.saved = _table(law, ends + save)
        self.fresh_plain = _table(law, restore + np.arange(units + 1) * self.unit)
        self.fresh_saved = _table(law, restore + np.arange(units + 1) * self.unit + save)

    def exposure(self, i: int, last: bool) -> tuple[Floats, Floats, Floats]:
        """(mean billed hours, chance to succeed, age at the end) for a start at every age of the grid."""
        survival, integral = self.plain if last else self.saved
        now, since = self.plain[0][: self.count], self.plain[1][: self.count]
        alive = now > 0
        safe = np.where(alive, now, 1.0)
        billed = np.where(alive, (integral[i : i + self.count] - since) / safe, 0.0)
        chance = np.where(alive, survival[i : i + self.count] / safe, 0.0)
        return billed, chance, self.ages + i * self.unit + (0.0 if last else self.save)

    def fresh(self, i: int, last: bool) -> tuple[float, float, float]:
        """The same for a start right after a restore."""
        survival, integral = self.fresh_plain if last else self.fresh_saved
        now, since = self.fresh_plain[0][0], self.fresh_plain[1][0]
        if now <= 0:
            return 0.0, 0.0, 0.0
        end = self.restore + i * self.unit + (0.0 if last else self.save)
        return float((integral[i] - since) / now), float(survival[i] / now), end

    def restore_cost(self) -> float:
        """I(R)/S(R): billed hours until a restore has succeeded, failed ones included."""
        survival, integral = self.fresh_plain[0][0], self.fresh_plain[1][0]
        return math.inf if survival <= 0 else float(integral / survival)


def _table(law: Law, ages: Floats) -> tuple[Floats, Floats]:
    pairs = [(law.survival(age), law.integral(age)) for age in ages.tolist()]
    table = np.array(pairs)
    return table[:, 0], table[:, 1]


def age_aware(
    law: Law, hours: float, save_hours: float, restore_hours: float, *, units: int = UNITS
) -> Schedule:
    """The schedule for a job of `hours` that starts on a fresh node; work is cut into at most `units` equal units.

    Units are not much shorter than a save. Raises ValueError where a save costs more than the whole work, or a restore
    more than four times that: there is nothing to schedule.
    """
    if save_hours >= hours or restore_hours > 4.0 * hours:
        raise ValueError("a save or a restore costs more than the work itself")
    units = max(2, min(units, int(4.0 * hours / save_hours)))
    grid = _Grid(law, hours, save_hours, restore_hours, units)
    values, choices = _solve(grid, None)
    candidates = sorted({*range(1, min(units, 24) + 1), *range(24, units + 1, 4), units})
    fixed = {i: float(_solve(grid, i)[0][units][0]) for i in candidates}
    best = min(fixed, key=lambda i: fixed[i])
    steps = _walk(grid, choices)
    return Schedule(
        float(values[units][0]), steps, best * grid.unit, fixed[best], grid.unit, np.stack(choices)
    )


def _solve(grid: _Grid, only: int | None) -> tuple[list[Floats], list[npt.NDArray[np.int64]]]:
    """V_j and the best i for every j and age; with `only`, that i is always taken."""
    values: list[Floats] = [np.zeros(grid.count)]
    choices: list[npt.NDArray[np.int64]] = [np.zeros(grid.count, dtype=np.int64)]
    again = grid.restore_cost()
    for j in range(1, grid.units + 1):
        options = range(1, j + 1) if only is None else (min(only, j),)
        fresh = math.inf
        for i in options:
            billed, chance, end = grid.fresh(i, i == j)
            if chance > 0:
                later = float(np.interp(end, grid.ages, values[j - i]))
                fresh = min(fresh, (again + billed + chance * later) / chance)
        best, taken = np.full(grid.count, math.inf), np.zeros(grid.count, dtype=np.int64)
        for i in options:
            cost, chance_, ends = grid.exposure(i, i == j)
            later_ = np.interp(ends, grid.ages, values[j - i])
            with np.errstate(invalid="ignore"):
                total = cost + np.where(chance_ > 0, chance_ * later_, 0.0)
                total += np.where(chance_ < 1, (1.0 - chance_) * fresh, 0.0)
            better = total < best
            best, taken = np.where(better, total, best), np.where(better, i, taken)
        values.append(best)
        choices.append(taken)
    return values, choices


def _walk(grid: _Grid, choices: list[npt.NDArray[np.int64]]) -> tuple[tuple[float, float], ...]:
    """The choices along a life without a reclaim."""
    steps, left, age = list[tuple[float, float]](), grid.units, 0.0
    while left > 0:
        nearest = min(round(age / grid.unit), grid.count - 1)
        i = int(choices[left][nearest]) or left
        steps.append((age, i * grid.unit))
        left -= i
        age += i * grid.unit + (grid.save if left else 0.0)
    return tuple(steps)

"""The whole distribution of the makespan: the transform of each exposure on a lattice, inverted by one FFT.

numpy, loaded only by those who ask for a distribution. The atom at the failure-free time is kept exactly; the rest is
put on a lattice so that means are preserved (error of second order in the step).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.makespan import Exposure

Floats = npt.NDArray[np.float64]
_TILT = 1e-8  # |z|^N of the inversion circle: aliasing (below it) against rounding (1e-16 over it)


@dataclass(frozen=True)
class Law:
    """P(T = failure-free) and the CDF at failure-free + k · step."""

    failure_free_hours: float
    atom: float
    step_hours: float
    cdf: Floats  # shape (points + 1,), at slack 0, step, …

    def p_by(self, hours: float) -> float:
        """P(T ≤ hours), linear between lattice points; the law must reach that far."""
        slack = hours - self.failure_free_hours
        if slack < -1e-12 * max(1.0, hours):
            return 0.0
        grid = np.arange(len(self.cdf)) * self.step_hours
        return float(np.interp(max(slack, 0.0), grid, self.cdf))


def makespan_law(
    kinds: tuple[Exposure, ...],
    rate_per_hour: float,
    wait_hours: float,
    slack_hours: float,
    *,
    points: int = 4096,
) -> Law:
    """The law of wall time for slack from 0 to `slack_hours`, in `points` steps."""
    free = sum(kind.times * kind.hours for kind in kinds)
    step = slack_hours / points
    size = 1 << math.ceil(math.log2(2 * points))  # twice the slack asked for: only what wraps round aliases
    powers = np.exp(math.log(_TILT) / size * np.arange(size))
    atom = math.exp(-rate_per_hour * free)
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    for kind in kinds:
        if kind.times:
            product = product * _transform(kind, rate_per_hour, wait_hours, step, powers) ** kind.times
    mass = np.fft.irfft(product, size)[: points + 1] / powers[: points + 1]
    mass[0] -= atom  # continuous mass that the lattice put on slack 0
    cumulative = np.cumsum(mass)
    cdf = np.clip(atom + cumulative - 0.5 * mass, 0.0, 1.0)
    cdf[0] = atom
    return Law(free, atom, step, np.maximum.accumulate(cdf))


def _transform(
    kind: Exposure, rate: float, wait: float, step: float, powers: Floats
) -> npt.NDArray[np.complex128]:
    """Generating function of an exposure's slack: first try, then waits, failed tries, and the restore."""
    retry, size = kind.hours + kind.restore_hours, len(powers)
    first = np.fft.rfft(_truncated(rate, kind.hours, wait, step, size) * powers)
    again = np.fft.rfft(_truncated(rate, retry, wait, step, size) * powers)
    success = math.exp(-rate * retry)
    if success == 0:  # no retry ever gets through
        return np.full(size // 2 + 1, math.exp(-rate * kind.hours), dtype=np.complex128)
    restore = np.fft.rfft(_point(kind.restore_hours, step, size) * powers)
    return math.exp(-rate * kind.hours) + first * restore * success / (1.0 - again)


def _point(value: float, step: float, size: int) -> Floats:
    """Unit mass at `value`, split between two lattice points so that the mean is kept."""
    mass = np.zeros(size)
    index, share = divmod(value / step, 1.0)
    if index < size:
        mass[int(index)] += 1.0 - share
    if index + 1 < size:
        mass[int(index) + 1] += share
    return mass


def _truncated(rate: float, width: float, shift: float, step: float, size: int) -> Floats:
    """Defective mass λe^{-λx} on (0, width), moved by `shift`, each lattice cell split so that its mean is kept."""
    cells = min(math.ceil(width / step), size)
    edges = np.minimum(np.arange(cells + 1) * step, width)
    tail, span = np.exp(-rate * edges[:-1]), np.diff(edges)
    x = rate * span
    struck = -np.expm1(-x)
    weight = tail * struck
    # ∫ x λe^{-λx} over a cell, less its left edge; the closed form cancels where λ times a cell is small
    moment = np.where(x < 1e-4, x * span * (0.5 - x / 3.0), struck / rate - span * (1.0 - struck))
    right = tail * moment / step
    mass = np.zeros(size + 1)
    mass[:cells] += weight - right
    mass[1 : cells + 1] += right
    mass = mass[:size]
    index, share = divmod(shift / step, 1.0)
    moved = np.zeros(size)
    offset = int(index)
    if offset < size:
        moved[offset:] += (1.0 - share) * mass[: size - offset]
    if offset + 1 < size:
        moved[offset + 1 :] += share * mass[: size - offset - 1]
    return moved

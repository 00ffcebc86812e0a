"""Least-squares fits of lifetime laws to an empirical distribution: exponential and bathtub. numpy.

Points are (t, F). R² = 1 - Σ(F - F̂)²/Σ(F - F̄)².
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
BATHTUB_START = (0.45, 1.0, 0.8, 24.0)
BATHTUB_BOUNDS = ((0.05, 0.05, 0.05, 15.0), (1.0, 30.0, 30.0, 40.0))


@dataclass(frozen=True)
class Fit:
    """Parameters of the best curve found, and how much of the variance it explains."""

    parameters: tuple[float, ...]
    r_squared: float
    mean_squared_error: float


def fit_exponential(times: Floats, shares: Floats) -> Fit:
    """F = 1 - e^{-t/m}; the parameter is m, hours."""
    return _fit(lambda p: 1.0 - np.exp(-times / p[0]), shares, (float(times.mean()),), ((1e-3,), (1e4,)))


def fit_bathtub(times: Floats, shares: Floats) -> Fit:
    """F = A(1 - e^{-t/t1} + e^{(t-b)/t2}); parameters A, t1, t2, b (Kadupitiya, Jadhao, Sharma, HPDC'20)."""

    def curve(p: Floats) -> Floats:
        late = np.exp(np.minimum((times - p[3]) / p[2], 50.0))
        found: Floats = p[0] * (1.0 - np.exp(-times / p[1]) + late)
        return found

    return _fit(curve, shares, BATHTUB_START, BATHTUB_BOUNDS)


def _fit(
    curve: Callable[[Floats], Floats],
    shares: Floats,
    start: tuple[float, ...],
    bounds: tuple[tuple[float, ...], ...],
) -> Fit:
    """Levenberg and Marquardt's method with numerical slopes, kept inside `bounds`."""
    low, high = np.array(bounds[0]), np.array(bounds[1])
    point, damping = np.array(start), 1e-2
    residual = shares - curve(point)
    for _ in range(400):
        slopes = np.empty((len(shares), len(point)))
        for index in range(len(point)):
            step = np.zeros(len(point))
            step[index] = 1e-6 * max(abs(point[index]), 1e-3)
            slopes[:, index] = (curve(point + step) - curve(point - step)) / (2 * step[index])
        square = slopes.T @ slopes
        move = np.linalg.solve(square + damping * np.diag(np.diag(square) + 1e-12), slopes.T @ residual)
        trial = np.clip(point + move, low, high)
        after = shares - curve(trial)
        if after @ after < residual @ residual:
            done = residual @ residual - after @ after < 1e-14
            point, residual, damping = trial, after, max(damping / 4, 1e-12)
            if done:
                break
        else:
            damping *= 4
            if damping > 1e12:
                break
    spread = shares - shares.mean()
    errors = float(residual @ residual)
    return Fit(tuple(point.tolist()), 1.0 - errors / float(spread @ spread), errors / len(shares))

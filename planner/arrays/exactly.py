"""Functions on arrays that give the very bits of the scalar ones.

numpy's own exponentials may differ from `math` in the last place, by machine; these map `math` over the elements.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from planner import special

Floats = npt.NDArray[np.float64]


def mapped(function: Callable[[float], float], values: Floats) -> Floats:
    """`function` of every element, each distinct value computed once when values repeat much."""
    flat = values.ravel()
    if flat.size > 256:
        distinct, where = np.unique(flat, return_inverse=True)
        if distinct.size * 2 < flat.size:
            found = np.fromiter(map(function, distinct.tolist()), np.float64, distinct.size)
            return found[where].reshape(values.shape)
    return np.fromiter(map(function, flat.tolist()), np.float64, flat.size).reshape(values.shape)


def expm1(values: Floats) -> Floats:
    """e^x - 1, infinite instead of an overflow."""
    return mapped(special.expm1, values)


def exp(values: Floats) -> Floats:
    """e^x, infinite instead of an overflow."""
    return mapped(special.exp, values)

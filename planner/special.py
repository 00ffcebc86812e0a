"""Small numerical tools: safe exponentials, root finding, the incomplete gamma function. `math` only."""

from __future__ import annotations

import math
from collections.abc import Callable


def expm1(x: float) -> float:
    """e^x - 1; infinite instead of an overflow."""
    return math.inf if x > 709.0 else math.expm1(x)


def exp(x: float) -> float:
    """e^x; infinite instead of an overflow."""
    return math.inf if x > 709.7 else math.exp(x)


def log10_expm1(x: float) -> float:
    """log10(e^x - 1) for x > 0, also where e^x is beyond a double."""
    return (x + math.log(-math.expm1(-x))) / math.log(10.0)


def bisect(function: Callable[[float], float], low: float, high: float) -> float:
    """The root of an increasing `function` between positive `low` and `high`, to the last bits, in log scale.

    `function(low)` ≤ 0 ≤ `function(high)` is the caller's promise; infinite values are fine.
    """
    for _ in range(200):
        middle = math.sqrt(low) * math.sqrt(high)
        if not low < middle < high:
            break
        if function(middle) < 0:
            low = middle
        else:
            high = middle
    return low if abs(function(low)) < abs(function(high)) else high


def gamma_p(shape: float, x: float) -> float:
    """The regularised lower incomplete gamma function P(shape, x): the CDF of a Gamma(shape, 1) variable.

    Series below shape + 1, Lentz's continued fraction above; relative accuracy about 1e-14.
    """
    if x <= 0:
        return 0.0
    if math.isinf(x):
        return 1.0
    front = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    if x < shape + 1.0:
        term = total = 1.0 / shape
        divisor = shape
        while abs(term) > abs(total) * 1e-17:
            divisor += 1.0
            term *= x / divisor
            total += term
        return front * total
    return 1.0 - front * _continued(shape, x)


def _continued(shape: float, x: float) -> float:
    tiny = 1e-300
    b = x + 1.0 - shape
    c = 1.0 / tiny
    d = 1.0 / b
    fraction = d
    for index in range(1, 10_000):
        numerator = -index * (index - shape)
        b += 2.0
        d = numerator * d + b
        d = 1.0 / (d if abs(d) > tiny else tiny)
        c = b + numerator / c
        c = c if abs(c) > tiny else tiny
        delta = d * c
        fraction *= delta
        if abs(delta - 1.0) < 1e-16:
            break
    return fraction


def gamma_quantile(shape: float, probability: float) -> float:
    """The x with P(shape, x) = probability; 0 for probability 0."""
    if probability <= 0:
        return 0.0
    high = shape + 1.0
    while gamma_p(shape, high) < probability:
        high *= 2.0
    low = high
    while gamma_p(shape, low) > probability and low > 1e-300:
        low /= 2.0
    return bisect(lambda x: gamma_p(shape, x) - probability, max(low, 1e-300), high)

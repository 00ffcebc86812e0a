"""Laws of lifetimes by name, as typed: `weibull:k,η` and `bathtub:A,t1,t2,b`, all times in hours."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from planner.lives.lifetimes import Bathtub, FreshStarts, weibull_no_resume
from planner.plan.inputs import PlanError
from planner.special import gamma_p

_FORMS = "weibull:k,η or bathtub:A,t1,t2,b (times in hours)"


class Law(NamedTuple):
    """A law of the life of one fresh node."""

    words: str
    mean_hours: float
    cap_hours: float  # where the survival reaches 0; infinite for Weibull
    survival: Callable[[float], float]  # S(t)
    integral: Callable[[float], float]  # ∫₀ᵗ S
    no_resume: Callable[[float], FreshStarts]  # of a job of so many hours


def parse_law(text: str) -> Law:
    """The law that `text` names. Raises PlanError for anything else, naming the value and the form."""
    name, colon, rest = text.partition(":")
    numbers = _numbers(rest) if colon else None
    if numbers is not None and name == "weibull" and len(numbers) == 2:
        return weibull(*numbers)
    if numbers is not None and name == "bathtub" and len(numbers) == 4:
        return bathtub(*numbers)
    raise PlanError(f"--lifetime is {text[:60]!r}; {_FORMS} is expected, every number from 1e-9 to 1e9")


def _numbers(text: str) -> list[float] | None:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        return None
    return numbers if all(1e-9 <= number <= 1e9 for number in numbers) else None


def weibull(shape: float, scale_hours: float) -> Law:
    """S(t) = exp(-(t/η)^k): k below 1 for infant mortality, 1 memoryless, above 1 for wear."""
    if not 0.1 <= shape <= 20:
        raise PlanError(f"--lifetime: the shape k of weibull is {shape:g}; 0.1 to 20 is expected")
    mean = scale_hours * math.gamma(1.0 + 1.0 / shape)

    def survival(t: float) -> float:
        return math.exp(-((max(t, 0.0) / scale_hours) ** shape))

    def integral(t: float) -> float:
        return mean * gamma_p(1.0 / shape, (max(t, 0.0) / scale_hours) ** shape)

    words = f"Weibull, shape {shape:g}, scale {scale_hours:g} h"
    return Law(
        words, mean, math.inf, survival, integral, lambda hours: weibull_no_resume(hours, shape, scale_hours)
    )


def bathtub(share: float, early_hours: float, late_hours: float, late_at_hours: float) -> Law:
    """F(t) = A(1 - e^{-t/t1} + e^{(t-b)/t2}) until it reaches 1."""
    if share >= 1:
        raise PlanError(f"--lifetime: the share A of bathtub is {share:g}; less than 1 is expected")
    ceiling = late_at_hours + late_hours * max(0.0, math.log(1.0 / share))  # where the late term alone is 1
    law = Bathtub(share, early_hours, late_hours, late_at_hours, cap_hours=ceiling)
    words = f"bathtub, A {share:g}, t1 {early_hours:g} h, t2 {late_hours:g} h, b {late_at_hours:g} h"
    return Law(
        words, law.survival_integral(ceiling), law.effective_cap_hours, law.survival, law.survival_integral,
        law.no_resume,
    )  # fmt: skip

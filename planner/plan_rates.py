"""Where the rate of a plan comes from: the user's r or λ, a published band with its basis, or own history."""

from __future__ import annotations

from dataclasses import dataclass

from planner import hazards
from planner.plan_inputs import PlanError, PlanInputs


@dataclass(frozen=True)
class Rates:
    """Rates per hour of the whole gang. `top` is None when the user gave r: the rate then follows from it."""

    top: float | None
    low: float | None  # None: no range is known
    high: float | None
    published: bool  # the range comes from a published figure or history, so the interval is the minimax one
    history: dict[str, object] | None
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]


BASIS_WORDS = {
    "month": "share of instances reclaimed in a month (720 h)",
    "hour": "share of instances reclaimed in an hour",
    "launch": "share of launches that ended in a reclaim",
}


def band_rates(inputs: PlanInputs) -> tuple[float, float] | None:
    """(low, high) per node-hour of the band, edges from its label; None without a band."""
    if inputs.band is None or inputs.band_basis is None:
        return None
    try:
        low, high = hazards.band_edges(inputs.band)
    except ValueError as error:
        raise PlanError(f"--band: {error}") from None
    basis, run = inputs.band_basis, inputs.mean_run
    return hazards.rate_of_share(low, basis, run), hazards.rate_of_share(high, basis, run)


def resolve(inputs: PlanInputs) -> Rates:
    """Decide which figure wins and what range stands beside it."""
    band = band_rates(inputs)
    assumptions, warnings = [], []
    if band is not None and inputs.band_basis is not None:
        assumptions.append(f"band {inputs.band} read as {BASIS_WORDS[inputs.band_basis]}")
    if inputs.history_node_hours is not None and inputs.rate is None and inputs.reclaims is None:
        return _from_history(inputs, band, assumptions)
    nodes = inputs.nodes
    if inputs.reclaims is None and inputs.rate is None:
        if band is None:
            raise PlanError("a rate, a number of reclaims or a band is needed")
        assumptions.append("figures are for the high end of the band")
        return Rates(nodes * band[1], band[0], nodes * band[1], True, None, tuple(assumptions), ())
    top = None if inputs.rate is None else nodes * inputs.rate
    low, high = band or (None, None)
    if band is not None:
        warnings.append(_beside(inputs, band))
    elif top is not None and nodes > 1:
        low, high = inputs.rate, top
    if nodes > 1 and top is not None:
        assumptions.append(
            f"{nodes} nodes stop together; reclaims of different nodes taken as independent at the top level"
        )
    shown_high = None if high is None else (nodes * high if band is not None else high)
    return Rates(top, low, shown_high, False, None, tuple(assumptions), tuple(warnings))


def _beside(inputs: PlanInputs, band: tuple[float, float]) -> str:
    """What a band says beside the user's own figure."""
    given = "--reclaims" if inputs.reclaims is not None else "--rate"
    text = f"{given} was given, so the band {inputs.band} only fills the range"
    if inputs.reclaims is not None and inputs.reclaims > 0:
        most = inputs.nodes * band[1] * inputs.hours
        if inputs.reclaims > most:
            text += (
                f": read as {BASIS_WORDS[inputs.band_basis or 'month']} it gives at most {most:.3g} reclaims in "
                f"{inputs.hours:g} h, not {inputs.reclaims:g}"
            )
    return text


def _from_history(inputs: PlanInputs, band: tuple[float, float] | None, assumptions: list[str]) -> Rates:
    observed, count = inputs.history_node_hours or 0.0, inputs.history_reclaims
    found = hazards.posterior(*(band or (0.0, 0.0)), observed, count, published=band is not None)
    if band is None:
        assumptions.append("no published band: the prior is Gamma(0.5, 4 h) alone")
    weights = [
        {"weight": part.weight, "shape": part.shape, "rate_hours": part.rate_hours}
        for part in found.components
    ]
    history = {
        "node_hours": observed,
        "reclaims": count,
        "mean_rate_per_hour": found.mean_per_hour,
        "weights": weights,
    }
    nodes = inputs.nodes
    assumptions.append(
        f"own history: {count} reclaims in {observed:g} node-hours weighed against the published band"
    )
    high = nodes * found.high_per_hour
    return Rates(nodes * found.mean_per_hour, found.low_per_hour, high, True, history, tuple(assumptions), ())

"""Where the rate of a plan comes from: the user's r or λ, a published band with its basis, or own history."""

from __future__ import annotations

from typing import NamedTuple

from planner.plan.inputs import PlanError, PlanInputs

NEVER = 1e-30  # per hour, and reclaims of a whole job: what is less is taken as none


def negligible(value: float) -> float:
    """The value, or 0 where it is so small that no double can tell the plan from one without reclaims."""
    return value if value >= NEVER else 0.0


class Rates(NamedTuple):
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
    from planner import hazards

    try:
        low, high = hazards.band_edges(inputs.band)
    except ValueError as error:
        raise PlanError(f"--band: {error}") from None
    basis, run = inputs.band_basis, inputs.mean_run
    return hazards.rate_of_share(low, basis, run), hazards.rate_of_share(high, basis, run)


def resolve(inputs: PlanInputs) -> Rates:
    """Decide which figure wins and what range stands beside it."""
    band = band_rates(inputs)
    assumptions: list[str] = []
    if band is not None and inputs.band_basis is not None:
        assumptions.append(f"band {inputs.band} read as {BASIS_WORDS[inputs.band_basis]}")
    if inputs.nodes > 1 and inputs.reclaims is None:
        assumptions.append(
            f"{inputs.nodes} nodes stop together; reclaims of different nodes taken as independent at the top level, "
            "as fully correlated at the low end of the range"
        )
    if inputs.rate is None and inputs.reclaims is None:
        return _from_sources(inputs, band, assumptions)
    nodes, warnings = inputs.nodes, list[str]()
    if inputs.history_node_hours is not None:
        warnings.append(f"{_given(inputs)} was given, so own history is not used")
    if band is not None:
        warnings.append(_beside(inputs, band))
    top = None if inputs.rate is None else nodes * negligible(inputs.rate)
    if band is not None:
        low, high = band[0], nodes * band[1]
    elif inputs.rate is not None and top is not None and nodes > 1:
        low, high = inputs.rate, top
    else:
        return Rates(top, None, None, False, None, tuple(assumptions), tuple(warnings))
    return Rates(top, low, high, False, None, tuple(assumptions), tuple(warnings))


def _from_sources(inputs: PlanInputs, band: tuple[float, float] | None, assumptions: list[str]) -> Rates:
    """Without the user's own r or λ: history, a band, or a law of lifetimes."""
    if inputs.history_node_hours is not None:
        return _from_history(inputs, band, assumptions)
    nodes = inputs.nodes
    if inputs.lifetime is not None:
        from planner.lives.laws import parse_law

        law = parse_law(inputs.lifetime)
        rate = 1.0 / law.mean_hours
        assumptions.append(
            f"lifetimes {law.words}: mean {law.mean_hours:.4g} h; the closed forms take one reclaim in that time, at a "
            "constant rate"
        )
        low = rate if nodes > 1 else None
        return Rates(
            nodes * rate, low, nodes * rate if nodes > 1 else None, False, None, tuple(assumptions), ()
        )
    if band is None:
        raise PlanError("a rate, a number of reclaims or a band is needed")
    assumptions.append("figures are for the high end of the band")
    return Rates(nodes * band[1], band[0], nodes * band[1], True, None, tuple(assumptions), ())


def _given(inputs: PlanInputs) -> str:
    return "--reclaims" if inputs.reclaims is not None else "--rate"


def _beside(inputs: PlanInputs, band: tuple[float, float]) -> str:
    """What a band says beside the user's own figure."""
    text = f"{_given(inputs)} was given, so the band {inputs.band} only fills the range"
    most, basis = inputs.nodes * band[1] * inputs.hours, BASIS_WORDS[inputs.band_basis or "month"]
    given = (
        inputs.reclaims if inputs.reclaims is not None else inputs.nodes * (inputs.rate or 0.0) * inputs.hours
    )
    if given > most:
        text += (
            f": read as {basis} it gives at most {most:.3g} reclaims in {inputs.hours:g} h, not {given:.4g}"
        )
    return text


def _from_history(inputs: PlanInputs, band: tuple[float, float] | None, assumptions: list[str]) -> Rates:
    from planner import hazards

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

"""The cells of a sweep: columns of a block, by array arithmetic where there is a closed form, else by distinct scenario."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.advice import bill_and_choice
from planner.arrays import closed
from planner.plan.costs import BEYOND, Bill
from planner.plan.inputs import MAY_BE_ZERO, SPARK_HOURS, PlanError, PlanInputs, check, check_ranges
from planner.plan.parts import EVEN
from planner.plan.rates import NEVER, resolve
from planner.plan.reasons import UNITS
from planner.sweep import INTEGERS, Grid

Floats = npt.NDArray[np.float64]
VERDICTS = ("pays", "breaks_even", "does_not_pay", "never_finishes", "invalid")
FIGURES = (
    "reclaim_rate_per_hour", "reclaims", "billed_hours", "cost_in_on_demand_hours", "saving_fraction",
    "expected_wall_hours", "interval_hours",
)  # fmt: skip
_BILLED_BY = (
    "hours", "reclaims", "rate", "mean_run", "checkpoint_cost", "restore", "upload", "interval", "max_overhead", "size",
    "bandwidth", "early_failure_share", "nodes", "lost",
)  # fmt: skip
MOST_LAWS = 20_000  # distinct scenarios whose chance to finish is computed


@dataclass(frozen=True)
class Block:
    """Some cells in order: axes, figures (NaN is unknown or infinite) and the verdict's index."""

    start: int
    axes: dict[str, Floats]
    figures: dict[str, Floats]
    verdicts: npt.NDArray[np.int8]

    @property
    def columns(self) -> dict[str, Floats]:
        """Axes with their unit, then figures."""
        named = {UNITS.get(name, name): values for name, values in self.axes.items()}
        return {**named, **{name: values for name, values in self.figures.items() if name not in named}}


def prepare(inputs: PlanInputs, grid: Grid) -> PlanInputs:
    """Check what every cell shares; returns the inputs of the first cell. PlanError for anything wrong."""
    for axis in grid.axes:
        for value in axis.values:
            settled = 0.0 if axis.name in MAY_BE_ZERO and 0 < value < SPARK_HOURS else value
            check_ranges(_with(inputs, {axis.name: settled}), (axis.name,))
    first = _with(inputs, {axis.name: axis.values[0] for axis in grid.axes})
    if "upload" in grid.names or "interval" in grid.names:  # cells with U > τ are invalid one by one
        check(first._replace(upload=None) if first.upload else first)
    else:
        check(first)
    if inputs.deadline is not None or "deadline" in grid.names:
        laws = Grid(tuple(axis for axis in grid.axes if axis.name in (*_BILLED_BY, "wait", "deadline"))).cells
        if laws > MOST_LAWS:
            raise PlanError(
                f"--deadline over {laws} different scenarios: each is a whole distribution; at most {MOST_LAWS} are taken"
            )
    return first


def block(inputs: PlanInputs, grid: Grid, start: int, stop: int) -> Block:
    """Cells start to stop of a grid that `prepare` has checked."""
    axes = _axes(grid, start, stop)
    figures, invalid = _bills(inputs, grid, axes, start, stop)
    wait = _of(inputs.wait, axes, "wait") * _launches(inputs, axes)
    hours, d = _of(inputs.hours, axes, "hours"), _discount(inputs, axes)
    billed = figures["billed_hours"]
    dead = ~(billed <= BEYOND)
    with np.errstate(invalid="ignore", over="ignore"):
        price = (1.0 - d) * billed
        saving = 1.0 - price / hours
        wall = billed + wait * figures["reclaims"]
    verdicts = np.where(dead, 3, np.where(np.abs(saving) <= EVEN, 1, np.where(saving > 0, 0, 2)))
    verdicts = np.where(invalid, 4, verdicts).astype(np.int8)
    unknown = dead | invalid
    figures |= {"cost_in_on_demand_hours": price, "saving_fraction": saving, "expected_wall_hours": wall}
    for name in (
        "reclaims",
        "billed_hours",
        "cost_in_on_demand_hours",
        "saving_fraction",
        "expected_wall_hours",
    ):
        figures[name] = np.where(unknown, np.nan, figures[name])
    ordered = {name: figures[name] for name in FIGURES}
    if inputs.deadline is not None or "deadline" in axes:
        ordered["p_finish"] = _chances(inputs, axes, unknown, len(billed))
    return Block(start, axes, ordered, verdicts)


def _axes(grid: Grid, start: int, stop: int) -> dict[str, Floats]:
    index = np.arange(start, stop)
    found: dict[str, Floats] = {}
    for axis in reversed(grid.axes):
        index, place = np.divmod(index, len(axis.values))
        values = np.array(axis.values)
        if axis.name in MAY_BE_ZERO:
            values = np.where(values < SPARK_HOURS, 0.0, values)
        found[axis.name] = values[place]
    return {name: found[name] for name in grid.names}


def _of(value: float | None, axes: dict[str, Floats], name: str) -> Floats | float:
    return axes[name] if name in axes else 0.0 if value is None else float(value)


def _launches(inputs: PlanInputs, axes: dict[str, Floats]) -> Floats | float:
    return 1.0 / (1.0 - _of(inputs.early_failure_share, axes, "early_failure_share"))


def _discount(inputs: PlanInputs, axes: dict[str, Floats]) -> Floats | float:
    if "discount" in axes:
        return axes["discount"]
    if "spot_price" not in axes and "on_demand_price" not in axes:
        return inputs.d
    spot, full = (
        _of(inputs.spot_price, axes, "spot_price"),
        _of(inputs.on_demand_price, axes, "on_demand_price"),
    )
    return 1.0 - np.asarray(spot, float) / full


def _with(inputs: PlanInputs, values: dict[str, float]) -> PlanInputs:
    changes: dict[str, Any] = {
        name: int(value) if name in INTEGERS or name == "size" else float(value)
        for name, value in values.items()
    }
    return inputs._replace(**changes)


def _bills(
    inputs: PlanInputs, grid: Grid, axes: dict[str, Floats], start: int, stop: int
) -> tuple[dict[str, Floats], npt.NDArray[np.bool_]]:
    """Rate, reclaims, billed hours and interval of every cell, and which cells are invalid."""
    count = stop - start
    fast = _fast(inputs, axes)
    if fast is None:
        return _distinct(inputs, axes, count)
    rate, bills, tau, invalid = fast
    full = {
        "reclaim_rate_per_hour": np.broadcast_to(np.asarray(rate, float), (count,)),
        "reclaims": np.broadcast_to(bills.reclaims, (count,)),
        "billed_hours": np.broadcast_to(bills.billed_hours, (count,)),
        "interval_hours": np.broadcast_to(np.asarray(tau, float), (count,)),
    }
    return full, np.broadcast_to(invalid, (count,))


Fast = tuple[Floats | float, closed.Bills, Floats | float, npt.NDArray[np.bool_]]


def _fast(inputs: PlanInputs, axes: dict[str, Floats]) -> Fast | None:
    """Array arithmetic, where rate, loss and interval of a cell follow without a search."""
    if any(name in axes for name in ("mean_run", "size", "bandwidth", "max_overhead")):
        return None
    hours, launches, fine = (
        _of(inputs.hours, axes, "hours"),
        _launches(inputs, axes),
        np.zeros((), dtype=bool),
    )
    counted = "reclaims" in axes or inputs.reclaims is not None
    if "lost" in axes or inputs.lost is not None:
        lost = _of(inputs.lost, axes, "lost") * launches
        if inputs.no_resume:
            return None
        if counted:
            r = np.asarray(_of(inputs.reclaims, axes, "reclaims"), float)
            r = np.where(r >= NEVER, r, 0.0)
            billed = hours + r * lost
            return r / billed, closed.Bills(billed, r, billed), np.nan, fine
        return _with_rate(closed.self_consistent, inputs, axes, hours, lost)
    if counted or ("interval" not in axes and inputs.fixed_interval_hours is None and not inputs.no_resume):
        return None
    if inputs.no_resume:
        return _with_rate(closed.no_resume, inputs, axes, hours)
    tau, upload = _of(inputs.fixed_interval_hours, axes, "interval"), _of(inputs.upload_hours, axes, "upload")
    save, restore = (
        _of(inputs.save_hours, axes, "checkpoint_cost"),
        _of(inputs.restore_hours, axes, "restore"),
    )
    rate = _rate(inputs, axes)
    bills = closed.expected_makespan(hours, rate, save, restore * launches, tau, np.minimum(upload, tau))
    return rate, bills, tau, np.asarray(upload, float) > tau


def _with_rate(form: Any, inputs: PlanInputs, axes: dict[str, Floats], hours: Any, *more: Any) -> Fast:
    rate = _rate(inputs, axes)
    return rate, form(hours, rate, *more), np.nan, np.zeros((), dtype=bool)


def _rate(inputs: PlanInputs, axes: dict[str, Floats]) -> Floats | float:
    """The gang's rate; a published figure or history is the same in every cell."""
    nodes = _of(float(inputs.nodes), axes, "nodes")
    if "rate" in axes or inputs.rate is not None:
        rate = np.asarray(_of(inputs.rate, axes, "rate"), float)
        return np.asarray(nodes * np.where(rate >= NEVER, rate, 0.0))
    single = resolve(inputs._replace(nodes=1)).top
    return nodes * (single or 0.0)


def _rows(
    axes: dict[str, Floats], names: tuple[str, ...], count: int
) -> tuple[list[dict[str, float]], npt.NDArray[np.intp]]:
    """The distinct combinations of some axes, and which one each cell has."""
    used = [name for name in names if name in axes]
    if not used:
        return [{}], np.zeros(count, dtype=np.intp)
    table, where = np.unique(np.stack([axes[name] for name in used], axis=1), axis=0, return_inverse=True)
    return [dict(zip(used, row, strict=True)) for row in table.tolist()], where.reshape(-1)


def _scalar(inputs: PlanInputs) -> Bill | None:
    """The bill of one scenario by the scalar path; None where its inputs exclude each other (U > τ)."""
    try:
        return bill_and_choice(inputs)[0]
    except PlanError:
        return None


def _distinct(
    inputs: PlanInputs, axes: dict[str, Floats], count: int
) -> tuple[dict[str, Floats], npt.NDArray[np.bool_]]:
    rows, where = _rows(axes, _BILLED_BY, count)
    found = np.full((len(rows), 4), np.nan)
    for index, row in enumerate(rows):
        bill = _scalar(_with(inputs._replace(discount=0.0, spot_price=None, on_demand_price=None), row))
        if bill is not None:
            tau = np.nan if bill.interval_hours is None else bill.interval_hours
            found[index] = (bill.rate_per_hour, bill.reclaims, bill.billed_hours, tau)
    names = ("reclaim_rate_per_hour", "reclaims", "billed_hours", "interval_hours")
    figures = {name: found[where, column] for column, name in enumerate(names)}
    return figures, np.isnan(found[where, 0])


def _chances(
    inputs: PlanInputs, axes: dict[str, Floats], unknown: npt.NDArray[np.bool_], count: int
) -> Floats:
    """The chance to finish by the deadline, scenario by scenario."""
    from planner.plan.deadline import deadline_part

    rows, where = _rows(axes, (*_BILLED_BY, "wait", "deadline"), count)
    found = np.full(len(rows), np.nan)
    for index in np.unique(where[~unknown]).tolist():
        scenario = _with(inputs._replace(discount=0.0, spot_price=None, on_demand_price=None), rows[index])
        bill = _scalar(scenario)
        if bill is not None:
            found[index] = deadline_part(scenario, bill)[0]["p_finish"]
    return found[where]

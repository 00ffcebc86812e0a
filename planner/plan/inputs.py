"""What `plan` is asked: one record, checked as a whole. Units are hours, bytes, fractions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from planner.hazards import Basis

PER_SECOND = "per-second"


class PlanError(ValueError):
    """An input is missing, contradicts another, or is out of range; the text names option, value and range."""


class PlanInputs(NamedTuple):
    """Inputs of one plan; None is "not given". Option names are those of `reprieve plan`, in snake_case."""

    hours: float  # H > 0
    discount: float | None = None  # d < 1
    spot_price: float | None = None  # USD per hour
    on_demand_price: float | None = None
    reclaims: float | None = None  # r ≥ 0, of the whole gang
    rate: float | None = None  # λ ≥ 0 per node-hour
    band: str | None = None  # label such as 5-10%
    band_basis: Basis | None = None
    mean_run: float | None = None  # m > 0, hours, for basis launch
    pool: str | None = None  # where band and discount came from, when a pool was named
    lost: float | None = None  # L ≥ 0
    checkpoint_cost: float | None = None  # C ≥ 0
    restore: float | None = None  # R ≥ 0
    upload: float | None = None  # U ≥ 0
    interval: float | Literal["auto"] | None = None  # τ > 0
    size: int | None = None  # bytes
    bandwidth: float | None = None  # bytes per second > 0
    wait: float = 0.0  # D ≥ 0
    notice: float | None = None  # seconds ≥ 0
    notice_reliability: float = 0.0  # 0 ≤ q < 1
    nodes: int = 1
    deadline: float | None = None  # T > 0, from the start
    no_resume: bool = False
    billing: str = PER_SECOND
    history_node_hours: float | None = None  # T of definition 8
    history_reclaims: int = 0  # k
    max_overhead: float | None = None  # largest share of time spent saving, C/τ
    early_failure_share: float = 0.0  # 0 ≤ F < 1: launches lost before the job makes progress
    lifetime: str | None = None  # weibull:k,η or bathtub:A,t1,t2,b; hours
    store_price: float | None = None  # USD per GiB and month
    transfer_price: float | None = None  # USD per GiB moved to or from the store
    keep: int = 3  # checkpoints kept
    sources: tuple[tuple[str, str], ...] = ()  # (name, where the value came from)

    @property
    def transfer_hours(self) -> float | None:
        """S = size/bandwidth, hours."""
        if self.size is None or self.bandwidth is None:
            return None
        hours = self.size / self.bandwidth / 3600.0
        return hours if hours >= SPARK_HOURS else 0.0

    @property
    def launches_per_reclaim(self) -> float:
        """1/(1 - F): a replacement that fails early is launched again."""
        return 1.0 / (1.0 - self.early_failure_share)

    @property
    def effective_lost_hours(self) -> float | None:
        """L with what early failures add: each costs at most another L."""
        return None if self.lost is None else self.lost * self.launches_per_reclaim

    @property
    def effective_restore_hours(self) -> float | None:
        """R with what early failures add: each is billed at most one more restore."""
        restore = self.restore_hours
        return None if restore is None else restore * self.launches_per_reclaim

    @property
    def effective_wait_hours(self) -> float:
        """D with what early failures add: each waits once more."""
        return self.wait * self.launches_per_reclaim

    @property
    def save_hours(self) -> float | None:
        """C: given, or S when size and bandwidth stand alone."""
        if self.checkpoint_cost is not None or self.lost is not None:
            return self.checkpoint_cost
        return self.transfer_hours

    @property
    def restore_hours(self) -> float | None:
        """R: given, or S when size and bandwidth are."""
        if self.restore is not None or self.lost is not None:
            return self.restore
        return self.transfer_hours

    @property
    def upload_hours(self) -> float:
        """U: given, or S beside a given C."""
        if self.upload is not None:
            return self.upload
        transfer = self.transfer_hours
        return transfer if self.checkpoint_cost is not None and transfer is not None else 0.0

    @property
    def has_money(self) -> bool:
        """Whether prices of nodes, storage or transfer were given."""
        prices = (self.spot_price, self.on_demand_price, self.store_price, self.transfer_price)
        return any(price is not None for price in prices)

    @property
    def fixed_interval_hours(self) -> float | None:
        """τ when the user gave one, None for auto."""
        return None if self.interval is None or self.interval == "auto" else float(self.interval)

    @property
    def d(self) -> float:
        """The discount, from prices when they were given."""
        if self.discount is not None:
            return self.discount
        if self.spot_price is None or self.on_demand_price is None:
            raise PlanError("--discount or both --spot-price and --on-demand-price are needed")
        return 1.0 - self.spot_price / self.on_demand_price


_AGES = 1e9  # hours, more than 100,000 years: beyond it a unit was mistaken
SPARK_HOURS = 1e-12  # 4 ns: a duration below it is none

# option → (lowest, lowest itself allowed, highest, highest itself allowed)
_RANGES: dict[str, tuple[float, bool, float, bool]] = {
    "hours": (0, False, _AGES, True),
    "discount": (-1e6, True, 1, False),
    "spot_price": (0, False, 1e9, True),
    "on_demand_price": (0, False, 1e9, True),
    "reclaims": (0, True, 1e12, True),
    "rate": (0, True, 1e9, True),
    "mean_run": (0, False, _AGES, True),
    "lost": (0, True, _AGES, True),
    "checkpoint_cost": (0, True, _AGES, True),
    "restore": (0, True, _AGES, True),
    "upload": (0, True, _AGES, True),
    "interval": (0, False, _AGES, True),
    "size": (0, True, 1e18, True),
    "bandwidth": (0, False, 1e18, True),
    "wait": (0, True, _AGES, True),
    "notice": (0, True, 1e9, True),
    "notice_reliability": (0, True, 1, False),
    "nodes": (1, True, 1e6, True),
    "deadline": (0, False, _AGES, True),
    "history_node_hours": (0, True, 1e12, True),
    "history_reclaims": (0, True, 1e9, True),
    "max_overhead": (0, False, 1e6, True),
    "early_failure_share": (0, True, 0.999, True),
    "store_price": (0, True, 1e9, True),
    "transfer_price": (0, True, 1e9, True),
    "keep": (1, True, 1e9, True),
}
MAY_BE_ZERO = ("lost", "checkpoint_cost", "restore", "upload", "wait")
_DURATIONS = (
    "hours",
    "mean_run",
    "lost",
    "checkpoint_cost",
    "restore",
    "upload",
    "interval",
    "wait",
    "deadline",
)


def option(name: str) -> str:
    """`lost` → `--lost`, `on_demand_price` → `--on-demand-price`."""
    return "--" + name.replace("history_node_hours", "history_hours").replace("_", "-")


def check(inputs: PlanInputs) -> PlanInputs:
    """The inputs with durations below 4 ns taken as 0; PlanError for the first thing wrong.

    Ranges come first, then what is given twice, then what is missing.
    """
    tiny = [name for name in MAY_BE_ZERO if 0 < (getattr(inputs, name) or 0.0) < SPARK_HOURS]
    zeros: dict[str, Any] = dict.fromkeys(tiny, 0.0)
    settled = inputs._replace(**zeros)
    check_ranges(settled, tuple(_RANGES))
    _check_twice(settled)
    _check_missing(settled)
    if not settled.d < 1:
        raise PlanError(
            f"--spot-price {settled.spot_price:g} against --on-demand-price {settled.on_demand_price:g}: "
            "the discount must be less than 1"
        )
    return settled


def check_ranges(inputs: PlanInputs, names: tuple[str, ...]) -> None:
    """Raise PlanError for the first of these inputs that is out of its range."""
    for name in names:
        low, low_in, high, high_in = _RANGES[name]
        value = getattr(inputs, name)
        if value is None or value == "auto":
            continue
        above = value >= low if low_in else value > low
        below = value <= high if high_in else value < high
        spark = name in _DURATIONS and 0 < value < SPARK_HOURS
        if math.isnan(value) or not (above and below) or spark:
            meant = f"; did you mean {value / 100:g}?" if name == "discount" and 1 < value <= 100 else ""
            unit = " hours" if name in _DURATIONS else ""
            words = f"at least {SPARK_HOURS:g}" if spark else _range_words(low, low_in, high, high_in)
            raise PlanError(
                f"{option(name)} is {value:g}{unit}; a finite number {words}{unit} is expected{meant}"
            )


def _range_words(low: float, low_in: bool, high: float, high_in: bool) -> str:
    return f"{'from' if low_in else 'above'} {low:g} {'to' if high_in else 'to less than'} {high:g}"


def _given(inputs: PlanInputs, *names: str) -> list[str]:
    return [option(name) for name in names if getattr(inputs, name) is not None]


def _refuse(names: list[str], words: str) -> None:
    raise PlanError(f"{' and '.join(names)} {words}")


def _check_twice(inputs: PlanInputs) -> None:
    prices = _given(inputs, "spot_price", "on_demand_price")
    if inputs.discount is not None and prices and inputs.pool is None:
        _refuse(["--discount", *prices], "say the same thing twice: give the discount or both prices")
    for first, second in (
        ("reclaims", "rate"),
        ("lifetime", "reclaims"),
        ("lifetime", "rate"),
        ("lifetime", "band"),
    ):
        if None not in (getattr(inputs, first), getattr(inputs, second)):
            _refuse([option(first), option(second)], "say the same thing twice: give one")
    if inputs.lost is not None:
        others = _given(inputs, "checkpoint_cost", "restore", "upload", "interval")
        if others:
            _refuse(["--lost", *others], "cannot stand together: L is given, or follows from C and R")
    if inputs.billing != PER_SECOND:
        from planner.billing import RULES

        if inputs.billing not in RULES:
            raise PlanError(f"--billing is {inputs.billing[:40]!r}; one of {', '.join(RULES)} is expected")


def _check_missing(inputs: PlanInputs) -> None:
    if inputs.discount is None and (inputs.spot_price is None or inputs.on_demand_price is None):
        raise PlanError("--discount, or both --spot-price and --on-demand-price, are needed")
    if not _given(inputs, "reclaims", "rate", "band", "history_node_hours", "lifetime"):
        raise PlanError(
            "one of --reclaims, --rate, --band with --band-basis, --pool or --lifetime is needed: "
            "how often is it reclaimed?"
        )
    if inputs.band is not None and inputs.band_basis is None:
        raise PlanError(
            "--band-basis month, hour or launch is needed: a band without its basis is not a rate"
        )
    if inputs.band_basis is not None and inputs.band is None:
        raise PlanError("--band-basis stands alone: --band is needed")
    if inputs.band_basis == "launch" and inputs.mean_run is None:
        raise PlanError(
            "--mean-run is needed with --band-basis launch: the mean run that users end themselves"
        )
    if inputs.bandwidth is not None and inputs.size is None:
        raise PlanError("--size is needed with --bandwidth: a rate alone is no time")
    if inputs.size is not None and not _given(inputs, "bandwidth", "store_price", "transfer_price"):
        raise PlanError("--bandwidth is needed with --size: a size alone is no time")
    if inputs.size is None and _given(inputs, "store_price", "transfer_price"):
        raise PlanError("--size is needed with --store-price and --transfer-price")
    if inputs.lost is None and not inputs.no_resume:
        _check_loss(inputs)
    if inputs.max_overhead is not None and inputs.save_hours is None:
        raise PlanError(
            "--max-overhead needs --checkpoint-cost: without the cost of a save there is nothing to cap"
        )
    if inputs.interval is not None and inputs.save_hours is None:
        raise PlanError("--interval needs --checkpoint-cost and --restore, or --size and --bandwidth")


def _check_loss(inputs: PlanInputs) -> None:
    if inputs.save_hours is None:
        missing = "--lost, --checkpoint-cost with --restore, or --size with --bandwidth is needed: what does a reclaim cost?"
        raise PlanError(missing)
    if not inputs.save_hours <= _AGES:
        raise PlanError(
            f"--size over --bandwidth is {inputs.save_hours:g} hours; at most {_AGES:g} are expected"
        )
    if inputs.restore_hours is None:
        raise PlanError("--restore is needed with --checkpoint-cost (0s is allowed)")
    tau = inputs.fixed_interval_hours
    if inputs.save_hours == 0 and tau is None:
        cause = "--checkpoint-cost" if inputs.checkpoint_cost is not None else "--size over --bandwidth"
        raise PlanError(f"{cause} is 0: saves that cost nothing have no best interval; give --interval")
    if tau is not None and inputs.upload_hours > tau:
        raise PlanError(
            f"--upload is {inputs.upload_hours * 3600:g} s, longer than --interval {tau * 3600:g} s: "
            "an upload must end before the next save begins"
        )

"""A plan with its reasons: from inputs to the document `reprieve/plan/v1` (contract section 3).

Figures are expectations, per node, in hours; None is unknown or infinite and the verdict tells which.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from planner import billing, economics, intervals, makespan, notice
from planner.plan_costs import BEYOND, Bill, bill_at, bill_of_reclaims, break_even_rate, rate_for_optimal_plan
from planner.plan_inputs import PlanInputs, check
from planner.plan_rates import Rates, resolve

Document = dict[str, Any]
EVEN = 1e-9  # |saving| up to which a plan breaks even


@dataclass(frozen=True)
class Interval:
    """Which rate the interval was chosen at, and the choice; `recommended` None is "do not save"."""

    rate_per_hour: float
    recommended_hours: float | None


def evaluate(inputs: PlanInputs) -> Document:
    """The whole answer. Raises PlanError (a ValueError) naming the option for anything wrong."""
    check(inputs)
    rates = resolve(inputs)
    choice = choose_interval(inputs, rates)
    tau = _charged(inputs, choice)
    bill = _bill(inputs, rates, tau)
    warnings = [*rates.warnings, *_warnings(inputs, bill)]
    d = inputs.d
    document: Document = {
        "schema": "reprieve/plan/v1",
        "inputs": _inputs(inputs),
        "sources": _sources(inputs, rates),
        "verdict": verdict(bill, inputs.hours, d),
        **_top(inputs, bill, d),
        "range": _range(inputs, rates, tau, d),
        "interval": None if choice is None else _interval(inputs, choice),
        "makespan": {
            "expected_billed_hours": _finite(bill.billed_hours),
            "expected_wall_hours": _finite(bill.billed_hours + inputs.wait * bill.reclaims),
            "failure_free_hours": bill.failure_free_hours,
            "expected_reclaims": _finite(bill.reclaims),
        },
        "no_resume": _no_resume(inputs, bill.rate_per_hour, d),
        "deadline": None,
        "notice": _notice(inputs, bill.rate_per_hour),
        "usd": _usd(inputs, bill),
        "billing": _billing(inputs, bill),
        "history": rates.history,
        "assumptions": [*_assumptions(inputs, choice), *rates.assumptions],
        "warnings": warnings,
    }
    if inputs.deadline is not None:
        from planner.plan_deadline import deadline_part

        document["deadline"], late = deadline_part(inputs, bill)
        warnings.extend(late)
    return document


def choose_interval(inputs: PlanInputs, rates: Rates) -> Interval | None:
    """The interval of definitions 6 and 7; None without C or without a rate to choose it at."""
    save, restore = inputs.save_hours, inputs.restore_hours
    if not save or restore is None:
        return None
    if inputs.reclaims is not None and rates.top is None:
        rate = 0.0 if inputs.reclaims == 0 else rate_for_optimal_plan(inputs, inputs.reclaims)
        return Interval(rate, intervals.recommended(inputs.hours, rate, save, restore))
    if rates.published and rates.low is not None and rates.high is not None and rates.high > 0:
        best = intervals.minimax_regret(rates.low, rates.high, save)
        rate = intervals.rate_of_exact(best, save)
        choice = intervals.rounded(best, *intervals.safe_range(rate, save))
        choice = min(choice, intervals.ladder_at_most(100.0 * save))  # a published figure may be far too low
        return Interval(rate, choice if choice < inputs.hours else None)
    if rates.top is None:
        return None
    return Interval(rates.top, intervals.recommended(inputs.hours, rates.top, save, restore))


def _charged(inputs: PlanInputs, choice: Interval | None) -> float | None:
    """τ that the costs are charged at: the user's, else the recommended one; None is one piece."""
    chosen = (
        inputs.interval
        if isinstance(inputs.interval, float)
        else (choice.recommended_hours if choice else None)
    )
    if chosen is None or inputs.max_overhead is None or inputs.save_hours is None:
        return chosen
    return max(chosen, intervals.capped_interval(inputs.save_hours, inputs.max_overhead))


def _bill(inputs: PlanInputs, rates: Rates, tau: float | None) -> Bill:
    if rates.top is None and inputs.reclaims is not None:
        return bill_of_reclaims(inputs, inputs.reclaims, tau)
    return bill_at(inputs, rates.top or 0.0, tau)


def verdict(bill: Bill, hours: float, discount: float) -> str:
    """`pays`, `breaks_even`, `does_not_pay` or `never_finishes`."""
    if bill.never_finishes:
        return "never_finishes"
    saving = bill.saving(hours, discount)
    return "breaks_even" if abs(saving) <= EVEN else "pays" if saving > 0 else "does_not_pay"


def _finite(value: float | None) -> float | None:
    return None if value is None or not abs(value) <= BEYOND else value


def _top(inputs: PlanInputs, bill: Bill, d: float) -> Document:
    """The figures of definitions 2 to 4."""
    hours, dead = inputs.hours, bill.never_finishes
    billed = None if dead else bill.billed_hours
    ratio = None if billed is None else billed / hours - 1.0
    return {
        "lost_ratio": ratio,
        "break_even_ratio": economics.break_even_ratio(d) if d >= 0 else None,  # spot dearer: there is none
        "billed_hours": billed,
        "cost_in_on_demand_hours": None if billed is None else billed * (1.0 - d),
        "saving_fraction": None if billed is None else bill.saving(hours, d),
        "discount_points_lost": None if ratio is None else (1.0 - d) * ratio,
        **_break_evens(inputs, bill, d),
        "reclaims": None if dead else bill.reclaims,
        "reclaim_rate_per_hour": bill.rate_per_hour,
        "lost_hours_per_reclaim": None if dead and inputs.lost is None else bill.lost_hours_per_reclaim,
        "checkpoint_overhead_hours": bill.failure_free_hours - hours,
    }


def _break_evens(inputs: PlanInputs, bill: Bill, d: float) -> Document:
    """G = H/(1 - d) - F; r* = G/L; L* = G/r, or (1 - F(1 - d)/H)/λ for a rate; d* = 1 - H/billed; λ*."""
    names = ("reclaims", "lost_hours", "discount", "rate_per_hour")
    if inputs.no_resume:
        return {f"break_even_{name}": None for name in names}
    hours, free, lost = inputs.hours, bill.failure_free_hours, bill.lost_hours_per_reclaim
    room = hours / (1.0 - d) - free
    reclaims = room / lost if lost and room >= 0 else None
    if inputs.reclaims is not None:
        loss = room / inputs.reclaims if inputs.reclaims > 0 and room >= 0 else None
    else:
        rate = bill.rate_per_hour
        loss = (1.0 - free * (1.0 - d) / hours) / rate if rate > 0 and room >= 0 else None
    discount = None if bill.never_finishes else 1.0 - hours / bill.billed_hours
    at_rate = break_even_rate(inputs, d, bill.interval_hours) if room >= 0 else None
    values = (reclaims, loss, discount, at_rate)
    return {f"break_even_{name}": _finite(value) for name, value in zip(names, values, strict=True)}


def _range(inputs: PlanInputs, rates: Rates, tau: float | None, d: float) -> Document | None:
    """Both ends of what is known of the rate."""
    if rates.low is None or rates.high is None:
        return None
    return {"low": _end(inputs, rates.low, tau, d), "high": _end(inputs, rates.high, tau, d)}


def _end(inputs: PlanInputs, rate: float, tau: float | None, d: float) -> Document:
    bill = bill_at(inputs, rate, tau)
    dead = bill.never_finishes
    return {
        "reclaim_rate_per_hour": rate,
        "reclaims": None if dead else bill.reclaims,
        "billed_hours": None if dead else bill.billed_hours,
        "cost_in_on_demand_hours": None if dead else bill.billed_hours * (1.0 - d),
        "saving_fraction": None if dead else bill.saving(inputs.hours, d),
        "verdict": verdict(bill, inputs.hours, d),
    }


def _interval(inputs: PlanInputs, choice: Interval) -> Document:
    """Definition 6, all fields at `rate_per_hour`."""
    save, restore, rate = inputs.save_hours or 0.0, inputs.restore_hours or 0.0, choice.rate_per_hour
    names = ("exact", "young", "daly", "safe_low", "safe_high")
    values: tuple[float | None, ...] = (None,) * 5
    if rate > 0:
        first = (intervals.exact(rate, save), intervals.young(rate, save), intervals.daly(rate, save))
        values = (*first, *intervals.safe_range(rate, save))
    plan = intervals.optimal_plan(inputs.hours, rate, save, restore)
    return {
        **{f"{name}_hours": value for name, value in zip(names, values, strict=True)},
        "plan_hours": plan.interval_hours,
        "plan_pieces": plan.pieces,
        "recommended_hours": choice.recommended_hours,
        "rate_per_hour": rate,
    }


def _no_resume(inputs: PlanInputs, rate: float, d: float) -> Document:
    """The same job started over after every reclaim."""
    alone = makespan.no_resume(inputs.hours, rate)
    bill = Bill(rate, alone.expected_hours, 0.0, inputs.hours, None)
    return {
        "verdict": verdict(bill, inputs.hours, d),
        "expected_hours": _finite(alone.expected_hours),
        "log10_expected_hours": alone.log10_expected_hours,
        "p_one_gap_long_enough": alone.p_one_gap_long_enough,
        "break_even_mean_reclaims": makespan.break_even_no_resume(d),
    }


def _notice(inputs: PlanInputs, rate: float) -> Document | None:
    """Whether a final save fits the window, and what trusting the notice would change."""
    if inputs.notice is None:
        return None
    transfer, save = inputs.transfer_hours, inputs.save_hours
    hours = transfer if transfer is not None else None if save is None else save + inputs.upload_hours
    found = notice.fit(inputs.notice, None if hours is None else hours * 3600.0)
    trusted = None
    if save and rate > 0:
        trusted = notice.notice_interval(rate, save, inputs.notice_reliability).young_hours
    return {**asdict(found), "reason": _notice_reason(found), "interval_if_trusted_hours": trusted}


def _notice_reason(found: notice.Fit) -> str:
    if found.save_s is None:
        return "the time of a save is not known: give --size and --bandwidth, or --checkpoint-cost"
    compared = "fits" if found.fits else "does not fit"
    share = f"{notice.USABLE_SHARE:.0%} of the {found.window_s:g} s window, {found.usable_s:.4g} s"
    ending = "" if found.fits else "; leave the last save alone and finish its upload"
    return f"a final save takes {found.save_s:.4g} s and {compared} into {share}{ending}"


def _usd(inputs: PlanInputs, bill: Bill) -> Document | None:
    """Money, when prices were given."""
    spot, full, n = inputs.spot_price, inputs.on_demand_price, inputs.nodes
    if spot is None or full is None:
        return None
    on_demand = n * inputs.hours * full
    paid = None if bill.never_finishes else n * bill.billed_hours * spot
    lost = bill.lost_hours_per_reclaim
    return {
        "spot": paid,
        "on_demand": on_demand,
        "saving": None if paid is None else on_demand - paid,
        "per_reclaim": None if lost is None else _finite(n * lost * spot),
    }


def _billing(inputs: PlanInputs, bill: Bill) -> Document | None:
    rule = billing.RULES[inputs.billing]
    if rule.name == "per-second":
        return None
    share = billing.paid_share(rule, bill.rate_per_hour) if bill.rate_per_hour > 0 else 1.0
    paid = None if bill.never_finishes else bill.billed_hours * share
    return {"rule": rule.name, "paid_hours": paid, "label": "long-run", "source": rule.source}


def _inputs(inputs: PlanInputs) -> Document:
    """Option names with their unit, as used."""
    units = {
        "hours": "hours", "lost": "lost_hours", "checkpoint_cost": "checkpoint_cost_hours", "restore": "restore_hours",
        "upload": "upload_hours", "wait": "wait_hours", "deadline": "deadline_hours", "mean_run": "mean_run_hours",
        "rate": "rate_per_hour", "size": "size_bytes", "bandwidth": "bandwidth_bytes_per_s", "notice": "notice_s",
        "spot_price": "spot_price_usd_per_hour", "on_demand_price": "on_demand_price_usd_per_hour",
    }  # fmt: skip
    document: Document = {}
    for name, value in asdict(inputs).items():
        if value is None or name in ("sources", "interval") or name.startswith("history"):
            continue
        document[units.get(name, name)] = value
    document["discount"] = inputs.d
    if inputs.save_hours is not None and not inputs.no_resume:
        document["interval"] = "auto" if not isinstance(inputs.interval, float) else None
        document["interval_hours"] = inputs.interval if isinstance(inputs.interval, float) else None
        document["checkpoint_cost_hours"] = inputs.save_hours
        document["restore_hours"] = inputs.restore_hours
        document["upload_hours"] = inputs.upload_hours
    return document


def _sources(inputs: PlanInputs, rates: Rates) -> dict[str, str]:
    """Where each decisive figure came from."""
    given = "command line"
    sources = {"hours": given, "discount": given if inputs.discount is not None else "from both prices"}
    if rates.history is not None:
        sources["reclaims"] = "own history" + (
            f" and band {inputs.band} ({inputs.band_basis})" if inputs.band else ""
        )
    elif inputs.reclaims is not None:
        sources["reclaims"] = "--reclaims: counted over the whole job"
    elif inputs.rate is not None:
        sources["reclaims"] = "--rate: per node-hour"
    else:
        sources["reclaims"] = f"band {inputs.band}, basis {inputs.band_basis}"
    sources["loss"] = "--lost" if inputs.lost is not None else "save and restore costs"
    return {**sources, **inputs.sources}


def _assumptions(inputs: PlanInputs, choice: Interval | None) -> list[str]:
    found = ["reclaims are memoryless at a constant rate", f"billing {inputs.billing}"]
    if inputs.no_resume:
        found.append("no resume: every reclaim starts the job over; the cost of saves is ignored")
    elif inputs.lost is not None:
        found.append("every reclaim loses the same billed time")
    else:
        found.append("no save after the last piece; a restore can itself be hit")
        if choice is not None and not isinstance(inputs.interval, float):
            chosen = choice.recommended_hours
            found.append(
                "do not save: one piece is best"
                if chosen is None
                else f"interval {chosen:.4g} h, recommended"
            )
    if inputs.wait:
        found.append("waiting for capacity is not billed")
    return found


def _warnings(inputs: PlanInputs, bill: Bill) -> list[str]:
    found = []
    if inputs.d <= 0:
        found.append(f"the discount is {inputs.d:g}: spot is not cheaper than on-demand")
    if bill.never_finishes and inputs.lost is not None:
        product = bill.rate_per_hour * inputs.lost
        found.append(
            f"each hour brings {product:.3g} hours of lost work or more: the job falls behind for ever"
        )
    elif bill.never_finishes:
        found.append("the expected time is beyond any use: the job never finishes")
    return found

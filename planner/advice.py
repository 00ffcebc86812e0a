"""A plan with its reasons: from inputs to the document `reprieve/plan/v1` (contract section 3).

Figures are expectations, per node, in hours; None is unknown or infinite and the verdict tells which.
"""

from __future__ import annotations

import math
from typing import Any

from planner.plan import parts, reasons
from planner.plan.choice import Choice, charged, choose
from planner.plan.costs import Bill, bill_at, bill_of_reclaims
from planner.plan.inputs import PlanInputs, check
from planner.plan.rates import Rates, resolve

Document = dict[str, Any]


def evaluate(inputs: PlanInputs) -> Document:
    """The whole answer. Raises PlanError (a ValueError) naming the option for anything wrong."""
    inputs = check(inputs)
    rates = resolve(inputs)
    choice = choose(inputs, rates)
    tau = charged(inputs, choice)
    bill = bill_of(inputs, rates, tau)
    interval = None if choice is None else parts.interval(inputs, choice)
    warnings = [*rates.warnings, *reasons.warnings(inputs, bill, choice)]
    document: Document = {
        "schema": "reprieve/plan/v1",
        "inputs": reasons.as_used(inputs),
        "sources": reasons.sources(inputs, rates),
        "verdict": parts.verdict(bill, inputs.hours, inputs.d),
        **parts.top(inputs, bill),
        "range": parts.ends(inputs, rates, tau),
        "interval": interval,
        "makespan": parts.makespan(inputs, bill),
        "no_resume": parts.no_resume(inputs, bill.rate_per_hour),
        "deadline": None,
        "notice": None,
        "usd": None,
        "billing": None,
        "history": rates.history,
        "lifetime": None,
        "assumptions": [*reasons.assumptions(inputs, choice), *rates.assumptions],
        "warnings": warnings,
    }
    _asked_for(document, inputs, bill, interval)
    return document


def bill_of(inputs: PlanInputs, rates: Rates, tau: float | None) -> Bill:
    """The plan's bill at τ, from r or from the rate that won."""
    if rates.top is None and inputs.reclaims is not None:
        return bill_of_reclaims(inputs, inputs.reclaims, tau)
    bill = bill_at(inputs, rates.top or 0.0, tau)
    if inputs.no_resume and inputs.lifetime is not None:
        from planner.lives.laws import parse_law

        if math.isinf(
            parse_law(inputs.lifetime).no_resume(inputs.hours).expected_hours
        ):  # no life is that long
            return bill._replace(billed_hours=math.inf, reclaims=math.inf)
    return bill


def bill_and_choice(inputs: PlanInputs) -> tuple[Bill, Choice | None, Rates]:
    """The bill alone, without the document around it: for rankings, sweeps and curves."""
    inputs = check(inputs)
    rates = resolve(inputs)
    choice = choose(inputs, rates)
    return bill_of(inputs, rates, charged(inputs, choice)), choice, rates


def _asked_for(document: Document, inputs: PlanInputs, bill: Bill, interval: Document | None) -> None:
    """The parts that only some plans have; their modules are loaded when they are needed."""
    if inputs.deadline is not None:
        from planner.plan.deadline import deadline_part, fallback_part

        document["deadline"], late = deadline_part(inputs, bill)
        document["deadline"]["fallback"] = fallback_part(inputs, bill)
        document["warnings"].extend(late)
    if inputs.notice is not None:
        from planner.plan.window import notice_part

        document["notice"] = notice_part(inputs, interval)
    if inputs.has_money or inputs.billing != "per-second":
        from planner.plan.money import billing_part, usd_part

        document["usd"], document["billing"] = usd_part(inputs, bill), billing_part(inputs, bill)
    if inputs.lifetime is not None:
        from planner.plan.ageing import lifetime_part

        document["lifetime"], said = lifetime_part(inputs, bill)
        document["warnings"].extend(said)

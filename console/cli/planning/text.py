"""The plan as people read it: a verdict, then each figure with its unit and where it came from."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from backends.clean import clean
from console.pictures.figures import VERDICTS, headline, hours, number, saved
from planner.quantities import format_fraction

Document = dict[str, Any]


def text(document: Document, width: int | None = None) -> str:
    """The whole answer; lines longer than `width` columns go on below their last column."""
    parts = [headline(document), _table(_main(document))]
    parts += [
        block
        for block in (
            _range(document),
            _interval(document),
            _lifetime(document),
            _history(document),
            _alone(document),
            _deadline(document),
            _notice(document),
            _usd(document),
            _billing(document),
        )
        if block
    ]
    parts.append(_notes(document))
    lines = "\n\n".join(parts).split("\n")
    return (
        "\n".join(lines if width is None else [part for line in lines for part in _folded(line, width)])
        + "\n"
    )


def _folded(line: str, width: int) -> list[str]:
    """The line in pieces of at most `width` columns, each under the note of the first."""
    if len(line) <= width:
        return [line]
    start = re.match(r"(?:.*\S {2,}| *)(?=\S)", line)
    indent = start.end() if start is not None else 0
    if indent > width * 2 // 3:  # too little room there
        indent = 4
    return textwrap.wrap(
        line, width, subsequent_indent=" " * indent, drop_whitespace=True, break_on_hyphens=False
    )


Row = tuple[str, str, str]


def _table(rows: list[Row]) -> str:
    left = max(len(row[0]) for row in rows)
    middle = max(len(row[1]) for row in rows)
    return "\n".join(f"  {name:<{left}}  {value:>{middle}}  {note}".rstrip() for name, value, note in rows)


def _main(plan: Document) -> list[Row]:
    source = plan["sources"]
    rate = plan["reclaim_rate_per_hour"]
    gap = "" if not rate else f"one every {hours(1.0 / rate)}; "
    overhead = plan["checkpoint_overhead_hours"]
    ratio = "lost work and saves" if overhead else "lost work, rL/H"
    rows = [
        ("billed time", hours(plan["billed_hours"]), f"of which saves {hours(overhead)}" if overhead else ""),
        ("reclaims", number(plan["reclaims"]), f"{gap}{clean(_rate_source(source), limit=200)}"),
        ("lost per reclaim", hours(plan["lost_hours_per_reclaim"]), clean(source["loss"])),
        ("discount d", format_fraction(plan["inputs"]["discount"]), clean(source["discount"], limit=120)),
        (ratio, number(plan["lost_ratio"]), "of the work; spot pays while it is below"),
        ("the limit, d/(1-d)", number(plan["break_even_ratio"]), ""),
        ("breaks even at", number(plan["break_even_reclaims"], "reclaims"), "with this loss"),
        ("", hours(plan["break_even_lost_hours"]), "lost per reclaim"),
        ("", format_fraction(plan["break_even_discount"]), "discount"),
        ("", number(plan["break_even_rate_per_hour"], "per hour"), "reclaim rate"),
    ]
    makespan = plan["makespan"]
    if makespan["expected_wall_hours"] != makespan["expected_billed_hours"]:
        rows.insert(1, ("with waits", hours(makespan["expected_wall_hours"]), "expected from start to end"))
    return rows


def _rate_source(source: dict[str, str]) -> str:
    """Where the reclaims came from, with the feed and snapshot of a published band."""
    return f"{source['reclaims']}; {source['band']}" if "band" in source else source["reclaims"]


def _range(plan: Document) -> str:
    if plan["range"] is None:
        return ""
    rows: list[Row] = []
    for end in ("low", "high"):
        part = plan["range"][end]
        name = f"at the {end} end"
        note = f"{number(part['reclaims'])} reclaims, {VERDICTS[part['verdict']].lower()}"
        rows.append((name, saved(part["saving_fraction"]), note))
    return "What is known of the rate is a range\n" + _table(rows)


def _interval(plan: Document) -> str:
    part = plan["interval"]
    if part is None:
        return ""
    advice = part["recommended_hours"]
    best = "Do not save" if advice is None else f"Save every {hours(advice)}"
    if part["exact_hours"] is None:
        return f"{best}: without reclaims a save only costs"
    pieces = part["plan_pieces"]
    rows = [
        (
            "safe range",
            f"{hours(part['safe_low_hours'])} to {hours(part['safe_high_hours'])}",
            "within 1 % of the best bill",
        ),
        ("exact optimum", hours(part["exact_hours"]), "work between saves"),
        (
            "whole plan",
            hours(part["plan_hours"]),
            "one piece, no save" if pieces == 1 else f"{pieces} equal pieces",
        ),
        ("Young, Daly", f"{hours(part['young_hours'])}, {hours(part['daly_hours'])}", "for comparison"),
    ]
    return f"{best}\n" + _table(rows)


def _alone(plan: Document) -> str:
    part = plan["no_resume"]
    size = (
        hours(part["expected_hours"])
        if part["expected_hours"] is not None
        else f"10^{part['log10_expected_hours']:.0f} h"
    )
    rows = [
        ("expected time", size, VERDICTS[part["verdict"]].lower()),
        ("one gap long enough", format_fraction(part["p_one_gap_long_enough"]), "chance for each attempt"),
        ("breaks even at", number(part["break_even_mean_reclaims"]), "mean reclaims over the job"),
    ]
    return "The same job without a resume\n" + _table(rows)


def _deadline(plan: Document) -> str:
    part = plan["deadline"]
    if part is None:
        return ""
    rows = [
        ("chance to finish", format_fraction(part["p_finish"], digits=2), f"within {hours(part['hours'])}"),
        (
            "latest switch",
            hours(part["latest_switch_hours"]) if part["latest_switch_hours"] >= 0 else "–",
            "from the start, to on-demand, with nothing done yet"
            if part["latest_switch_hours"] >= 0
            else "too late from the start",
        ),
    ]
    fallback = part["fallback"]
    if fallback is not None:
        cost, error = fallback["cost_in_on_demand_hours"], fallback["standard_error"]
        rows.append(
            (
                "with a fallback",
                saved(fallback["saving_fraction"]),
                f"costs {number(cost)} ± {error:.2g} on-demand hours",
            )
        )
        rows.append(
            ("", format_fraction(fallback["p_switch"]), "chance to end on demand; the deadline is then met")
        )
    return "Deadline\n" + _table(rows)


def _notice(plan: Document) -> str:
    part = plan["notice"]
    if part is None:
        return ""
    trusted = part["interval_if_trusted_hours"]
    said = (
        ""
        if trusted is None or not plan["inputs"]["notice_reliability"]
        else f"\n  if {format_fraction(plan['inputs']['notice_reliability'])} of notices are trusted: save every {hours(trusted)} (not used here)"
    )
    return f"Notice\n  {part['reason']}{said}"


def _usd(plan: Document) -> str:
    part = plan["usd"]
    if part is None:
        return ""
    rows = [
        ("on spot", number(part["spot"], "USD"), ""),
        ("on demand", number(part["on_demand"], "USD"), ""),
        ("saved", number(part["saving"], "USD"), ""),
        ("each reclaim costs", number(part["per_reclaim"], "USD"), ""),
    ]
    for name, key in (
        ("checkpoints moved", "checkpoint_transfer"),
        ("checkpoints kept", "checkpoint_storage"),
    ):
        if part[key] is not None:
            rows.append((name, number(part[key], "USD"), ""))
    if part["saving_after_checkpoints"] is not None:
        rows.append(("saved after that", number(part["saving_after_checkpoints"], "USD"), ""))
    return "Money\n" + _table(rows)


def _billing(plan: Document) -> str:
    part = plan["billing"]
    if part is None:
        return ""
    rows = [
        ("paid time", hours(part["paid_hours"]), f"{part['label']}, rule {part['rule']} ({part['source']})")
    ]
    return "Billing\n" + _table(rows)


def _history(plan: Document) -> str:
    part = plan["history"]
    if part is None:
        return ""
    rows = [("observed", number(part["node_hours"], "node-hours"), f"{part['reclaims']} reclaims")]
    names = (
        ("published figure", "without one") if len(part["weights"]) > 1 else ("without a published figure",)
    )
    for name, component in zip(names, part["weights"], strict=True):
        mean = component["shape"] / component["rate_hours"]
        rows.append(
            (name, format_fraction(component["weight"]), f"weight; {number(mean, 'per hour')} by itself")
        )
    rows.append(("together", number(part["mean_rate_per_hour"], "per hour"), "for each node"))
    return "Own history\n" + _table(rows)


def _lifetime(plan: Document) -> str:
    part = plan["lifetime"]
    if part is None:
        return ""
    alone = hours(part["no_resume_expected_hours"])
    rows = [
        ("mean life", hours(part["mean_hours"]), clean(part["law"])),
        ("without a resume", alone if part["no_resume_expected_hours"] else "never", "on such lives"),
    ]
    if part["schedule"] is None:
        return "Lifetimes\n" + _table(rows)
    unsaved = part["fixed_interval_hours"] >= plan["inputs"]["hours"]
    rows += [
        ("by the schedule", hours(part["expected_billed_hours"]), "expected billed time"),
        (
            "best fixed interval",
            hours(part["fixed_expected_billed_hours"]),
            "without a save" if unsaved else f"saves every {hours(part['fixed_interval_hours'])}",
        ),
    ]
    steps = [
        f"at age {hours(step['age_hours'])}: work {hours(step['work_hours'])}" for step in part["schedule"]
    ]
    return (
        "Lifetimes: a fixed interval is not optimal\n" + _table(rows) + "\n  " + "\n  ".join(_merged(steps))
    )


def _merged(steps: list[str]) -> list[str]:
    """Steps with the same work as the one before are left out."""
    kept = []
    before = ""
    for step in steps:
        work = step.partition(": ")[2]
        if work != before:
            kept.append(step)
        before = work
    return kept


def _notes(plan: Document) -> str:
    lines = [f"  warning: {clean(line, limit=300)}" for line in plan["warnings"]]
    lines += [f"  assumed: {clean(line, limit=300)}" for line in plan["assumptions"]]
    return "\n".join(lines)

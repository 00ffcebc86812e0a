"""`report`: what reclaims cost, measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backends.errors import UsageError
from backends.ledger.open import open_ledger
from console.operations.accounting import report
from planner.quantities import format_duration, format_fraction

if TYPE_CHECKING:
    from console.cli.invocation import Invocation


BY_HAND = ("operator", "batch")  # a provider's word makes it `reclaim`, which tells the end
APART_S = 30.0  # a running job is seen at least this often by a console or controller that looks


def run(invocation: Invocation) -> int:
    """`report [--job] [--since] [--discount]`."""
    arguments, context = invocation.arguments, invocation.context
    discount = arguments.get("discount")
    if discount is not None and not discount < 1:
        raise UsageError(f"--discount is {discount:g}; less than 1 is expected, such as 0.7 or 70%")
    if arguments.get("by") is not None:
        from console.cli.commands import accounts

        return accounts.run(invocation)
    span = arguments.get("since")
    ledger = open_ledger(context.state, context.ledger)
    try:
        document = report(
            ledger,
            job=arguments.get("job"),
            since=None if span is None else invocation.clock.wall() - span,
            discount=discount,
        )
    finally:
        ledger.close()
    if invocation.output == "csv":  # a line a reclaim: the totals stand in the other formats
        invocation.emit_listing("reclaim", document["reclaims"], [])
    else:
        invocation.emit(document, text)
    return 0


def text(document: dict[str, Any]) -> str:
    """The report for people: a line a reclaim, then the totals with their meaning."""
    rows = [("WHEN", "JOB", "FROM", "TO", "NOTICE", "LOST WORK", "RESTORE", "WAIT", "CHECKPOINT", "CAUSE")]
    for each in document["reclaims"]:
        notice = "–" if each["notice"] is None else "yes" if each["notice"] else "no"
        rows.append(
            (
                each["at"][:19].replace("T", " "), each["job"], each["from_node"] or "–", each["to_node"] or "–", notice,
                lost(each), duration(each["restore_s"]), duration(each["wait_s"]),
                each["from_checkpoint"] or "–", each["cause"],
            )
        )  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    if len(rows) == 1:
        lines = ["no reclaim is on record"]
    return "\n".join([*lines, "", *_totals(document)])


def lost(each: dict[str, Any]) -> str:
    """Lost work of one loss; where a person restored it and nothing told the end, from the last sign of life on."""
    most, least = each["lost_work_s"], each["lost_work_at_least_s"]
    if each["cause"] not in BY_HAND or None in (most, least) or most - least <= APART_S:
        return duration(most)
    return f"{duration(least)} to {duration(most)}"


def _totals(document: dict[str, Any]) -> list[str]:
    sums = document["totals"]
    lost, ratio, even = sums["lost_hours_per_reclaim"], document["lost_ratio"], document["break_even_ratio"]
    lines = [
        f"reclaims by the provider     r = {sums['reclaims']}  ({sums['failed_tries']} failed tries)",
        f"lost work, mean              {duration(sums['mean_lost_work_s'])}",
        f"restore, mean                {duration(sums['mean_restore_s'])}",
        f"wait for capacity, mean      {duration(sums['mean_wait_s'])}  (not billed)",
        f"lost hours per reclaim       L = {'–' if lost is None else f'{lost:.4f} h'}  (lost work + restore)",
        f"useful hours                 H = {'–' if sums['useful_hours'] is None else format(sums['useful_hours'], '.3f') + ' h'}",
        f"measured loss                rL/H = {'–' if ratio is None else format(ratio, '.4f')}",
    ]
    if even is None:
        lines.append("break-even                   d/(1−d) unknown: give the discount with --discount 70%")
    else:
        word = {True: "spot pays", False: "spot does not pay", None: "cannot be told yet"}[document["pays"]]
        lines.append(
            f"break-even at d = {format_fraction(document['discount'])}        d/(1−d) = {even:.4f}: {word}"
        )
    return lines


def duration(seconds: float | None) -> str:
    """A duration for people; unknown is –."""
    return "–" if seconds is None else format_duration(round(seconds, 1))

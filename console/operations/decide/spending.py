"""What rented machines have cost and what may still be spent: the fleet's limits, the job's, and the history. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass

from backends.clock import parse_utc
from backends.errors import ReprieveError
from backends.inventory.model import Renting
from backends.records.event import Event

KINDS = ("node.rented", "node.returned", "node.lost")  # events that rentals are read from


@dataclass(frozen=True)
class Rental:
    """One rented machine. Times are wall-clock seconds since 1970."""

    node: str
    uid: str  # of the job it was rented for
    usd_per_hour: float | None  # None: not known, never 0
    since: float
    until: float | None = None  # None: it is paid for still

    def usd(self, now: float, *, since: float = 0.0) -> float | None:
        """What it has cost after `since`, by its price when it was rented."""
        if self.usd_per_hour is None:
            return None
        end = now if self.until is None else min(now, self.until)
        return self.usd_per_hour * max(0.0, end - max(self.since, since)) / 3600.0


def rentals(events: Iterable[Event]) -> list[Rental]:
    """Every machine that was rented, by the history, oldest event first; a loss or a return ends it."""
    found: list[Rental] = []
    open_at: dict[str, int] = {}
    for event in events:
        try:
            at = parse_utc(event.time)
            since = parse_utc(event.data["rented_at"]) if isinstance(event.data.get("rented_at"), str) else at
        except ReprieveError:
            continue
        if event.node is None:
            continue
        if event.kind == "node.rented":
            usd = event.data.get("usd_per_hour")
            price = float(usd) if isinstance(usd, (int, float)) and not isinstance(usd, bool) else None
            open_at[event.node] = len(found)
            found.append(Rental(event.node, str(event.data.get("uid") or ""), price, min(since, at)))
        elif event.node in open_at:
            index = open_at.pop(event.node)
            old = found[index]
            found[index] = Rental(old.node, old.uid, old.usd_per_hour, old.since, at)
    return found


def month_start(now: float) -> float:
    """When the calendar month (UTC) of `now` began."""
    day = datetime.datetime.fromtimestamp(now, datetime.UTC)
    return day.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()


def left_usd(
    limits: Renting, uid: str, max_rent_usd: float | None, known: Iterable[Rental], now: float
) -> float | str:
    """What one more machine for job `uid` may cost, or the sentence that says why it may cost nothing.

    Args:
        limits: the fleet's; `max_usd` is for one machine's whole life.
        uid: the job.
        max_rent_usd: the job's own limit, over all machines ever rented for it.
        known: every machine rented so far.
        now: wall time.
    """
    left = limits.max_usd or 0.0
    rows = list(known)
    month = [row.usd(now, since=month_start(now)) for row in rows]
    mine = [row.usd(now) for row in rows if row.uid == uid]
    for name, limit, costs in (
        ("max_usd_month", limits.max_usd_month, month),
        ("the job's max_rent_usd", max_rent_usd, mine),
    ):
        if limit is None:
            continue
        if None in costs:
            return (
                f"{name} is {limit:g}, and what a rented machine costs is not known: nothing more is rented"
            )
        spent = sum(cost for cost in costs if cost is not None)
        if spent >= limit:
            return f"{spent:.2f} USD were spent on rented machines, and {name} is {limit:g}"
        left = min(left, limit - spent)
    return left


def over(limits: Renting, known: Iterable[Rental], now: float) -> dict[str, float]:
    """Machines paid for still that have cost more than `max_usd`: node → USD."""
    if limits.max_usd is None:
        return {}
    costs = {row.node: row.usd(now) for row in known if row.until is None}
    return {node: cost for node, cost in costs.items() if cost is not None and cost >= limits.max_usd}

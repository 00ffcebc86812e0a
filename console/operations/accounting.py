"""What reclaims cost, from the ledger: each one, the totals, and rL/H beside d/(1 − d)."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Any

from backends.clock import format_utc, parse_utc
from backends.errors import ReprieveError
from backends.ledger.port import Ledger
from backends.ledger.records import Reclaim
from planner.economics import break_even_ratio


@dataclass(frozen=True)
class Totals:
    """Means and sums over reclaims; None where nothing was measured."""

    reclaims: int
    lost_work_s: float | None  # sum
    restore_s: float | None
    wait_s: float | None
    mean_lost_work_s: float | None
    mean_restore_s: float | None
    mean_wait_s: float | None
    lost_hours_per_reclaim: float | None  # L: lost work and restore, both billed; the wait is not


def totals(reclaims: list[Reclaim]) -> Totals:
    """Totals of reclaims; a figure that one reclaim does not know is left out of that figure's mean only."""

    def known(name: str) -> list[float]:
        return [value for each in reclaims if (value := getattr(each, name)) is not None]

    lost, restore, wait = known("lost_work_s"), known("restore_s"), known("wait_s")
    both = [
        each.lost_work_s + each.restore_s
        for each in reclaims
        if each.lost_work_s is not None and each.restore_s is not None
    ]
    return Totals(
        len(reclaims),
        sum(lost) if lost else None,
        sum(restore) if restore else None,
        sum(wait) if wait else None,
        fmean(lost) if lost else None,
        fmean(restore) if restore else None,
        fmean(wait) if wait else None,
        fmean(both) / 3600 if both else None,
    )


def elapsed_s(ledger: Ledger, uids: set[str]) -> float | None:
    """Seconds from a job's first protection to the last moment it was seen running, summed; None: never seen."""
    current = ledger.jobs()
    found = []
    for uid in uids:
        job = current.get(uid)
        if job is None or job.running_at is None:
            continue
        starts = [
            event
            for _, event in ledger.events(limit=1_000_000, job=job.name)
            if event.kind == "job.protected"
        ]
        if not starts:
            continue
        try:
            found.append(max(0.0, job.running_at - parse_utc(starts[0].time)))
        except ReprieveError:
            continue
    return sum(found) if found else None


def report(
    ledger: Ledger, *, job: str | None = None, since: float | None = None, discount: float | None = None
) -> dict[str, Any]:
    """The `reprieve/report/v1` document.

    r counts reclaims of the provider, not moves or restores an operator asked for. H, the useful hours, is the
    elapsed time of the jobs less what the reclaims took. Unknown figures are null, never 0.

    Args:
        ledger: where they are kept.
        job: only this job.
        since: only reclaims detected after this wall time.
        discount: spot discount d to hold the loss against.
    """
    kept = [
        each for each in ledger.reclaims() if job in (None, each.job) and (since is None or each.at >= since)
    ]
    counted = [each for each in kept if each.cause == "reclaim" and each.outcome == "restored"]
    sums = totals(counted)
    current = ledger.jobs()
    uids = {uid for uid, known in current.items() if job in (None, known.name)}
    elapsed = elapsed_s(ledger, uids)
    spent = sum((each.lost_work_s or 0) + (each.restore_s or 0) + (each.wait_s or 0) for each in counted)
    useful = None if elapsed is None else max(0.0, elapsed - spent) / 3600
    ratio = None
    if useful is not None and useful > 0 and not counted:
        ratio = 0.0
    elif useful is not None and useful > 0 and sums.lost_hours_per_reclaim is not None:
        ratio = sums.reclaims * sums.lost_hours_per_reclaim / useful
    even = None if discount is None or not 0 <= discount < 1 else break_even_ratio(discount)
    return {
        "schema": "reprieve/report/v1",
        "job": job,
        "since": None if since is None else format_utc(since),
        "reclaims": [row(each) for each in kept],
        "totals": {
            **sums.__dict__,
            "useful_hours": useful,
            "failed_tries": sum(each.failed_tries for each in counted),
        },
        "lost_ratio": ratio,
        "discount": discount,
        "break_even_ratio": even,
        "pays": None if ratio is None or even is None else ratio < even,
        "observed_node_hours": ledger.observed_hours(),
    }


def row(each: Reclaim) -> dict[str, Any]:
    """One reclaim as machine formats show it."""
    return {
        "at": format_utc(each.at),
        "job": each.job,
        "cause": each.cause,
        "outcome": each.outcome,
        "from_node": each.from_node,
        "notice": each.notice,
        "notice_s": each.notice_s,
        "lost_work_s": each.lost_work_s,
        "lost_work_at_least_s": each.least_lost_s,
        "restore_s": each.restore_s,
        "wait_s": each.wait_s,
        "from_checkpoint": each.from_checkpoint,
        "to_node": each.to_node,
        "epoch": each.epoch,
        "failed_tries": each.failed_tries,
        "pool": each.pool,
    }

"""The books: what jobs cost on spot beside on-demand, by job, pool and month; measured only, unknown stays unknown.

With running hours W (seen by the controller or a console), lost work and restores: useful H = W − lost work, billed = W + restores.
On-demand would have billed H; spot billed its share of that at (1 − d), the on-demand fallback at 1 (contract section 3,
definition 4). Waiting for capacity is not billed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any, Literal

from backends.clock import format_utc
from backends.ledger.port import Ledger
from backends.ledger.records import Reclaim, SaveMeasure, Work
from planner.economics import break_even_ratio
from planner.hazards import posterior

By = Literal["job", "pool", "month"]
GIB = 1024.0**3
EVENTS = 10_000  # newest failed launches that are counted
MONTH_HOURS = 730.0  # the month of storage prices, as in `plan`


@dataclass(frozen=True)
class Terms:
    """Prices and discounts as given, each with its source; what is absent is unknown."""

    discount: float | None = None  # for every pool, when it was typed
    job_discounts: Mapping[str, float] = field(default_factory=dict)  # job → d of its record
    on_demand_usd: Mapping[str, float] = field(default_factory=dict)  # pool → USD per hour
    store_price: float | None = None  # USD per GiB and month
    transfer_price: float | None = None  # USD per GiB moved to or from the store
    keep: Mapping[str, int] = field(default_factory=dict)  # job → checkpoints kept
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Expected:
    """What the plan said for one job, from its record and measured saves."""

    lost_hours_per_reclaim: float | None
    reclaim_rate_per_hour: float | None


@dataclass
class _Bucket:
    """Everything of one group."""

    work: list[Work] = field(default_factory=list)
    reclaims: list[Reclaim] = field(default_factory=list)
    saved_bytes: float = 0.0
    fetched_bytes: float = 0.0
    kept_gib_hours: float = 0.0
    failed_launches: int | None = None  # None: not told for this kind of group


def accounts(
    ledger: Ledger,
    by: By,
    terms: Terms,
    expected: Mapping[str, Expected] | None = None,
    *,
    job: str | None = None,
    since: float | None = None,
) -> list[dict[str, Any]]:
    """One row a group, by name.

    Args:
        ledger: where everything was measured.
        by: what a group is.
        terms: discounts and prices.
        expected: job → its plan; used for groups by job.
        job: only this job.
        since: only months and reclaims from this wall time on.
    """
    buckets = _collect(ledger, by, terms, job, since)
    if by != "job" and job is None:
        _count_launches(ledger, by, buckets, since)
    return [_row(by, name, buckets[name], terms, expected or {}) for name in sorted(buckets)]


def _collect(
    ledger: Ledger, by: By, terms: Terms, job: str | None, since: float | None
) -> dict[str, _Bucket]:
    first = "" if since is None else format_utc(since)[:7]
    buckets: dict[str, _Bucket] = {}
    every = [w for w in ledger.work() if job in (None, w.job) and w.month >= first]
    for work in every:
        name = {"job": work.job, "pool": work.pool or "–", "month": work.month}[by]
        buckets.setdefault(name, _Bucket()).work.append(work)
    for each in ledger.reclaims():
        if job not in (None, each.job) or (since is not None and each.at < since) or each.cause != "reclaim":
            continue
        name = {"job": each.job, "pool": each.pool or "–", "month": format_utc(each.at)[:7]}[by]
        buckets.setdefault(name, _Bucket()).reclaims.append(each)
    names = {work.uid: work.job for work in every}
    for uid, name in names.items():
        _add_saves(buckets, by, name, uid, ledger.saves(uid), [w for w in every if w.uid == uid], terms)
    return buckets


def _count_launches(ledger: Ledger, by: By, buckets: dict[str, _Bucket], since: float | None) -> None:
    """Requests for a machine that came to nothing, by the history: they cost waiting, and no provider bills them."""
    for bucket in buckets.values():
        bucket.failed_launches = 0
    for _, event in ledger.events(limit=EVENTS, kinds=("capacity.short",)):
        pool = event.data.get("pool")
        name = str(pool) if by == "pool" else event.time[:7]
        if isinstance(pool, str) and name in buckets and (since is None or event.time >= format_utc(since)):
            buckets[name].failed_launches = (buckets[name].failed_launches or 0) + 1


def _add_saves(
    buckets: dict[str, _Bucket],
    by: By,
    job: str,
    uid: str,
    saves: list[SaveMeasure],
    work: list[Work],
    terms: Terms,
) -> None:
    """Bytes moved and kept; between pools they are shared out by running time, for no save names its pool."""
    total = sum(w.seconds for w in work)
    if not saves or not total:
        return
    size = {save.checkpoint: save.size_bytes for save in saves}
    kept = terms.keep.get(job, 3) * median(size.values()) / GIB
    for part in work:
        bucket = buckets[{"job": job, "pool": part.pool or "–", "month": part.month}[by]]
        share = part.seconds / total
        in_month = [save for save in saves if format_utc(save.at)[:7] == part.month]
        month_s = sum(w.seconds for w in work if w.month == part.month)
        bucket.saved_bytes += sum(save.size_bytes for save in in_month) * part.seconds / month_s
        bucket.kept_gib_hours += kept * total / 3600 * share
    for bucket in buckets.values():
        bucket.fetched_bytes += sum(
            size.get(each.from_checkpoint or "", 0) for each in bucket.reclaims if each.uid == uid
        )


def _row(
    by: By, name: str, bucket: _Bucket, terms: Terms, expected: Mapping[str, Expected]
) -> dict[str, Any]:
    done = [each for each in bucket.reclaims if each.outcome == "restored"]
    failed = [each for each in bucket.reclaims if each.outcome == "failed"]
    running = sum(w.seconds for w in bucket.work) / 3600 if bucket.work else None
    fallback = sum(w.seconds for w in bucket.work if w.market == "on_demand") / 3600
    lost, restore = _hours(done, "lost_work_s"), _hours(done, "restore_s")
    loss = None if lost is None or restore is None else lost + restore
    useful = None if running is None or lost is None else max(0.0, running - lost)
    billed = None if running is None or restore is None else running + restore
    per_reclaim = None if not done or loss is None else loss / len(done)
    ratio = None if useful is None or not useful or loss is None else loss / useful
    d = _discount(bucket, terms)
    cost = None if billed is None or d is None else (billed - fallback) * (1 - d) + fallback
    saving = None if cost is None or useful is None else useful - cost
    even = None if d is None or d < 0 else break_even_ratio(d)
    plan = expected.get(name) if by == "job" else None
    rate = None if not running else len(done) / running
    row = {
        "name": name,
        "by": by,
        "running_hours": running,
        "useful_hours": useful,
        "billed_hours": billed,
        "on_demand_fallback_hours": fallback if bucket.work else None,
        "reclaims": len(done),
        "noticed": sum(each.notice is True for each in done),
        "mean_notice_s": _mean([each.notice_s for each in done]),
        "losses_not_restored": len(failed),
        "failed_tries": sum(each.failed_tries for each in bucket.reclaims),
        "failed_launches": bucket.failed_launches,
        "lost_work_hours": lost,
        "restore_hours": restore,
        "wait_hours": _hours(done, "wait_s"),
        "lost_hours_per_reclaim": per_reclaim,
        "planned_lost_hours_per_reclaim": plan.lost_hours_per_reclaim if plan is not None else None,
        "reclaim_rate_per_hour": rate,
        "planned_reclaim_rate_per_hour": plan.reclaim_rate_per_hour if plan is not None else None,
        "lost_ratio": ratio,
        "discount": d,
        "break_even_ratio": even,
        "pays": None if ratio is None or even is None else ratio < even,
        "saving_on_demand_hours": saving,
        "saving_fraction": None if saving is None or not useful else saving / useful,
    }
    return {**row, **_posterior(running, len(done)), **_usd(bucket, useful, billed, fallback, d, terms)}


def _hours(reclaims: list[Reclaim], name: str) -> float | None:
    """Sum in hours; None as soon as one of them does not know it."""
    values = [getattr(each, name) for each in reclaims]
    return None if None in values else sum(values) / 3600


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _discount(bucket: _Bucket, terms: Terms) -> float | None:
    """The typed discount, else the one that all jobs of the group agree on."""
    if terms.discount is not None:
        return terms.discount
    found = {
        terms.job_discounts.get(job)
        for job in {w.job for w in bucket.work} | {r.job for r in bucket.reclaims}
    }
    return found.pop() if len(found) == 1 else None


def _posterior(running: float | None, count: int) -> dict[str, Any]:
    """The rate that the planner now takes from this group's own history, with its 5 and 95 % quantiles."""
    names = ("posterior_rate_per_hour", "posterior_low_per_hour", "posterior_high_per_hour")
    if not running:
        return {**dict.fromkeys(names), "posterior_source": None}
    found = posterior(0.0, 0.0, running, count, published=False)
    values = (found.mean_per_hour, found.low_per_hour, found.high_per_hour)
    source = f"own history: {count} reclaims in {running:.1f} running hours, without a published figure"
    return {**dict(zip(names, values, strict=True)), "posterior_source": source}


def _usd(
    bucket: _Bucket,
    useful: float | None,
    billed: float | None,
    fallback: float,
    d: float | None,
    terms: Terms,
) -> dict[str, Any]:
    """USD where every price is known: on-demand, spot, fallback, storage, transfer, and what is saved net of all of it."""
    price, total = None, sum(w.seconds for w in bucket.work)
    if total and all(w.pool in terms.on_demand_usd for w in bucket.work):  # the mean over running time
        price = sum(terms.on_demand_usd[w.pool] * w.seconds for w in bucket.work) / total
    full = None if price is None or useful is None else price * useful
    spot = None if price is None or billed is None or d is None else price * (1 - d) * (billed - fallback)
    beside = None if price is None else price * fallback
    stored = None if terms.store_price is None else bucket.kept_gib_hours / MONTH_HOURS * terms.store_price
    moved = (
        None
        if terms.transfer_price is None
        else (bucket.saved_bytes + bucket.fetched_bytes) / GIB * terms.transfer_price
    )
    gross = None if full is None or spot is None or beside is None else full - spot - beside
    net = None if gross is None or stored is None or moved is None else gross - stored - moved
    return {
        "on_demand_usd": full,
        "spot_usd": spot,
        "fallback_usd": beside,
        "storage_usd": stored,
        "transfer_usd": moved,
        "saving_before_storage_usd": gross,
        "saving_usd": net,
    }


def expected_of(saves: list[SaveMeasure], restores_s: list[float], interval_s: float | None, hours: float,
                rate_per_hour: float | None) -> Expected:  # fmt: skip
    """The plan of one job from what its saves and restores take: L by the closed form at its interval.

    Args:
        saves: measured saves; medians count.
        restores_s: measured restores.
        interval_s: work between two saves as its guard uses it.
        hours: useful work so far, hours.
        rate_per_hour: the published figure of its pool; None: unknown, and L is taken at one reclaim in those hours.
    """
    from planner.advice import evaluate
    from planner.plan.inputs import PlanError, PlanInputs

    if not saves or not restores_s or not interval_s or not hours > 0:
        return Expected(None, rate_per_hour)
    inputs = PlanInputs(
        hours=max(hours, 2 * interval_s / 3600),
        discount=0.5,
        rate=rate_per_hour or 1.0 / hours,
        checkpoint_cost=median(save.freeze_s for save in saves) / 3600,
        upload=min(median(save.upload_s for save in saves), interval_s) / 3600,
        restore=median(restores_s) / 3600,
        interval=interval_s / 3600,
    )
    try:
        lost = evaluate(inputs)["lost_hours_per_reclaim"]
    except PlanError:
        return Expected(None, rate_per_hour)
    return Expected(lost if isinstance(lost, float) else None, rate_per_hour)

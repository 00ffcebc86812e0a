"""Which nodes of the fleet could take a job's checkpoint, looked at now, before anything is lost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal

from backends.errors import IncompatibleError
from backends.records.job import Job
from console.operations.common.candidates import candidate
from console.operations.common.locate import check_protected, running_epoch
from console.operations.decide.placement import Candidate, why_not
from console.operations.fleet import Fleet
from console.operations.truth import SaveView

FitWord = Literal["fits", "fits_with_warnings", "refused", "unknown"]


@dataclass(frozen=True)
class NodeFit:
    """One node's answer."""

    candidate: Candidate
    word: FitWord
    reason: str
    home: bool  # the job runs there now


async def fits(fleet: Fleet, job: Job, checkpoint: str | None = None) -> tuple[SaveView, list[NodeFit]]:
    """The checkpoint (default: the newest that can be read) and every node's answer, best first.

    A node that does not answer is `unknown`: nothing is known of it now. One that is cordoned or about to be taken, or that
    the job's restore policy leaves out, is `refused` with that reason.

    Raises:
        UsageError: the job was never protected. IncompatibleError: it has no such checkpoint.
    """
    check_protected(job)
    saves = await fleet.blocking(fleet.truth(job).saves, job.uid, fleet.job_key(job.uid))
    save = next(
        (each for each in saves if each.usable and not each.orphan and checkpoint in (None, each.checkpoint)),
        None,
    )
    if save is None:
        raise IncompatibleError(
            f"job {job.name} has no usable checkpoint{f' {checkpoint}' if checkpoint else ''}",
            hint=f"reprieve checkpoints list {job.name}",
        )
    epoch = await running_epoch(fleet, job)
    home = epoch.target if epoch is not None else job.node
    nodes = fleet.records.nodes()
    found = await asyncio.gather(
        *(candidate(fleet, node, job, save.fingerprint, {}) for node in nodes.values())
    )
    pool = nodes[home].pool if home in nodes else None
    rows = [_fit(each, job, pool, each.name == home) for each in found]
    order: tuple[FitWord, ...] = ("fits", "fits_with_warnings", "unknown", "refused")
    return save, sorted(rows, key=lambda row: (order.index(row.word), row.candidate.name))


def _fit(seen: Candidate, job: Job, pool: str | None, home: bool) -> NodeFit:
    if seen.state in ("late", "unreachable", "lost", "not_ready"):
        return NodeFit(seen, "unknown", f"{seen.state}: {seen.reason}", home)
    if seen.gate == "unknown":
        return NodeFit(seen, "unknown", "; ".join(seen.gate_reasons) or "it told nothing", home)
    if seen.gate == "refuse":
        return NodeFit(seen, "refused", "; ".join(seen.gate_reasons), home)
    obstacle = why_not(seen, None, job.restore, pool)
    if obstacle is not None:
        return NodeFit(seen, "refused", obstacle, home)
    here = "the job runs here now" if home else ""
    if seen.gate == "warn":
        return NodeFit(seen, "fits_with_warnings", "; ".join(filter(None, (here, *seen.gate_reasons))), home)
    return NodeFit(seen, "fits", here, home)

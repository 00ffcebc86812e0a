"""The three costs of a reclaim, measured: lost work, restore, wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backends.clock import parse_utc
from console.operations.common.runs import Notebook
from console.operations.fleet import Fleet


@dataclass(frozen=True)
class Costs:
    """Seconds; None is unknown."""

    lost_work_s: float | None = (
        None  # freeze instant of the checkpoint used → death proven: never below the truth
    )
    least_lost_s: float | None = (
        None  # the same → last moment the old process was seen running: never above it
    )
    restore_s: float | None = None  # loss detected → proof of life, without wait_s
    gap_s: float | None = None  # freeze instant of the checkpoint used → proof of life
    wait_s: float | None = None  # no node was ready that could take the job; 0 when one was at once


def measure(fleet: Fleet, book: Notebook, named: dict[str, Any] | None) -> Costs:
    """The costs of the restore in `book`, whose continues was `named`; the first answer is kept for good.

    The freeze instant is by the old node's wall clock and is corrected by that node's measured offset (`frozen_at`).
    """
    done = book.first("result")
    if done is not None:
        return Costs(**done.data)
    if named is None:
        return Costs()
    begin = book.first("begin")
    frozen = frozen_at(fleet, named)
    wait_s = 0.0 if begin is None else float(begin.data.get("no_node_s", 0.0))

    def since(moment: float | None) -> float | None:
        return None if moment is None or frozen is None else max(0.0, moment - frozen)

    return Costs(
        lost_work_s=since(dead_at(book)),
        least_lost_s=since(begin.data.get("running_at") if begin is not None else None),
        restore_s=None
        if begin is None
        else max(0.0, fleet.clock.wall() - begin.data["detected_at"] - wait_s),
        gap_s=since(fleet.clock.wall()),
        wait_s=None if begin is None else wait_s,
    )


def frozen_at(fleet: Fleet, named: dict[str, Any]) -> float | None:
    """The freeze instant of the checkpoint that a continues names, by our clock; None: unknown."""
    frozen, offset = named.get("frozen_at"), named.get("clock_offset_s")
    if offset is None:
        seen = fleet.ledger.nodes().get(named.get("made_on") or "")
        offset = 0.0 if seen is None or seen.clock_offset_s is None else seen.clock_offset_s
    return None if frozen is None else float(frozen) - float(offset)


def dead_at(book: Notebook) -> float | None:
    """The earliest wall time at which the old process was proven gone: it died then or before. None: unknown.

    That is the controller's detection, which needs proof, or the proof that this restore had at its beginning or in
    its first claim.
    """
    begin = book.first("begin")
    found = [] if begin is None else [begin.data.get("proven_at")]
    found += [parse_utc(claim["proof"]["at"]) for claim in book.intended("claim")[:1] if claim["proof"]["at"]]
    return min((moment for moment in found if moment is not None), default=None)

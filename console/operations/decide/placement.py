"""Which node takes a job: compatible, free, not cordoned, not about to be taken; a reason for each that does not fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from backends.records.node import NodeState, NoticeState

GateWord = Literal["ok", "warn", "refuse", "unknown"]


@dataclass(frozen=True)
class GateAnswer:
    """What the compatibility gate says of one node."""

    word: GateWord
    reasons: tuple[str, ...] = ()  # one sentence for each property that is not plainly fine
    overridden: dict[str, str] = field(default_factory=dict)  # property → the operator's reason
    rows: tuple[dict[str, Any], ...] = ()  # every property: verdict, message, saved, here, overridable


@dataclass(frozen=True)
class Candidate:
    """One node as placement sees it."""

    name: str
    state: NodeState
    reason: str = ""  # of the state
    pool: str | None = None
    notice: NoticeState | None = "none"
    jobs: int = 0  # live jobs there
    gate: GateWord = "ok"
    gate_reasons: tuple[str, ...] = ()
    overridden: dict[str, str] = field(default_factory=dict)
    rows: tuple[dict[str, Any], ...] = ()
    live: frozenset[str] = frozenset()  # uids of the jobs counted in `jobs`


@dataclass(frozen=True)
class Placement:
    """The node chosen, or None; and why each other one was not."""

    node: str | None
    refused: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    overridden: dict[str, str] = field(default_factory=dict)  # refusals of the gate that were set aside

    def explain(self) -> str:
        """All refusals in one line."""
        return (
            "; ".join(f"{name}: {reason}" for name, reason in sorted(self.refused.items()))
            or "no node at all"
        )


def why_not(candidate: Candidate, to: str | None, policy: str, home_pool: str | None) -> str | None:
    """The first reason why `candidate` cannot take the job; None when it can.

    Args:
        candidate: the node.
        to: a node's name, a pool, or None for any.
        policy: the job's `restore` policy; `same-pool` keeps it in `home_pool`. Asked for by name, a node
            of another pool is allowed.
        home_pool: pool of the node that the job came from.
    """
    if to is not None and to not in (candidate.name, candidate.pool):
        return f"not {to}"
    if candidate.state != "ok":
        return f"{candidate.state}{': ' + candidate.reason if candidate.reason else ''}"
    if candidate.notice == "notice":
        return "its provider has announced that it will be taken"
    if policy == "same-pool" and to is None and candidate.pool != home_pool:
        return f"pool {candidate.pool or 'unknown'} is not {home_pool or 'known'}, and the job's policy is same-pool"
    if candidate.gate in ("refuse", "unknown"):
        return ", ".join(candidate.gate_reasons) or "incompatible"
    return None


def place(
    candidates: list[Candidate],
    *,
    to: str | None = None,
    policy: str = "owned",
    home_pool: str | None = None,
    exclude: dict[str, str] | None = None,
) -> Placement:
    """Choose the least loaded node that fits; ties: no hint of a reclaim, no gate warning, same pool, name.

    `exclude` maps a node that was tried already to what happened there.
    """
    refused: dict[str, str] = {}
    fits: list[Candidate] = []
    for candidate in candidates:
        reason = (exclude or {}).get(candidate.name) or why_not(candidate, to, policy, home_pool)
        if reason is None:
            fits.append(candidate)
        else:
            refused[candidate.name] = reason
    if to is not None and all(to not in (candidate.name, candidate.pool) for candidate in candidates):
        refused = {to: "no node or pool of this fleet has this name"}
    if not fits:
        return Placement(None, refused)
    best = min(
        fits,
        key=lambda c: (c.notice == "hint", c.jobs, c.gate == "warn", c.pool != home_pool, c.name),
    )
    warnings = best.gate_reasons if best.gate == "warn" else ()
    return Placement(best.name, refused, warnings, best.overridden)

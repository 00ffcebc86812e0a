"""The nodes that could take a job, asked all at once."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, cast

from backends.errors import ReprieveError
from backends.records.job import Job
from backends.records.node import Node
from console.operations.common.witness import ENDED, PATIENT_S, STATUS_S, ask_node
from console.operations.decide.placement import Candidate, Placement, place
from console.operations.fleet import Fleet

FACTS_S = 15.0
GateWord = Literal["ok", "warn", "refuse", "unknown"]


async def candidate(
    fleet: Fleet, node: Node, fingerprint: dict[str, Any], force: dict[str, str], timeout_s: float = STATUS_S
) -> Candidate:
    """One node as placement sees it: its guard's status, its facts through the gate."""
    status, verdict = await ask_node(fleet, node, timeout_s=timeout_s)
    if status is None:
        return Candidate(node.name, verdict.state, verdict.reason, node.pool, None)
    live = sum(1 for job in status.jobs if job.state not in ENDED)
    try:
        facts = await fleet.ask(node, "facts", {}, timeout_s=FACTS_S)
    except ReprieveError as error:
        return Candidate(
            node.name,
            verdict.state,
            verdict.reason,
            node.pool,
            status.notice,
            live,
            "unknown",
            (error.message,),
        )
    word, reasons = fleet.gate(fingerprint, facts, force)
    return Candidate(
        node.name,
        verdict.state,
        verdict.reason,
        node.pool,
        status.notice,
        live,
        cast(GateWord, word),
        reasons,
    )


async def find_place(
    fleet: Fleet,
    job: Job,
    fingerprint: dict[str, Any],
    *,
    to: str | None,
    exclude: dict[str, str],
    force: dict[str, str],
) -> Placement:
    """Where `job` fits now; a node asked for by name is the only one asked.

    When nothing fits, those that gave no answer are asked once more with patience: a node under load is not gone.
    """
    nodes = fleet.records.nodes()
    home = nodes.get(job.node)
    asked = [nodes[to]] if to in nodes else [node for name, node in nodes.items() if name not in exclude]
    skipped = [
        Candidate(name, "ok", pool=nodes[name].pool) for name in exclude if name in nodes and name != to
    ]
    found: dict[str, Candidate] = {}
    for timeout_s in (STATUS_S, PATIENT_S):
        answers = await asyncio.gather(
            *(candidate(fleet, node, fingerprint, force, timeout_s) for node in asked)
        )
        found |= {each.name: each for each in answers}
        placement = place(
            [*found.values(), *skipped],
            to=to,
            policy=job.restore,
            home_pool=None if home is None else home.pool,
            exclude=exclude,
        )
        asked = [nodes[each.name] for each in found.values() if each.state in ("late", "unreachable")]
        if placement.node is not None or not asked:
            break
    return placement

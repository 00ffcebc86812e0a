"""The nodes that could take a job, asked all at once."""

from __future__ import annotations

import asyncio
from typing import Any

from backends.errors import ReprieveError, UsageError
from backends.records.job import Job
from backends.records.node import Node
from console.operations.common.witness import ENDED, ask_node
from console.operations.decide.placement import Candidate, GateAnswer, Placement, place
from console.operations.fleet import Fleet

FACTS_S = 15.0
PATHS_LIMIT = 256  # files whose identity a node tells in one call


async def candidate(
    fleet: Fleet, node: Node, job: Job, fingerprint: dict[str, Any], force: dict[str, str]
) -> Candidate:
    """One node as placement sees it: its guard's status, its facts through the gate."""
    status, verdict = await ask_node(fleet, node)
    if status is None:
        return Candidate(node.name, verdict.state, verdict.reason, node.pool, None)
    live = sum(1 for each in status.jobs if each.state not in ENDED)
    files = fingerprint.get("files")
    paths = sorted(files)[:PATHS_LIMIT] if isinstance(files, dict) else []
    try:
        facts = await fleet.ask(node, "facts", {"paths": paths}, timeout_s=FACTS_S)
        answer = fleet.gate(fingerprint, facts, force, job.runtime)
    except UsageError:  # an override that cannot be
        raise
    except ReprieveError as error:
        answer = GateAnswer("unknown", (error.message,))
    return Candidate(
        node.name,
        verdict.state,
        verdict.reason,
        node.pool,
        status.notice,
        live,
        answer.word,
        answer.reasons,
        answer.overridden,
        answer.rows,
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
    """Where `job` fits now; a node asked for by name is the only one asked."""
    nodes = fleet.records.nodes()
    home = nodes.get(job.node)
    asked = [nodes[to]] if to in nodes else [node for name, node in nodes.items() if name not in exclude]
    found = await asyncio.gather(*(candidate(fleet, node, job, fingerprint, force) for node in asked))
    skipped = [
        Candidate(name, "ok", pool=nodes[name].pool) for name in exclude if name in nodes and name != to
    ]
    return place(
        [*found, *skipped],
        to=to,
        policy=job.restore,
        home_pool=None if home is None else home.pool,
        exclude=exclude,
    )

"""The nodes that could take a job: the likeliest asked first, and all of them when none of those fits."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, Protocol

from backends.errors import ReprieveError, UsageError
from backends.records.fingerprint import FILES_LIMIT
from backends.records.job import Job
from backends.records.node import Node
from backends.records.status import NodeStatus
from console.operations.common.witness import ENDED, PATIENT_S, STATUS_S, ask_node
from console.operations.decide.loss import NodeVerdict
from console.operations.decide.placement import Candidate, GateAnswer, Placement, place, why_not
from console.operations.fleet import Fleet

FACTS_S = 15.0
AT_ONCE = 8  # nodes asked at once where it is known which ones answer

Coming = dict[str, set[str]]
Heard = dict[str, tuple[NodeStatus | None, NodeVerdict]]


class Hearing(Protocol):
    """Somebody who looks at every node all the time, so that nobody has to be asked again."""

    def heard(self) -> Heard:
        """Each node's newest status and what it makes of the node."""
        ...


async def candidate(
    fleet: Fleet,
    node: Node,
    job: Job,
    fingerprint: dict[str, Any],
    force: dict[str, str],
    known: tuple[NodeStatus | None, NodeVerdict] | None = None,
    timeout_s: float = STATUS_S,
) -> Candidate:
    """One node as placement sees it: its guard's status (asked now, unless `known`), its facts through the gate."""
    status, verdict = known or await ask_node(fleet, node, timeout_s=timeout_s)
    if status is None or verdict.state in ("late", "unreachable", "lost", "not_ready"):
        return Candidate(node.name, verdict.state, verdict.reason, node.pool, None)
    live = frozenset(each.uid for each in status.jobs if each.state not in ENDED)
    files = fingerprint.get("files")
    paths = sorted(files)[:FILES_LIMIT] if isinstance(files, dict) else []
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
        len(live),
        answer.word,
        answer.reasons,
        answer.overridden,
        answer.rows,
        live,
    )


async def find_place(
    fleet: Fleet,
    job: Job,
    fingerprint: dict[str, Any],
    *,
    to: str | None,
    exclude: dict[str, str],
    force: dict[str, str],
    hearing: Hearing | None = None,
    reserve: bool = False,
) -> Placement:
    """Where `job` fits now; a node asked for by name is the only one asked.

    With `hearing`, nodes that are not `ok` are not asked, and of the others only as many, least loaded first, as it
    takes to find one that fits: a fleet of a thousand nodes is not asked a thousand times. `reserve` counts the job on
    its node from now on, also before its guard shows it, so that restores at the same time spread. When nothing fits,
    nodes that gave no answer are asked once more with patience: a node under load is not gone.
    """
    nodes = fleet.records.nodes()
    home = nodes.get(job.node)
    home_pool = None if home is None else home.pool
    asked = [nodes[to]] if to in nodes else [node for name, node in nodes.items() if name not in exclude]
    skipped = [
        Candidate(name, "ok", pool=nodes[name].pool) for name in exclude if name in nodes and name != to
    ]

    def choose(found: dict[str, Candidate]) -> Placement:
        coming = _coming(fleet, job)  # now: others may have chosen while nodes were asked
        counted = [_counted(coming, each) for each in found.values()]
        return place([*counted, *skipped], to=to, policy=job.restore, home_pool=home_pool, exclude=exclude)

    found: dict[str, Candidate] = {}
    if hearing is not None:
        heard = await _likeliest(fleet, job, fingerprint, force, asked, hearing.heard(), to, home_pool)
        chosen = choose({each.name: each for each in heard})
    else:
        for timeout_s in (STATUS_S, PATIENT_S):
            answers = await asyncio.gather(
                *(candidate(fleet, node, job, fingerprint, force, timeout_s=timeout_s) for node in asked)
            )
            found |= {each.name: each for each in answers}
            chosen = choose(found)
            asked = [nodes[each.name] for each in found.values() if each.state in ("late", "unreachable")]
            if chosen.node is not None or not asked:
                break
    if reserve:
        fleet.placing.pop(job.uid, None)
        if chosen.node is not None:
            fleet.placing[job.uid] = chosen.node
    return chosen


async def _likeliest(
    fleet: Fleet,
    job: Job,
    fingerprint: dict[str, Any],
    force: dict[str, str],
    asked: list[Node],
    heard: Heard,
    to: str | None,
    home_pool: str | None,
) -> list[Candidate]:
    """Candidates until one fits: those that answer, least loaded first; the others as they were heard last."""
    found, likely, coming = [], [], _coming(fleet, job)
    for node in asked:
        status, verdict = heard.get(node.name, (None, NodeVerdict("unreachable", "no answer yet")))
        seen = Candidate(
            node.name, verdict.state, verdict.reason, node.pool, status.notice if status else None
        )
        if status is None or why_not(seen, to, job.restore, home_pool) is not None:
            found.append(seen)
            continue
        live = frozenset(each.uid for each in status.jobs if each.state not in ENDED)
        load = len(live) + _placed(coming, node.name, live)
        likely.append(
            ((status.notice == "hint", load, node.pool != home_pool, node.name), node, status, verdict)
        )
    likely.sort(key=lambda each: each[0])
    for start in range(0, len(likely), AT_ONCE):
        some = await asyncio.gather(
            *(
                candidate(fleet, node, job, fingerprint, force, (status, verdict))
                for _, node, status, verdict in likely[start : start + AT_ONCE]
            )
        )
        found += some
        if any(why_not(each, to, job.restore, home_pool) is None for each in some):
            break
    return found


def _coming(fleet: Fleet, job: Job) -> Coming:
    """Uids of the other jobs that this program is bringing, by node."""
    found: Coming = {}
    for uid, where in list(fleet.placing.items()):
        if uid != job.uid:
            found.setdefault(where, set()).add(uid)
    return found


def _placed(coming: Coming, node: str, live: frozenset[str]) -> int:
    """Jobs that this program is bringing to `node` and that its guard does not show yet."""
    return len(coming.get(node, set()) - live)


def _counted(coming: Coming, seen: Candidate) -> Candidate:
    return dataclasses.replace(seen, jobs=seen.jobs + _placed(coming, seen.name, seen.live))

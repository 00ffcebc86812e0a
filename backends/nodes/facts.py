"""Facts of a node as the console uses them: strictly read, cleaned, with the offset of the node's clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backends.clean import clean
from backends.clock import Clock
from backends.nodes.port import NodeLink
from backends.records.facts import Facts
from backends.records.strict import read

FACTS_S = 60.0  # the first look on a node tries CRIU, which takes a second or two, 20 s at most


@dataclass(frozen=True)
class Looked:
    """One look at a node."""

    facts: Facts
    clock_offset_s: float  # node's wall clock minus ours
    offset_within_s: float  # the offset is right to this: half of how long the call took


async def node_facts(
    link: NodeLink, clock: Clock, *, what: str, paths: tuple[str, ...] = (), timeout_s: float = FACTS_S
) -> Looked:
    """Look at the node behind `link`; `what` names it in errors.

    Args:
        link: the node.
        clock: ours, to compare the node's with.
        what: such as `node gpu-a`.
        paths: files whose identity is wanted too.
        timeout_s: for the whole call.

    Raises:
        DamagedError: the answer is not what facts look like.
        UnreachableError, ReprieveError: as `NodeLink.call`.
    """
    wall, before = clock.wall(), clock.monotonic()
    answer = await link.call("facts", {"paths": list(paths)}, timeout_s=timeout_s)
    took_s = clock.monotonic() - before
    # Fields of a newer guard are passed over; protocol numbers tell what cannot be understood.
    facts = read(Facts, cleaned(answer), what=f"{what}: facts", ignore_unknown=True)
    return Looked(facts, facts.wall_s - (wall + took_s / 2), took_s / 2)


def cleaned(value: Any) -> Any:
    """A parsed document with every text of it, keys included, made safe to draw and store."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): cleaned(item) for key, item in value.items()}
    return value

"""Which of the things that a fleet created at a provider may be removed. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from backends.clouds.port import Owned

YOUNG_S = 900.0  # a machine that nobody knows may belong to a request under way


@dataclass(frozen=True)
class Judged:
    """One thing, whether it may go, and why or why not."""

    thing: Owned
    node: str | None  # the node's name in the records
    removable: bool
    reason: str


def judge(
    things: list[Owned],
    nodes: dict[str, str],
    live: dict[str, tuple[str, ...]],
    ages_s: dict[str, float | None],
    *,
    young_s: float = YOUNG_S,
) -> list[Judged]:
    """Judge each thing.

    Args:
        things: what carries the fleet's mark.
        nodes: instance id → name of the node in the records.
        live: node → names of jobs that live there, or may.
        ages_s: id → seconds since it was created, by the provider's own clock; None: not known.
        young_s: younger machines that are no node of the fleet are left alone.
    """
    found = []
    for thing in things:
        node = nodes.get(thing.id)
        age = ages_s.get(thing.id)
        if node is not None and live.get(node):
            found.append(Judged(thing, node, False, f"jobs live there: {', '.join(live[node])}"))
        elif thing.kind == "instance" and node is None and (age is None or age < young_s):
            told = "not known" if age is None else f"{age:.0f} s"
            found.append(Judged(thing, None, False, f"its age is {told}: a request may be under way"))
        elif thing.kind == "template":
            found.append(Judged(thing, None, True, "made anew when it is needed"))
        else:
            found.append(Judged(thing, node, True, "no live job" if node else "no node of this fleet"))
    return found

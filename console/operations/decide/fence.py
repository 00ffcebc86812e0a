"""Which silent nodes the controller turns off by itself: opt-in, after long silence, and never when we may be the silent ones."""

from __future__ import annotations

from dataclasses import dataclass

from backends.records.node import NodeState

AGAIN_S = 600.0  # a machine that was asked to end is asked again after this


@dataclass(frozen=True)
class Suspect:
    """One node as this decision sees it."""

    name: str
    state: NodeState
    silence_s: float | None  # None: it never answered
    terminate_after_s: float | None  # None: its record says wait
    jobs: int  # protected jobs that live there
    can_end: bool  # its provider or a fence command can end it
    asked_ago_s: float | None = None  # since it was last asked to end


@dataclass(frozen=True)
class Fencing:
    """Nodes to turn off now, each with the reason; and why nothing is turned off although something is due."""

    nodes: dict[str, str]
    held_back: str = ""


def to_fence(suspects: list[Suspect], *, store_answers: bool) -> Fencing:
    """Nodes that are due, unless the silence is more likely ours.

    A controller that cannot write its heartbeat, or that hears fewer nodes than it misses, is probably cut off itself: then
    nothing is turned off. `not_ready` nodes answer, so they are never due. Turning off is no proof: the restore
    waits for the provider or the fence command to confirm it.
    """
    due: dict[str, str] = {}
    for each in suspects:
        if each.state != "unreachable" or each.terminate_after_s is None or each.silence_s is None:
            continue
        waits = each.asked_ago_s is not None and each.asked_ago_s < AGAIN_S
        if each.silence_s < each.terminate_after_s or not each.jobs or not each.can_end or waits:
            continue
        due[each.name] = (
            f"silent for {each.silence_s:.0f} s, and its record says terminate after {each.terminate_after_s:.0f} s"
        )
    silent = sum(each.state in ("unreachable", "late") for each in suspects)
    heard = sum(each.state in ("ok", "cordoned", "not_ready") for each in suspects)
    if not due:
        return Fencing({})
    if not store_answers:
        return Fencing({}, "the store does not answer either: this controller may be cut off")
    if len(suspects) > 1 and silent > heard:
        return Fencing({}, f"{silent} nodes are silent and {heard} answer: this controller may be cut off")
    return Fencing(due)

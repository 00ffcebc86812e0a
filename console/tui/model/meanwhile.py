"""The line below the guide's sentence: what happens at this moment, and what can be tried meanwhile."""

from __future__ import annotations

from console.operations.view import FleetView
from console.tui.model import columns, text

SAVING = (
    "protected",
    "unrehearsed",
    "overdue",
    "noticed",
    "trial",
)  # states in which a guard plans a next save
KEYS = "S saves, M moves, ↵ tells more, 4 shows events, ? every key"


def meanwhile(awaited: str, view: FleetView | None, now: float) -> str:
    """What is awaited, which host will be taken when, each job's next save, and what to press.

    Args:
        awaited: what the story waits for; may be empty.
        view: the newest snapshot, None before the first.
        now: wall time in seconds.
    """
    parts = [awaited] if awaited else []
    if view is not None:
        parts += _announced(view, now, awaited)
        saves = _saves(view, now)
        parts += [f"next save: {', '.join(saves)}"] if saves else []
        parts += [KEYS] if view.jobs else []
    return f"Now: {' · '.join(parts)}" if parts else ""


def _announced(view: FleetView, now: float, awaited: str) -> list[str]:
    """Hosts with a notice whose end is still to come and is not told already."""
    told = []
    for node in view.nodes:
        left = columns.notice_left(node, view.taken_at, now)
        if node.notice == "notice" and left is not None and left >= 1.0 and node.name not in awaited:
            told.append(f"{node.name} will be taken in {text.duration(left)}")
    return told


def _saves(view: FleetView, now: float) -> list[str]:
    """Each living job's next save; one that is due already is being taken or late."""
    told = []
    for job in view.jobs:
        if job.next_save_at is None or job.state not in SAVING or job.stale:
            continue
        left = job.next_save_at - now
        told.append(f"{job.name} in {text.duration(left)}" if left > 0 else f"{job.name} under way")
    return told

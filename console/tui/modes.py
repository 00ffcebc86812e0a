"""The eight screens, in the order of their keys, and the other names they answer to."""

from __future__ import annotations

from typing import NamedTuple


class Mode(NamedTuple):
    """One screen."""

    id: str  # its `:` word
    title: str
    brief: str  # for bars with little room
    short: str  # for bars with less
    question: str  # what it answers, for help


MODES: tuple[Mode, ...] = (
    Mode("fleet", "Fleet", "Fleet", "Flt", "what is up, and what is about to go?"),
    Mode("jobs", "Jobs", "Jobs", "Job", "what would I lose now?"),
    Mode("checkpoints", "Checkpoints", "Ckpts", "Ckp", "what can I come back to?"),
    Mode("events", "Events", "Events", "Evt", "what happened, in order?"),
    Mode("pools", "Pools", "Pools", "Pool", "where should it run?"),
    Mode("planner", "Planner", "Plan", "Plan", "does spot pay, and how often to save?"),
    Mode("restore", "Restore", "Restore", "Rst", "bring it back, safely"),
    Mode("batch", "Batch", "Batch", "Bat", "how are the scripted runs doing?"),
)
IDS = tuple(mode.id for mode in MODES)
ALIASES = {
    "nodes": "fleet",
    "job": "jobs",
    "ckpt": "checkpoints",
    "reclaims": "events",
    "advisor": "pools",
    "plan": "planner",
    "batches": "batch",
}

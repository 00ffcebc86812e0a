"""Which step comes next for the CUDA processes of a job, also after a failure. Pure.

running → locked → checkpointed → (image) → locked → running. All are locked before the first is checkpointed, and all
are restored before the first is unlocked: one that runs may wait for another that does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

State = Literal["running", "locked", "checkpointed", "failed", "unknown"]
Action = Literal["lock", "checkpoint", "restore", "unlock"]
_STATES: tuple[State, ...] = ("running", "locked", "checkpointed", "failed")


@dataclass(frozen=True)
class Step:
    """One call of `cuda-checkpoint --action`."""

    pid: int
    action: Action


def parse_state(text: str) -> State:
    """The state in the output of `--get-state`; unknown for anything else."""
    words = text.strip().lower().split()
    return next((state for state in _STATES if words and words[-1] == state), "unknown")


def saving(pids: Iterable[int]) -> list[Step]:
    """From running to checkpointed."""
    pids = list(pids)
    return [Step(pid, "lock") for pid in pids] + [Step(pid, "checkpoint") for pid in pids]


def letting_go(states: Mapping[int, State]) -> list[Step]:
    """From whatever they are in back to running, as far as that can be. Nothing for one that failed or is unknown."""
    restores = [Step(pid, "restore") for pid, state in states.items() if state == "checkpointed"]
    unlocks = [Step(pid, "unlock") for pid, state in states.items() if state in ("checkpointed", "locked")]
    return restores + unlocks


def stuck(states: Mapping[int, State]) -> str:
    """Which processes do not run, in words; empty when all do."""
    return ", ".join(f"process {pid} is {state}" for pid, state in states.items() if state != "running")

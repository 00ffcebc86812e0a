"""Reclaim after reclaim on a practice fleet with a fresh host for each, for the proofs."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from backends.clock import parse_utc
from backends.practice import abilities
from tests.support.lab import CLOCK, Lab, lab, until

SAVE_S = 90.0  # patience for one save on a busy machine


@contextmanager
def able_lab(state: Path, hosts: int) -> Iterator[Lab]:
    """A fleet of `hosts`; skips with the reason where this machine cannot have one."""
    reason = abilities.why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    with lab(state, hosts) as found:
        yield found


def host(number: int) -> str:
    """The name of the host with this number, from 0."""
    return f"host-{chr(ord('a') + number)}"


def seeded(what: str) -> random.Random:
    """Random numbers from a printed seed; REPRIEVE_TEST_SEED repeats it."""
    seed = int(os.environ.get("REPRIEVE_TEST_SEED", random.randrange(1 << 30)))
    print(f"{what}: seed {seed}")
    return random.Random(seed)


def newest(fleet: Lab, job: str) -> dict[str, Any]:
    """The newest durable save as `checkpoints list` tells it."""
    found: dict[str, Any] = fleet.cli("checkpoints", "list", job, "-o", "json").document["items"][0]
    return found


def saved_in(fleet: Lab, job: str, epoch: int) -> float:
    """Wait for a durable save of `epoch`; the wall time at which the newest one froze the job."""
    until(
        f"a save of {job} in epoch {epoch}",
        lambda: newest(fleet, job)["checkpoint"].startswith(f"{epoch}."),
        SAVE_S,
    )
    return parse_utc(newest(fleet, job)["frozen_at"])


def take(fleet: Lab, job: str, number: int, at: float = 0.0) -> tuple[float, dict[str, Any]]:
    """Reclaim host `number` at wall time `at` (or now, when that has passed) and restore the job on the next one.

    Returns the wall time of the reclaim and the document of `jobs restore`. The old process is gone and exactly one
    lives afterwards.
    """
    CLOCK.sleep(max(0.0, at - CLOCK.wall()))
    ended_at = CLOCK.wall()
    fleet.act("reclaim", host=host(number))
    assert not fleet.processes(job), "its host is gone, its process is not"
    back = fleet.cli("jobs", "restore", job, "--to", host(number + 1), "--yes", "-o", "json").document
    assert (back["node"], back["epoch"]) == (host(number + 1), number + 2)
    assert len(fleet.processes(job)) == 1
    return ended_at, dict(back)

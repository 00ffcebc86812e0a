"""Eight guards with CRIU agree on an instant: how far apart their jobs stand still, by the one boot clock of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.guard_node import Fleet, Node, request, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.prove]
GUARDS, ROUNDS, TRIES = 8, 3, 12
SKEW_S = 0.050


def begin(make_node: Callable[[str], Node], place: Path, number: int) -> Node:
    """A guard with a job that was saved once."""
    place.mkdir()
    fleet, node = Fleet(place), make_node(f"n{number}")
    job = fleet.job(engine="criu", interval_s=3600.0, files=[])
    node.call("start", request=request(), job=job, grant=fleet.genesis(node.guard))
    wait_for("the trial", lambda: node.checkpoint() == "1.1" and not node.job()["saving"], 120.0)
    return node


def hold(group: str, at: float, node: Node) -> dict[str, Any]:
    return node.call("hold", request=request(), job="count", group=group, at=at, hold_s=60.0, wait_s=60.0)


def drop(group: str, node: Node) -> dict[str, Any]:
    return node.call("release", request=request(), job="count", group=group, keep=False, wait_s=10.0)


def test_eight_jobs_stand_still_within_50_ms(make_node: Callable[[str], Node], tmp_path: Path) -> None:
    nodes = [begin(make_node, tmp_path / f"fleet{number}", number) for number in range(GUARDS)]
    seen: list[float] = []
    with ThreadPoolExecutor(GUARDS) as pool:
        for number in range(TRIES):
            group, at = f"g{number}", time.clock_gettime(time.CLOCK_BOOTTIME) + 3.0
            answers = list(pool.map(partial(hold, group, at), nodes))
            list(pool.map(partial(drop, group), nodes))
            if all(answer["state"] == "held" for answer in answers):
                froze = [answer["froze"] for answer in answers]
                seen.append(max(each[1] for each in froze) - min(each[0] for each in froze))
                print(f"round {len(seen)}: first freeze begun to last done {seen[-1] * 1000:.1f} ms")
            else:
                assert all(a["late"] for a in answers if a["state"] != "held"), answers
            if len(seen) == ROUNDS:
                break
    assert len(seen) == ROUNDS, "too busy a machine: the instants passed before the calls came"
    assert max(seen) <= SKEW_S

"""The guard as a process on a real S3 endpoint: it saves with a node's credentials, and another node brings the job back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backends.store.port import ObjectStore
from tests.support.guard_node import Fleet, Node, request, wait_for
from tests.support.objects import ADMIN, NODE, S3Server

pytestmark = pytest.mark.stores
Opener = Callable[[str, dict[str, str]], ObjectStore]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    made = tuple(Node(tmp_path / name, NODE.environment()) for name in ("a", "b"))
    try:
        yield made[0].start(), made[1].start()
    finally:
        for node in made:
            node.end()


def test_a_job_is_saved_to_s3_and_comes_back_on_another_node(
    s3: S3Server, acting: Opener, nodes: tuple[Node, Node], tmp_path: Path
) -> None:
    s3.forbid(NODE, "s3:DeleteObject")
    fleet = Fleet(tmp_path)
    fleet.url = s3.url("guard")
    controller = acting(fleet.url, ADMIN.environment())
    first, second = nodes
    answer = first.call("start", request=request(), job=fleet.job(), grant=fleet.genesis(first.guard))
    wait_for("a save", first.checkpoint)
    os.kill(int(answer["job"]["pid"]), signal.SIGKILL)
    wait_for("its end is seen", lambda: first.state() in ("failed", "ended_unknown"))
    wait_for("no upload is under way", lambda: not first.job()["saving"])
    checkpoint = first.checkpoint()
    assert checkpoint is not None
    assert controller.info(f"jobs/{fleet.uid}/checkpoints/{checkpoint}/manifest.json") is not None

    grant = fleet.next_epoch(second.guard, checkpoint)
    order = {"request": request(), "job": fleet.job(), "grant": grant, "checkpoint": checkpoint}
    restored = second.call("restore", **order, wait_s=60)
    assert restored["state"] == "restored", restored
    wait_for("the first new save", lambda: second.checkpoint() == "2.1")
    assert second.state() == "protected"

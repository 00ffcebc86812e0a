"""The guard with CRIU on real processes: the whole way, and `kill -9` of the guard in the middle of a dump."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from backends.ids import CheckpointId
from backends.store.format.manifests import list_job, load_manifest
from backends.store.full import make_full
from backends.store.open import open_store
from tests.support.engines import RealBench, criu_tool, expected_digest
from tests.support.guard_node import Fleet, Node, request, wait_for

pytestmark = pytest.mark.lab
Make = Callable[[str], Node]


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Make]:
    if os.geteuid() != 0:
        pytest.skip("not root: CRIU needs it")
    if criu_tool() is None:
        pytest.skip("no CRIU on this machine or in the cache")
    nodes: list[Node] = []

    def make(name: str) -> Node:
        node = Node(tmp_path / name, {"REPRIEVE_TEST_ENGINES": "real"})
        nodes.append(node)
        return node.start()

    yield make
    for node in nodes:
        node.end()


def job_of(fleet: Fleet, home: Path, last: int, **changes: Any) -> tuple[RealBench, dict[str, Any]]:
    bench = RealBench(None, home, pause_s=0.02, last=last)  # type: ignore[arg-type]  # its engine is not used
    job = fleet.job(
        engine="criu", command=bench.argv, cwd=str(home), files=[], done_file=str(home / "DONE"), **changes
    )
    return bench, job


def states(pid: int) -> str:
    """The state letter of a process; empty when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text[text.rindex(")") + 2]


def test_started_saved_lost_and_back_with_the_same_digest(
    make_node: Make, fleet: Fleet, tmp_path: Path
) -> None:
    first, second = make_node("a"), make_node("b")
    bench, job = job_of(fleet, tmp_path / "home", 400, interval_s=2.0)
    answer = first.call("start", request=request(), job=job, grant=fleet.genesis(first.guard))
    pid = answer["job"]["pid"]
    wait_for("the second save", lambda: first.checkpoint() == "1.2", 60)
    os.kill(pid, signal.SIGKILL)
    wait_for("its end is seen", lambda: first.state() in ("failed", "ended_unknown"))
    wait_for("no upload is under way", lambda: not first.job()["saving"])
    checkpoint = first.checkpoint()
    assert checkpoint is not None
    order: dict[str, Any] = {"job": job, "checkpoint": checkpoint}
    rehearsal = second.call(
        "rehearse", request=request(), grant=fleet.grant(0, "", "genesis"), **order, wait_s=60
    )
    assert rehearsal["state"] == "rehearsed", rehearsal
    grant = fleet.next_epoch(second.guard, checkpoint)
    answer = second.call("restore", request=request(), grant=grant, **order, wait_s=60)
    assert answer["state"] == "restored", answer
    wait_for("the first new save", lambda: second.checkpoint() == "2.1", 30)
    assert second.state() == "protected"
    # and back again, stopped with a final save
    stopped = second.call("stop", request=request(), job="count", final_save=True, wait_s=60)
    assert stopped["state"] == "stopped", stopped
    order["checkpoint"] = stopped["checkpoint"]
    grant = fleet.next_epoch(first.guard, stopped["checkpoint"])
    answer = first.call("restore", request=request(), grant=grant, **order, wait_s=60)
    assert answer["state"] == "restored", answer
    wait_for("it has ended", lambda: first.state() not in ("protected", "overdue"), 60)
    assert first.state() == "finished", first.events()
    assert (bench.home / "DONE").read_text() == expected_digest(400)


def test_three_saves_of_a_chain_each_come_back(make_node: Make, fleet: Fleet, tmp_path: Path) -> None:
    first, second = make_node("a"), make_node("b")
    bench, job = job_of(fleet, tmp_path / "home", 300, interval_s=600.0)
    answer = first.call("start", request=request(), job=job, grant=fleet.genesis(first.guard))
    wait_for("the first save", lambda: first.checkpoint() == "1.1", 60)
    saves = ["1.1", "1.2", "1.3"]
    for checkpoint in saves[1:]:
        begun = len(bench.steps())
        wait_for("the job goes on", partial(_longer, bench, begun), 20)
        saved = first.call("save", request=request(), job="count", wait_s=60)
        assert (saved["state"], saved["checkpoint"]) == ("saved", checkpoint), saved
    store, key = open_store(fleet.url), fleet.job_key
    manifests = [load_manifest(store, fleet.uid, CheckpointId.parse(name), key) for name in saves]
    assert [manifest.parent for manifest in manifests] == [None, "1.1", "1.1"]
    stored = [sum(pack.size for pack in manifest.packs) for manifest in manifests]
    assert max(stored[1:]) < stored[0] / 2, stored
    os.kill(answer["job"]["pid"], signal.SIGKILL)
    wait_for("its end is seen", lambda: first.state() in ("failed", "ended_unknown"))
    full = make_full(store, fleet.uid, CheckpointId(1, 3), key, lambda: False)
    assert full is not None
    assert full.parent is None
    for checkpoint in saves:
        if checkpoint == "1.3":  # it stands without the others now
            for info in list_job(store, fleet.uid).data[CheckpointId(1, 1)]:
                store.delete(info.key)
        (bench.home / "DONE").unlink(missing_ok=True)
        grant = fleet.next_epoch(second.guard, checkpoint)
        order = {"job": job, "checkpoint": checkpoint, "grant": grant}
        answer = second.call("restore", request=request(), **order, wait_s=60)
        assert answer["state"] == "restored", answer
        wait_for("it has ended", lambda: second.state() not in ("protected", "unrehearsed", "overdue"), 60)
        assert second.state() == "finished", second.events()
        assert (bench.home / "DONE").read_text() == expected_digest(300)


@pytest.mark.parametrize("kills", [4, pytest.param(200, marks=pytest.mark.prove)])
def test_kill_of_the_guard_at_random_moments_of_saves(
    make_node: Make, fleet: Fleet, tmp_path: Path, kills: int
) -> None:
    seed = int(os.environ.get("REPRIEVE_TEST_SEED", random.randrange(1 << 30)))
    print(f"seed {seed}")
    rng = random.Random(seed)
    node = make_node("a")
    bench, job = job_of(fleet, tmp_path / "home", 100_000, interval_s=0.5, max_freeze_s=5.0)
    answer = node.call("start", request=request(), job=job, grant=fleet.genesis(node.guard))
    pid = answer["job"]["pid"]
    wait_for("the first save", node.checkpoint, 60)
    for _ in range(kills):
        wait_for("a save is under way", lambda: node.job()["saving"])
        time.sleep(rng.uniform(0, 0.15))
        node.kill()
        wait_for("the guard is back", lambda: _answers(node), 30)
        before = node.checkpoint()
        lines = len(bench.steps())
        wait_for("the job goes on", partial(_longer, bench, lines), 20)
        try:
            wait_for("the next good save", partial(_newer, node, before), 30)
        except AssertionError:
            raise AssertionError([(event["kind"], event["text"]) for event in node.events()]) from None
        assert node.job()["pid"] == pid
        assert states(pid) not in ("", "T", "t")
    assert bench.steps() == list(range(1, len(bench.steps()) + 1))


def _longer(bench: RealBench, lines: int) -> bool:
    return len(bench.steps()) > lines


def _newer(node: Node, checkpoint: str | None) -> bool:
    return node.checkpoint() != checkpoint


def _answers(node: Node) -> bool:
    node.wait_up()
    return True

"""The guard with CRIU on real processes: the whole way."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from backends.ids import CheckpointId
from backends.store.format.manifests import list_job, load_manifest
from backends.store.full import make_full
from backends.store.open import open_store
from tests.lab.conftest import CANARY
from tests.support.engines import RealBench, expected_digest
from tests.support.guard_node import Fleet, Node, request, wait_for

pytestmark = pytest.mark.lab
Make = Callable[[str], Node]


def job_of(fleet: Fleet, home: Path, last: int, **changes: Any) -> tuple[RealBench, dict[str, Any]]:
    bench = RealBench(None, home, pause_s=0.02, last=last)  # type: ignore[arg-type]  # its engine is not used
    job = fleet.job(
        engine="criu", command=bench.argv, cwd=str(home), files=[], done_file=str(home / "DONE"), **changes
    )
    return bench, job


def holders(pid: int) -> list[str]:
    """The process and those above it, up to the guard's own, whose environment holds the guard's credential."""
    found = []
    while pid > 1:
        place = Path(f"/proc/{pid}")
        name = (place / "comm").read_text().strip()
        if b"guard_main" in (place / "cmdline").read_bytes():
            break
        if CANARY.encode() in (place / "environ").read_bytes():
            found.append(name)
        pid = int((place / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def test_started_saved_lost_and_back_with_the_same_digest(
    make_node: Make, job_fleet: Fleet, tmp_path: Path
) -> None:
    fleet, first, second = job_fleet, make_node("a"), make_node("b")
    bench, job = job_of(fleet, tmp_path / "home", 400, interval_s=2.0)
    answer = first.call("start", request=request(), job=job, grant=fleet.genesis(first.guard))
    pid = answer["job"]["pid"]
    assert holders(pid) == []
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
    assert holders(answer["pid"]) == []
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


def test_three_saves_of_a_chain_each_come_back(make_node: Make, job_fleet: Fleet, tmp_path: Path) -> None:
    first, second = make_node("a"), make_node("b")
    bench, job = job_of(job_fleet, tmp_path / "home", 300, interval_s=600.0)
    answer = first.call("start", request=request(), job=job, grant=job_fleet.genesis(first.guard))
    wait_for("the first save", lambda: first.checkpoint() == "1.1", 60)
    saves = ["1.1", "1.2", "1.3"]
    for checkpoint in saves[1:]:
        begun = len(bench.steps())
        wait_for("the job goes on", partial(_longer, bench, begun), 20)
        saved = first.call("save", request=request(), job="count", wait_s=60)
        assert (saved["state"], saved["checkpoint"]) == ("saved", checkpoint), saved
    store, key = open_store(job_fleet.url), job_fleet.job_key
    manifests = [load_manifest(store, job_fleet.uid, CheckpointId.parse(name), key) for name in saves]
    assert [manifest.parent for manifest in manifests] == [None, "1.1", "1.1"]
    stored = [sum(pack.size for pack in manifest.packs) for manifest in manifests]
    assert max(stored[1:]) < stored[0] / 2, stored
    os.kill(answer["job"]["pid"], signal.SIGKILL)
    wait_for("its end is seen", lambda: first.state() in ("failed", "ended_unknown"))
    full = make_full(store, job_fleet.uid, CheckpointId(1, 3), key, lambda: False)
    assert full is not None
    assert full.parent is None
    for checkpoint in saves:
        if checkpoint == "1.3":  # it stands without the others now
            for info in list_job(store, job_fleet.uid).data[CheckpointId(1, 1)]:
                store.delete(info.key)
        (bench.home / "DONE").unlink(missing_ok=True)
        grant = job_fleet.next_epoch(second.guard, checkpoint)
        order = {"job": job, "checkpoint": checkpoint, "grant": grant}
        answer = second.call("restore", request=request(), **order, wait_s=60)
        assert answer["state"] == "restored", answer
        wait_for("it has ended", lambda: second.state() not in ("protected", "unrehearsed", "overdue"), 60)
        assert second.state() == "finished", second.events()
        assert (bench.home / "DONE").read_text() == expected_digest(300)


def _longer(bench: RealBench, lines: int) -> bool:
    return len(bench.steps()) > lines

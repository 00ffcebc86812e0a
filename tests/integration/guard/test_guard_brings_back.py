"""The guard as a process: restore, rehearse, stop, notices, and that no epoch ever starts twice."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.clock import format_utc
from backends.engines.port import start_ticks
from backends.store.fleetkey import FleetKey
from tests.support.guard_engine import stopped
from tests.support.guard_metadata import ACTION, Metadata
from tests.support.guard_node import Fleet, Node, RefusedError, request, wait_for

pytestmark = pytest.mark.slow
Make = Callable[..., Node]


def start(node: Node, fleet: Fleet, **changes: object) -> int:
    answer = node.call("start", request=request(), job=fleet.job(**changes), grant=fleet.genesis(node.guard))
    return int(answer["job"]["pid"])


def counting(fleet: Fleet) -> list[str]:
    """Pids of processes that run this fleet's job."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and start_ticks(int(path.name)) is not None:
            try:
                words = (path / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(fleet.state).encode() in words:
                found.append(path.name)
    return found


def lose(node: Node, fleet: Fleet, pid: int) -> str:
    """The job's process dies; returns the newest checkpoint."""
    wait_for("a save", node.checkpoint)
    os.kill(pid, signal.SIGKILL)
    wait_for("its end is seen", lambda: node.state() in ("failed", "ended_unknown"))
    wait_for("no upload is under way", lambda: not node.job()["saving"])
    checkpoint = node.checkpoint()
    assert checkpoint is not None
    return checkpoint


def test_what_was_fetched_ahead_is_not_fetched_again(make_node: Make, fleet: Fleet) -> None:
    first, second = make_node("a"), make_node("b")
    pid = start(first, fleet)
    wait_for("a save", first.checkpoint)
    ahead = {"job": fleet.job(), "grant": fleet.grant(0, "", "1.1"), "checkpoint": "1.1"}
    answer = second.call("prefetch", request=request(), **ahead, wait_s=20)
    assert answer["state"] == "fetched", answer
    assert list(second.layout.staging.glob("*.ahead"))
    dropped = second.call("prefetch", request=request(), **{**ahead, "checkpoint": None}, wait_s=20)
    assert dropped["state"] == "fetched"
    assert not list(second.layout.staging.glob("*.ahead"))
    checkpoint = lose(first, fleet, pid)
    grant = fleet.next_epoch(second.guard, checkpoint)
    again = {"job": fleet.job(), "grant": fleet.grant(0, "", checkpoint), "checkpoint": checkpoint}
    second.call("prefetch", request=request(), **again, wait_s=20)
    back = second.call(
        "restore", request=request(), job=fleet.job(), grant=grant, checkpoint=checkpoint, wait_s=30
    )
    assert back["state"] == "restored", back
    assert back["ahead_bytes"] > 0
    assert back["moved_bytes"] == 0
    assert not list(second.layout.staging.glob("*.ahead"))


def test_a_job_comes_back_on_another_node(make_node: Make, fleet: Fleet) -> None:
    first, second = make_node("a"), make_node("b")
    checkpoint = lose(first, fleet, start(first, fleet))
    grant = fleet.next_epoch(second.guard, checkpoint)
    name = request()
    order = {"request": name, "job": fleet.job(), "grant": grant, "checkpoint": checkpoint}
    answer = second.call("restore", **order, wait_s=30)
    assert answer["state"] == "restored", answer
    assert answer["restore_s"] >= answer["fetch_s"] + answer["engine_s"] - 0.01
    assert counting(fleet) == [str(answer["pid"])]
    wait_for("the first new save", lambda: second.checkpoint() == "2.1")
    assert second.state() == "protected"
    assert second.call("restore", **order, wait_s=30) == answer
    assert counting(fleet) == [str(answer["pid"])]
    again = second.call("restore", **{**order, "request": request()}, wait_s=30)
    assert (again["state"], again["pid"]) == ("restored", answer["pid"])
    later = {**order, "request": request(), "grant": {**grant, "epoch": 3}}
    with pytest.raises(RefusedError, match="on this node already"):
        second.call("restore", **later, wait_s=30)
    assert counting(fleet) == [str(answer["pid"])]
    assert not list(second.layout.staging.glob("*.restore"))


def test_no_epoch_starts_twice_even_after_its_process_is_gone(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    job, grant = fleet.job(), fleet.genesis(node.guard)
    pid = int(node.call("start", request=request(), job=job, grant=grant)["job"]["pid"])
    lose(node, fleet, pid)
    node.kill()
    node.wait_up()
    with pytest.raises(RefusedError, match="never starts twice"):
        node.call("start", request=request(), job=job, grant=grant)
    assert counting(fleet) == []


def test_only_the_named_guard_and_nonce_start(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    grant = fleet.genesis("someone-else")
    with pytest.raises(RefusedError, match="names guard someone-else"):
        node.call("start", request=request(), job=fleet.job(), grant=grant)
    other = Fleet(fleet.store_directory.parent / "other")
    other.store_directory.parent.mkdir()
    good = other.genesis(node.guard)
    with pytest.raises(RefusedError, match="nonce"):
        node.call("start", request=request(), job=other.job(), grant={**good, "nonce": "ab" * 16})
    forged = {**good, "verify_key": FleetKey.new().verify_key.hex}
    with pytest.raises(RefusedError, match="no valid claim"):
        node.call("start", request=request(), job=other.job(), grant=forged)
    assert not node.call("status")["jobs"]


def test_a_forged_claim_freezes_nothing(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    pid = start(node, fleet)
    wait_for("a save", node.checkpoint)
    (fleet.store_directory / "jobs" / fleet.uid / "epochs" / "2").write_text('{"epoch": 2}')
    wait_for("the alarm", lambda: "lineage.invalid_claim" in node.kinds())
    before = node.checkpoint()
    wait_for("saves go on", lambda: node.checkpoint() != before)
    assert not stopped(pid)


def test_a_failed_restore_leaves_nothing(make_node: Make, fleet: Fleet) -> None:
    node, other = make_node("a"), make_node("b")
    checkpoint = lose(node, fleet, start(node, fleet))
    other.script(fail_restore="the image does not fit")
    grant = fleet.next_epoch(other.guard, checkpoint)
    order = {"job": fleet.job(), "grant": grant, "checkpoint": checkpoint}
    answer = other.call("restore", request=request(), **order, wait_s=30)
    assert answer["state"] == "failed"
    assert answer["error"] == "the image does not fit"
    assert not other.call("status")["jobs"]
    assert not list(other.layout.staging.iterdir())
    assert counting(fleet) == []
    other.script()
    with pytest.raises(RefusedError, match="never starts twice"):
        other.call("restore", request=request(), **order, wait_s=30)


def test_a_damaged_checkpoint_is_refused_before_the_engine(make_node: Make, fleet: Fleet) -> None:
    node, other = make_node("a"), make_node("b")
    checkpoint = lose(node, fleet, start(node, fleet))
    pack = fleet.store_directory / "jobs" / fleet.uid / "packs" / checkpoint / "0"
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.chmod(0o600)
    pack.write_bytes(data)
    grant = fleet.next_epoch(other.guard, checkpoint)
    order = {"job": fleet.job(), "grant": grant, "checkpoint": checkpoint}
    answer = other.call("restore", request=request(), **order, wait_s=30)
    assert (answer["state"], answer["step"]) == ("failed", "fetch")
    assert counting(fleet) == []
    assert not (other.layout.started / f"{fleet.uid}.2").exists()


def test_a_guard_killed_in_a_restore_leaves_no_process(make_node: Make, fleet: Fleet) -> None:
    node, other = make_node("a"), make_node("b")
    checkpoint = lose(node, fleet, start(node, fleet))
    other.script(restore_s=60)
    grant = fleet.next_epoch(other.guard, checkpoint)
    name = request()
    order = {"request": name, "job": fleet.job(), "grant": grant, "checkpoint": checkpoint}
    assert other.call("restore", **order, wait_s=0)["state"] == "running"
    wait_for("the engine is at work", (other.layout.started / f"{fleet.uid}.2").exists)
    assert other.state() == "restoring"
    assert other.call("decline", uid=fleet.uid, epoch=2)["declined"] is False
    other.kill()
    other.wait_up()
    with pytest.raises(RefusedError, match="never starts twice"):
        other.call("restore", **order, wait_s=5)
    assert other.call("decline", uid=fleet.uid, epoch=2) == {"declined": True, "guard": other.guard}
    assert not other.call("status")["jobs"]
    assert counting(fleet) == []
    assert not list(other.layout.staging.iterdir())


def test_a_declined_epoch_is_never_restored_over_a_restart_too(make_node: Make, fleet: Fleet) -> None:
    node, other = make_node("a"), make_node("b")
    checkpoint = lose(node, fleet, start(node, fleet))
    grant = fleet.next_epoch(other.guard, checkpoint)
    promise = {"declined": True, "guard": other.guard}
    assert other.call("decline", uid=fleet.uid, epoch=2) == promise
    order = {"job": fleet.job(), "grant": grant, "checkpoint": checkpoint}
    for again in (False, True):
        if again:
            other.kill()
            other.wait_up()
        assert other.call("decline", uid=fleet.uid, epoch=2) == promise
        with pytest.raises(RefusedError, match="epoch 2 of job count was declined by this node"):
            other.call("restore", request=request(), **order, wait_s=30)
    assert counting(fleet) == []
    for wrong in ({"uid": "../guard", "epoch": 2}, {"uid": fleet.uid, "epoch": 0}):
        with pytest.raises(RefusedError, match="expected"):
            other.call("decline", **wrong)


def test_a_declined_epoch_is_never_started(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    grant = fleet.genesis(node.guard)
    assert node.call("decline", uid=fleet.uid, epoch=1)["declined"] is True
    with pytest.raises(RefusedError, match="epoch 1 of job count was declined by this node"):
        node.call("start", request=request(), job=fleet.job(), grant=grant)
    assert counting(fleet) == []


def test_a_rehearsal_changes_nothing(make_node: Make, fleet: Fleet) -> None:
    node, other = make_node("a"), make_node("b")
    pid = start(node, fleet)
    wait_for("a save", node.checkpoint)
    grant = fleet.grant(0, "", "genesis")
    order = {"job": fleet.job(), "grant": grant, "checkpoint": node.checkpoint()}
    answer = other.call("rehearse", request=request(), **order, wait_s=30)
    assert answer["state"] == "rehearsed"
    assert answer["seconds"] > 0
    assert counting(fleet) == [str(pid)]
    assert not list(other.layout.staging.iterdir())
    assert not other.call("status")["jobs"]


def test_a_stop_with_a_final_save_loses_nothing(make_node: Make, fleet: Fleet) -> None:
    node, other = make_node("a"), make_node("b")
    start(node, fleet, interval_s=3600.0)
    wait_for("the trial", lambda: node.checkpoint() == "1.1")
    name = request()
    answer = node.call("stop", request=name, job="count", final_save=True, wait_s=30)
    assert answer["state"] == "stopped"
    assert answer["checkpoint"] == "1.2"
    assert answer["acknowledged"]["guard"] == node.guard
    assert answer["acknowledged"]["epoch"] == 1
    assert node.state() == "stopped"
    assert counting(fleet) == []
    assert not list(node.layout.frozen.iterdir())
    assert node.call("stop", request=name, job="count", final_save=True, wait_s=30) == answer
    count = int(fleet.state.read_text())
    grant = fleet.next_epoch(other.guard, "1.2")
    order = {"job": fleet.job(), "grant": grant, "checkpoint": "1.2"}
    assert other.call("restore", request=request(), **order, wait_s=30)["state"] == "restored"
    wait_for("it counts on", lambda: int(fleet.state.read_text() or 0) > count)


def test_a_stop_whose_save_fails_ends_nothing(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    pid = start(node, fleet, interval_s=3600.0)
    wait_for("the trial", lambda: node.checkpoint() == "1.1")
    node.script(fail="no room")
    answer = node.call("stop", request=request(), job="count", final_save=True, wait_s=30)
    assert answer["state"] == "failed"
    wait_for("it runs on", lambda: not stopped(pid))
    assert node.state() == "unrehearsed"
    answer = node.call("stop", request=request(), job="count", final_save=False, wait_s=30)
    assert answer["state"] == "stopped"
    assert counting(fleet) == []


def test_a_notice_brings_one_final_save(make_node: Make, fleet: Fleet) -> None:
    metadata = Metadata()
    try:
        node = make_node(REPRIEVE_METADATA_URL=metadata.url)
        start(node, fleet, interval_s=3600.0)
        wait_for("the trial", lambda: node.checkpoint() == "1.1")
        assert node.call("status")["notice"] == "none"
        deadline = format_utc(time.time() + 100)
        metadata.answers[ACTION] = (200, json.dumps({"action": "terminate", "time": deadline}).encode())
        wait_for("the final save", lambda: node.checkpoint() == "1.2")
        status = node.call("status")
        assert status["notice"] == "notice"
        assert 0 < status["notice_deadline_s"] <= 100
        assert node.state() == "noticed"
        time.sleep(1.0)
        assert node.checkpoint() == "1.2"
        metadata.answers[ACTION] = (503, b"")
        time.sleep(1.0)
        assert node.call("status")["notice"] == "notice"
    finally:
        metadata.close()


def test_a_window_that_has_room_brings_a_save_at_once_and_a_last_one(make_node: Make, fleet: Fleet) -> None:
    metadata = Metadata()
    try:
        node = make_node(REPRIEVE_METADATA_URL=metadata.url)
        start(node, fleet, interval_s=3600.0)
        wait_for("the trial", lambda: node.checkpoint() == "1.1")
        deadline = time.time() + 12
        notice = {"action": "terminate", "time": format_utc(deadline)}
        metadata.answers[ACTION] = (200, json.dumps(notice).encode())
        wait_for("the last save", lambda: node.checkpoint() == "1.3", 60)
        told = {
            event["data"]["plan"]: event["data"]
            for event in node.events()
            if event["kind"] == "notice.final_save"
        }
        assert set(told) == {"now_and_later", "last"}
        assert told["last"]["window_s"] < told["last"]["save_s"] / 0.7 + 2.0
        time.sleep(1.0)
        assert node.checkpoint() == "1.3"
    finally:
        metadata.close()


def test_protect_pause_set_and_forget(make_node: Make, fleet: Fleet) -> None:
    import subprocess

    node = make_node()
    argv = fleet.job()["command"]
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    try:
        job = fleet.job(attach={"pid": child.pid}, interval_s=3600.0)
        verdict = node.call("examine", job=job)["verdicts"][0]
        assert (verdict["answer"], verdict["engine"]) == ("ok", "fake")
        answer = node.call("protect", request=request(), job=job, grant=fleet.genesis(node.guard))
        assert answer["job"]["pid"] == child.pid
        wait_for("the trial", lambda: node.checkpoint() == "1.1")
        assert node.call("pause", job="count")["job"]["state"] == "paused"
        assert node.call("set", job="count", changes={"interval_s": 0.5})["job"]["interval_s"] == 0.5
        time.sleep(1.0)
        assert node.checkpoint() == "1.1"
        with pytest.raises(RefusedError, match="cannot be changed"):
            node.call("set", job="count", changes={"store": "file:///tmp"})
        with pytest.raises(RefusedError, match="interval is -1"):
            node.call("set", job="count", changes={"interval_s": -1})
        node.call("resume", job="count")
        wait_for("saves go on", lambda: node.checkpoint() != "1.1")
        node.call("forget", job="count")
        assert not node.call("status")["jobs"]
        assert not list(node.layout.keys.iterdir())
        assert child.poll() is None
    finally:
        child.kill()
        child.wait(10)

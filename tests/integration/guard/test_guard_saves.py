"""The guard as a process: saves go on by themselves, and what breaks leaves the job running."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.engines.port import process_of
from backends.errors import DamagedError
from backends.ids import new_nonce
from backends.store.sealing import JobKey, check_escrow
from tests.support.guard_engine import stopped
from tests.support.guard_node import Fleet, Node, RefusedError, request, wait_for

pytestmark = pytest.mark.slow
Make = Callable[..., Node]


def start(node: Node, fleet: Fleet, **changes: object) -> int:
    answer = node.call("start", request=request(), job=fleet.job(**changes), grant=fleet.genesis(node.guard))
    return int(answer["job"]["pid"])


def test_saves_follow_the_interval_with_nobody_connected(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    pid = start(node, fleet)
    wait_for("the third save", lambda: node.checkpoint() == "1.3")
    events = [event for event in node.events() if event["kind"] == "save.committed"]
    assert [event["data"]["checkpoint"] for event in events][:3] == ["1.1", "1.2", "1.3"]
    job = node.job()
    assert job["state"] == "unrehearsed"
    assert job["pid"] == pid
    assert job["progress"].startswith("count ")
    assert 0 <= job["at_risk_s"] < 10
    assert not list(node.layout.frozen.iterdir()) or job["saving"]


def test_a_save_on_request_is_newer_than_the_request(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    start(node, fleet, interval_s=3600.0)
    wait_for("the trial", lambda: node.checkpoint() == "1.1")
    name = request()
    answer = node.call("save", request=name, job="count", wait_s=20)
    assert answer["state"] == "saved"
    assert answer["checkpoint"] == "1.2"
    again = node.call("save", request=name, job="count", wait_s=20)
    assert again == answer
    assert node.checkpoint() == "1.2"


def test_kill_of_the_guard_in_the_middle_of_a_save(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    pid = start(node, fleet, interval_s=0.5, max_freeze_s=1.0)
    wait_for("the first save", node.checkpoint)
    node.script(freeze_s=30.0)
    wait_for("the job stands still", lambda: stopped(pid))
    before = node.checkpoint()
    node.kill()
    assert stopped(pid)
    wait_for("the job runs again", lambda: not stopped(pid))
    node.script()
    node.wait_up()  # the watchdog has started it again
    wait_for("the next save", lambda: node.checkpoint() != before)
    assert node.job()["pid"] == pid
    assert "job.adopted" in node.kinds()
    assert not [path for path in node.layout.staging.iterdir() if path.name.endswith(".restore")]


def test_the_watchdog_alone_thaws(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    pid = start(node, fleet, interval_s=0.5, max_freeze_s=1.5)
    wait_for("the first save", node.checkpoint)
    wait_for("the watchdog lives", (node.layout.state / "watchdog.lock").exists)
    node.layout.ended.write_text("{}")  # nobody shall start the guard again
    node.script(freeze_s=30.0)
    wait_for("the job stands still", lambda: stopped(pid))
    node.kill()
    wait_for("the watchdog thaws the job", lambda: not stopped(pid))
    os.kill(pid, signal.SIGKILL)


def test_a_full_store_leaves_job_and_older_save(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    pid = start(node, fleet)
    wait_for("the first save", node.checkpoint)
    moved = fleet.store_directory.with_name("gone")
    fleet.store_directory.rename(moved)
    fleet.store_directory.write_text("no directory any more: every write fails")
    wait_for("a failed save", lambda: "save.failed" in node.kinds())
    job = node.job()
    assert job["pid"] == pid
    assert not stopped(pid)
    assert job["error"]
    before = node.checkpoint()
    fleet.store_directory.unlink()
    moved.rename(fleet.store_directory)
    wait_for("the next good save", lambda: node.checkpoint() != before)
    assert node.job()["error"] is None


def test_a_newer_claim_freezes_a_zombie_and_the_word_thaws_it(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    pid = start(node, fleet)
    wait_for("the first save", node.checkpoint)
    last = node.checkpoint()
    assert last is not None
    fleet.next_epoch("another-guard", last)
    wait_for("the zombie stands still", lambda: node.state() == "zombie" and stopped(pid))
    committed = node.kinds().count("save.committed")
    with pytest.raises(RefusedError, match="behind epoch 2"):
        node.call("save", request=request(), job="count", wait_s=5)
    time.sleep(1.5)
    assert node.kinds().count("save.committed") == committed
    node.call("thaw", job="count", word="count")
    wait_for("it runs by the operator's word", lambda: not stopped(pid))
    assert node.state() == "unprotected"


def test_only_a_zombie_is_ended_as_one(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    pid = start(node, fleet)
    wait_for("the first save", node.checkpoint)
    with pytest.raises(RefusedError, match=r"no zombie on this node \(epoch 1, .*nothing was ended"):
        node.call("stop", request=request(), job="count", final_save=False, zombie=True, wait_s=5)
    assert node.job()["pid"] == pid
    fleet.next_epoch("another-guard", str(node.checkpoint()))
    wait_for("the zombie stands still", lambda: node.state() == "zombie" and stopped(pid))
    answer = node.call("stop", request=request(), job="count", final_save=False, zombie=True, wait_s=20)
    assert (answer["state"], answer["acknowledged"]["epoch"]) == ("stopped", 1)
    assert node.state() == "stopped"
    assert process_of(pid) is None
    assert not list(node.layout.frozen.iterdir())


def test_a_newer_epoch_for_this_guard_lets_it_go_on(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    pid = start(node, fleet, interval_s=3600.0)
    wait_for("the first save", lambda: node.checkpoint() == "1.1")
    fleet.next_epoch(node.guard, "1.1")
    wait_for("the job goes on under epoch 2", lambda: node.job()["epoch"] == 2)
    wait_for("it runs", lambda: not stopped(pid))
    answer = node.call("save", request=request(), job="count", wait_s=20)
    assert answer["checkpoint"] == "2.1"


def test_isolation_freezes_after_the_lease_and_the_store_thaws(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    pid = start(node, fleet, on_isolated="freeze", lease_s=7.0, interval_s=3600.0)
    wait_for("the first save", node.checkpoint)
    moved = fleet.store_directory.with_name("gone")
    fleet.store_directory.rename(moved)  # as when a mount is gone: the place is empty and answers
    wait_for("the isolated job stands still", lambda: node.state() == "isolated" and stopped(pid))
    node.kill()
    node.wait_up()
    assert node.state() == "isolated"
    assert stopped(pid)
    moved.rename(fleet.store_directory)
    wait_for("contact thaws it", lambda: not stopped(pid))
    assert node.state() == "unrehearsed"


def test_an_empty_place_is_not_the_store(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    start(node, fleet)
    wait_for("the first save", node.checkpoint)
    fleet.store_directory.rename(fleet.store_directory.with_name("gone"))
    wait_for("a save is refused", lambda: "save.failed" in node.kinds())
    assert "is not the store this job was started with" in str(node.job()["error"])
    assert not fleet.store_directory.exists()


def test_end_and_start_again_without_touching_the_job(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    pid = start(node, fleet)
    wait_for("the first save", node.checkpoint)
    node.call("shutdown")
    assert node.process is not None
    node.process.wait(10)
    assert not stopped(pid)
    node.start()
    assert node.job()["pid"] == pid
    before = node.checkpoint()
    wait_for("saves go on", lambda: node.checkpoint() != before)


def test_one_guard_a_root(make_node: Make, tmp_path: Path) -> None:
    node = make_node()
    second = Node(node.layout.root)
    assert second.layout == node.layout
    import subprocess
    import sys

    argv = [sys.executable, "-m", "tests.support.guard_main"]
    result = subprocess.run(
        argv, env=node.environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert result.returncode != 0
    assert "a guard runs already" in result.stderr


def test_process_end_with_and_without_done_file(make_node: Make, fleet: Fleet, tmp_path: Path) -> None:
    node = make_node()
    done = tmp_path / "DONE"
    pid = start(node, fleet, done_file=str(done))
    wait_for("the first save", node.checkpoint)
    done.write_text("")
    os.kill(pid, signal.SIGKILL)
    wait_for("it counts as finished", lambda: node.state() == "finished")
    shutil.rmtree(fleet.store_directory)


def test_the_guard_proves_the_key_it_seals_with(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    start(node, fleet)
    nonce = new_nonce()
    answer = node.call("escrow", job="count", nonce=nonce)
    check_escrow(fleet.job_key, fleet.uid, nonce, answer["test"])
    with pytest.raises(DamagedError, match="does not open"):
        check_escrow(JobKey.new(), fleet.uid, nonce, answer["test"])
    with pytest.raises(RefusedError, match="16 to 64"):
        node.call("escrow", job="count", nonce="x")

"""Leases as a guard process keeps them: renewed in the store, withdrawn at the end, kept by the watchdog while the guard is dead."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from backends.store.lease import Lease, read_lease
from backends.store.open import open_store
from tests.support.guard_engine import stopped
from tests.support.guard_node import Fleet, Node, request, wait_for

pytestmark = pytest.mark.slow
Make = Callable[..., Node]


def start(node: Node, fleet: Fleet, **changes: object) -> int:
    answer = node.call("start", request=request(), job=fleet.job(**changes), grant=fleet.genesis(node.guard))
    return int(answer["job"]["pid"])


def lease(fleet: Fleet) -> Lease | None:
    return read_lease(open_store(fleet.url), fleet.uid, 1, fleet.job_key)


def test_a_lease_is_renewed_and_withdrawn_when_the_policy_changes(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    start(node, fleet, on_isolated="freeze", lease_s=5.0, interval_s=3600.0)
    first = wait_for("the first promise", lambda: lease(fleet))
    assert (first.guard, first.lease_s) == (node.guard, 5.0)
    wait_for("a renewal", lambda: (found := lease(fleet)) is not None and found.nonce != first.nonce)
    assert node.state() != "isolated"
    node.call("set", job="count", changes={"on_isolated": "continue"})
    wait_for("the withdrawal", lambda: (found := lease(fleet)) is not None and found.lease_s is None)


def test_the_watchdog_keeps_the_promise_of_a_dead_guard(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    pid = start(node, fleet, on_isolated="freeze", lease_s=6.0, interval_s=3600.0)
    wait_for("the first save", node.checkpoint)
    wait_for("the promise", lambda: lease(fleet))
    wait_for("the watchdog lives", (node.layout.state / "watchdog.lock").exists)
    node.layout.ended.write_text("{}")  # nobody shall start the guard again
    node.kill()
    assert not stopped(pid)
    wait_for("the job stands still although no guard lives", lambda: stopped(pid))
    node.layout.ended.unlink()
    node.start()
    wait_for("it runs again once a guard has renewed the lease", lambda: not stopped(pid))
    assert "job.isolated" in node.kinds()
    os.kill(pid, signal.SIGKILL)
    wait_for(
        "its end withdraws the lease", lambda: (found := lease(fleet)) is not None and found.lease_s is None
    )


def test_a_guard_that_is_told_to_end_withdraws_its_promises(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    pid = start(node, fleet, on_isolated="freeze", lease_s=30.0, interval_s=3600.0)
    wait_for("the promise", lambda: lease(fleet))
    node.call("shutdown")
    assert node.process is not None
    node.process.wait(15)
    found = lease(fleet)
    assert found is not None
    assert found.lease_s is None
    os.kill(pid, signal.SIGKILL)

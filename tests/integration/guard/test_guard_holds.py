"""The guard as a process, in a group save: frozen at the instant, held until the word, let go whatever happens."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backends.ids import CheckpointId
from backends.store.fetch import fetch
from backends.store.open import open_store
from tests.support.guard_engine import stopped
from tests.support.guard_node import Fleet, Node, RefusedError, request, wait_for

pytestmark = pytest.mark.slow
Make = Callable[..., Node]


def start(node: Node, fleet: Fleet, **changes: object) -> int:
    job = fleet.job(interval_s=3600.0, **changes)
    answer = node.call("start", request=request(), job=job, grant=fleet.genesis(node.guard))
    wait_for("the trial", lambda: node.checkpoint() == "1.1" and not node.job()["saving"])
    return int(answer["job"]["pid"])


def hold(node: Node, group: str, *, ahead_s: float = 0.3, hold_s: float = 20.0) -> dict[str, Any]:
    at = node.call("clock")["boot_s"] + ahead_s
    answer = node.call("hold", request=request(), job="count", group=group, at=at, hold_s=hold_s, wait_s=20.0)
    return {"at": at, **answer}


def release(node: Node, group: str, *, keep: bool) -> dict[str, Any]:
    return node.call("release", request=request(), job="count", group=group, keep=keep, wait_s=20.0)


def state_in(fleet: Fleet, checkpoint: str, scratch: Path) -> int:
    """What the job had counted to at that save."""
    fetched = scratch / checkpoint
    fetched.mkdir()
    fetch(open_store(fleet.url), fleet.uid, CheckpointId.parse(checkpoint), fleet.job_key, fetched)
    return int((fetched / "images" / "state").read_text())


def test_it_stands_from_the_instant_to_the_word_and_the_save_is_of_that_instant(
    make_node: Make, fleet: Fleet, tmp_path: Path
) -> None:
    node = make_node()
    pid = start(node, fleet)
    answer = hold(node, "one")
    assert (answer["state"], answer["late"]) == ("held", False)
    began, ended = answer["froze"]
    assert 0 <= began - answer["at"] <= 0.025
    assert ended - began < 0.5
    assert stopped(pid)
    count = int(fleet.state.read_text())
    time.sleep(0.2)
    assert stopped(pid), "it stands until the word"
    assert int(fleet.state.read_text()) == count
    assert node.checkpoint() == "1.1"
    done = release(node, "one", keep=True)
    assert (done["state"], done["checkpoint"]) == ("saved", "1.2")
    assert done["freeze_s"] > 0.2
    assert not stopped(pid)
    assert state_in(fleet, "1.2", tmp_path) == count
    wait_for("it goes on", lambda: int(fleet.state.read_text()) > count)

    assert hold(node, "two")["state"] == "held"
    assert release(node, "other", keep=True)["state"] == "dropped", "another group's word"
    assert stopped(pid)
    dropped = release(node, "two", keep=False)
    assert dropped["state"] == "dropped"
    assert not stopped(pid)
    assert node.checkpoint() == "1.2"

    late = hold(node, "three", ahead_s=-0.5)
    assert (late["state"], late["late"], late["froze"]) == ("failed", True, None)
    assert not stopped(pid)


def test_without_a_word_it_runs_on_before_max_freeze(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    pid = start(node, fleet, max_freeze_s=1.0)
    answer = hold(node, "one")
    assert answer["state"] == "held"
    wait_for("it runs on", lambda: not stopped(pid))
    stood_s = node.call("clock")["boot_s"] - answer["froze"][0]
    assert 0.7 < stood_s < 1.0
    done = release(node, "one", keep=True)
    assert done["state"] == "dropped"
    assert "nobody said to go on" in done["error"]
    assert node.checkpoint() == "1.1"


@pytest.mark.prove
def test_a_guard_killed_while_it_holds_lets_go_and_has_saved_nothing(make_node: Make, fleet: Fleet) -> None:
    node = make_node()
    pid = start(node, fleet, max_freeze_s=1.5)
    assert hold(node, "one")["state"] == "held"
    node.kill()
    assert stopped(pid)
    wait_for("it runs on", lambda: not stopped(pid))
    node.wait_up()
    assert release(node, "one", keep=True)["state"] == "dropped"
    assert node.checkpoint() == "1.1"
    with pytest.raises(RefusedError, match="not sensible"):
        hold(node, "two", ahead_s=1e6)

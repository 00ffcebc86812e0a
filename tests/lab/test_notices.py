"""Notices on real hosts: a final save that fits, a window too short, and notices that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from backends.practice import abilities
from tests.support.lab import Lab, lab, until

pytestmark = pytest.mark.lab
WINDOW_S = 9.0


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three hosts with guards; the job goes from one to the next."""
    reason = abilities.why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    with lab(tmp_path_factory.mktemp("lab"), 3) as found:
        yield found


def events(fleet: Lab, kind: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = fleet.cli("events", "list", "-o", "json").document["items"]
    return [event for event in listed if event["kind"] == kind]


def test_the_life_of_a_job_under_notices(fleet: Lab) -> None:
    fleet.start("long", "host-a", "--interval", "2s")
    notices_cannot_be_read(fleet)
    fleet.cli("jobs", "set", "long", "interval=1h", "--yes")
    a_window_that_fits(fleet)
    a_window_too_short(fleet)
    fleet.moves("long")
    assert fleet.show("long")["epoch"] == 3


def notices_cannot_be_read(fleet: Lab) -> None:
    """An alarm says so, and interval saves go on."""
    fleet.act("metadata", host="host-a", mode="forbidden")
    until("the alarm", lambda: events(fleet, "notice.unreadable"))
    (alarm,) = events(fleet, "notice.unreadable")
    assert "not the same as no notice" in alarm["text"]
    nodes = fleet.cli("fleet", "list", "-o", "json").document["items"]
    assert {row["name"]: row["notice"] for row in nodes}["host-a"] == "unreadable"
    before = fleet.checkpoints("long")
    until("interval saves go on", lambda: fleet.checkpoints("long")[0] not in before)
    fleet.act("metadata", host="host-a", mode="silent")
    until("it is said when they can be read again", lambda: events(fleet, "notice.readable"))


def a_window_that_fits(fleet: Lab) -> None:
    """What was saved after the notice is in the store, whoever looked in time; the job comes back from it."""
    before = fleet.checkpoints("long")
    name = instance(fleet, "host-a")
    fleet.act("reclaim", host="host-a", notice_s=WINDOW_S)
    until("the host is taken", lambda: fleet.act("instance", instance=name)["state"] == "terminated")
    new = [each for each in fleet.checkpoints("long") if each not in before]
    print(f"saved in a window of {WINDOW_S:.0f} s: {new}")
    assert new  # two, unless this machine is so busy that the second was cut off
    back = fleet.cli("jobs", "restore", "long", "--to", "host-b", "--yes", "-o", "json").document
    assert (back["state"], back["checkpoint"]) == ("restored", new[0])


def a_window_too_short(fleet: Lab) -> None:
    """The last save is used, and the reason is on record."""
    fleet.act("notice", host="host-b", notice_s=0.2)
    until("the reason", lambda: [e for e in events(fleet, "notice.no_final_save") if e["node"] == "host-b"])
    assert fleet.show("long")["state"] == "noticed"
    last = fleet.checkpoints("long")[0]
    fleet.act("reclaim", host="host-b")
    back = fleet.cli("jobs", "restore", "long", "--to", "host-c", "--yes", "-o", "json").document
    assert back["checkpoint"] == last


def instance(fleet: Lab, host: str) -> str:
    nodes = fleet.act("describe")["hosts"]
    found: str = next(node["instance"] for node in nodes if node["name"] == host)
    return found

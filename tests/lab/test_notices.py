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
    """Three hosts with guards; the tests take them one after the other."""
    reason = abilities.why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    with lab(tmp_path_factory.mktemp("lab"), 3) as found:
        yield found


def events(fleet: Lab, kind: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = fleet.cli("events", "list", "-o", "json").document["items"]
    return [event for event in listed if event["kind"] == kind]


def test_where_notices_cannot_be_read_an_alarm_says_so_and_saves_go_on(fleet: Lab) -> None:
    fleet.start("deaf", "host-c", "--interval", "2s")
    fleet.act("metadata", host="host-c", mode="forbidden")
    until("the alarm", lambda: events(fleet, "notice.unreadable"))
    (alarm,) = events(fleet, "notice.unreadable")
    assert "not the same as no notice" in alarm["text"]
    nodes = fleet.cli("fleet", "list", "-o", "json").document["items"]
    assert {row["name"]: row["notice"] for row in nodes}["host-c"] == "unreadable"
    before = fleet.checkpoints("deaf")
    until("interval saves go on", lambda: fleet.checkpoints("deaf")[0] not in before)
    fleet.act("metadata", host="host-c", mode="silent")
    until("it is said when they can be read again", lambda: events(fleet, "notice.readable"))
    fleet.cli("jobs", "stop", "deaf", "--now", "--yes", "--confirm", "deaf")


def test_a_notice_brings_a_last_save_and_the_job_comes_back_with_next_to_nothing_lost(fleet: Lab) -> None:
    fleet.start("long", "host-a", "--interval", "1h")
    fleet.act("reclaim", host="host-a", notice_s=WINDOW_S)
    # Whoever looks takes the guard's events along: after the reclaim nobody can ask it any more.
    until("the last save of the window begins", lambda: "last" in plans(fleet, "long"))
    until(
        "the host is taken",
        lambda: fleet.act("instance", instance=instance(fleet, "host-a"))["state"] == "terminated",
    )
    assert plans(fleet, "long") == ["now_and_later", "last"]
    back = fleet.cli("jobs", "restore", "long", "--to", "host-b", "--yes", "-o", "json").document
    assert (
        back["lost_work_s"] < WINDOW_S / 2 + 10
    )  # until somebody looked; most of it is our command's own time
    last = next(
        event["data"] for event in events(fleet, "notice.final_save") if event["data"]["plan"] == "last"
    )
    print(f"the last save of {last['save_s']:.2f} s began {last['window_s']:.2f} s before the announced time")
    assert last["window_s"] < last["save_s"] / 0.7 + 0.5
    fleet.moves("long")


def test_a_window_too_short_leaves_the_last_save_alone_and_says_why(fleet: Lab) -> None:
    last = fleet.checkpoints("long")[0]
    fleet.act("notice", host="host-b", notice_s=0.2)
    until(
        "the reason",
        lambda: [event for event in events(fleet, "notice.no_final_save") if event["job"] == "long"],
    )
    assert fleet.show("long")["state"] == "noticed"
    assert fleet.checkpoints("long")[0] == last
    fleet.act("reclaim", host="host-b")
    back = fleet.cli("jobs", "restore", "long", "--to", "host-c", "--yes", "-o", "json").document
    assert back["checkpoint"] == last
    fleet.moves("long")


def plans(fleet: Lab, job: str) -> list[str]:
    """What was decided in the window, oldest first."""
    found = sorted(events(fleet, "notice.final_save"), key=lambda event: event["time"])
    return [event["data"]["plan"] for event in found if event["job"] == job]


def instance(fleet: Lab, host: str) -> str:
    nodes = fleet.act("describe")["hosts"]
    found: str = next(node["instance"] for node in nodes if node["name"] == host)
    return found

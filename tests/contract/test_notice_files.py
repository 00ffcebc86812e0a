"""Every synthetic notice of ../shared/data/notices through the real readers: the verdict that its README states."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.clock import format_utc
from backends.guard.decide.notices import NoticeMind, observe
from backends.guard.notices.azure import AzureNotices
from backends.guard.notices.containers import SlurmNotices
from tests.support.data import data
from tests.support.guard_metadata import ACTION, REBALANCE, Answer
from tests.support.notice_peers import (
    EVENTS,
    FLAG,
    MAINTENANCE,
    NOW,
    PATIENT_S,
    PEERS,
    POD,
    QUICK_S,
    AzurePeer,
    GooglePeer,
    Peer,
    StoryClock,
)

N, U, NO, H = "notice", "unreadable", "none", "hint"
# file → (path it answers, state, seconds left or None where none are told)
BODIES: dict[str, tuple[str, str, float | None]] = {
    "aws/imds_instance_action_terminate.json": (ACTION, N, 120.0),
    "aws/imds_instance_action_stop.json": (ACTION, N, 120.0),
    "aws/imds_instance_action_hibernate.json": (ACTION, N, 0.0),
    "aws/imds_instance_action_past_time.json": (ACTION, N, -90.0),
    "aws/imds_instance_action_missing_time.json": (ACTION, N, None),
    "aws/imds_instance_action_unknown_action.json": (ACTION, N, 120.0),
    "aws/imds_instance_action_aemm_old_key.json": (ACTION, N, 120.0),
    "aws/imds_instance_action_duplicate_later_time.json": (ACTION, N, 127.0),
    "aws/imds_instance_action_truncated.json": (ACTION, U, None),
    "aws/imds_instance_action_empty.json": (ACTION, U, None),
    "aws/imds_instance_action_html_from_proxy.json": (ACTION, U, None),
    "aws/imds_rebalance.json": (REBALANCE, H, None),
    "gcp/preempted_true.txt": (FLAG, N, None),
    "gcp/preempted_lowercase.txt": (FLAG, N, None),
    "gcp/preempted_false.txt": (FLAG, NO, None),
    "gcp/preempted_empty.txt": (FLAG, U, None),
    "gcp/maintenance_none.txt": (MAINTENANCE, NO, None),
    "gcp/maintenance_migrate.txt": (MAINTENANCE, NO, None),
    "gcp/maintenance_terminate.txt": (MAINTENANCE, H, None),
    "azure/empty.json": (EVENTS, NO, None),
    "azure/preempt_scheduled.json": (EVENTS, N, 30.0),
    "azure/preempt_two_resources.json": (EVENTS, N, 30.0),
    "azure/preempt_seven_seconds.json": (EVENTS, N, 7.0),
    "azure/preempt_past_notbefore.json": (EVENTS, N, -50.0),
    "azure/preempt_started_blank_notbefore.json": (EVENTS, N, 0.0),
    "azure/preempt_other_vm_in_group.json": (EVENTS, NO, None),
    "azure/mixed_freeze_then_preempt.json": (EVENTS, N, 30.0),
    "azure/freeze_live_migration.json": (EVENTS, NO, None),
    "azure/reboot_hardware_failure_started.json": (EVENTS, N, 0.0),
    "azure/terminate_vmss.json": (EVENTS, N, 300.0),
    "azure/unknown_event_type.json": (EVENTS, H, None),
    "azure/old_api_version_fields.json": (EVENTS, N, 30.0),
    "azure/malformed_resources_string.json": (EVENTS, N, None),
    "azure/malformed_truncated.json": (EVENTS, U, None),
    "marketplace/k8s_pod_deleted.json": (POD, N, 30.0),
}
# file → state of the node at the end of the story and the events told on the way
STORIES: dict[str, tuple[str, list[str]]] = {
    "aws/timeline_normal.json": (N, ["notice.seen"]),
    "aws/timeline_notice_withdrawn.json": (N, ["notice.seen"]),
    "aws/timeline_throttled.json": (N, ["notice.seen"]),
    "aws/timeline_token_expires.json": (N, ["notice.seen"]),
    "aws/timeline_rebalance_flap.json": (NO, ["notice.hint", "notice.hint"]),
    "aws/timeline_no_notice_lost.json": (NO, []),
    "gcp/timeline_503_during_wait.json": (N, ["notice.seen"]),
    "gcp/timeline_wait_for_change.json": (N, ["notice.seen"]),
    "azure/timeline_preempt.json": (N, ["notice.seen"]),
    "azure/timeline_preempt_cancelled.json": (NO, ["notice.seen", "notice.withdrawn"]),
    "azure/timeline_incarnation_backwards.json": (N, ["notice.seen"]),
}
NEVER_READABLE = (
    "aws/timeline_hop_limit.json", "aws/timeline_imds_disabled.json", "gcp/timeline_missing_flavor.json",
    "gcp/timeline_wrong_host.json", "azure/missing_metadata_header_400.json",
)  # fmt: skip
BY_NAME = (
    "gcp/timeline_acpi_first.json", "azure/timeline_first_call_slow.json", "azure/ack_request.json",
    "azure/ack_unknown_event_400.json", "aws/imds_404_body.txt", "azure/imds_compute.json",
    "marketplace/slurm_scontrol_show_job.txt",
)  # fmt: skip
NOT_ON_THE_NODE = (  # what an API, a queue or a feed says; no reader on a node meets them
    "README.md", "aws/imds_identity_document.json", "aws/imds_termination_time.txt",
    "aws/imds_termination_time_garbage.txt", "aws/describe_*", "aws/eventbridge_*", "aws/sqs_*", "aws/spot_advisor_*",
    "azure/resource_graph_*", "azure/retail_*", "azure/vm_*", "gcp/capacity_history*", "gcp/instance_*",
    "gcp/operations_*", "marketplace/k8s_node_*", "marketplace/runpod_*", "marketplace/slurm_job_*", "marketplace/vast_*",
)  # fmt: skip
KINDS = {"aws": "aws", "gcp": "gcp", "azure": "azure", "marketplace": "kubernetes"}


def sample(name: str) -> bytes:
    return data("notices", name).read_bytes()


@pytest.fixture
def peer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Peer]:
    folder = str(request.getfixturevalue("name")).partition("/")[0]
    made = next(kind for kind in PEERS if kind.kind == KINDS[folder])(tmp_path)
    yield made
    made.service.close()


@pytest.mark.parametrize("name", BODIES)
def test_one_body(name: str, peer: Peer) -> None:
    path, state, left_s = BODIES[name]
    peer.service.answers[path] = (200, sample(name))
    reading = peer.source().read()
    assert reading.state == state
    assert reading.left_s == (None if left_s is None else pytest.approx(left_s))


def answer(step: dict[str, Any]) -> Answer:
    if step.get("timeout") or step.get("connection"):
        return None
    body = step.get("body", "")
    content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return (step["status"], content, step["headers"]) if "headers" in step else (step["status"], content)


@pytest.mark.parametrize("name", STORIES)
def test_a_story(name: str, peer: Peer) -> None:
    state, told = STORIES[name]
    text = sample(name).decode()
    source = peer.source(QUICK_S if "timeout" in text or "connection" in text else PATIENT_S)
    mind, kinds = NoticeMind(), []
    for step in json.loads(text)["steps"]:
        peer.clock.at = float(step["at"])
        if step.get("method") == "PUT":
            peer.service.token = step["body"]
            continue
        if step.get("status") == 401:  # the service has forgotten the token: renewed in the same cycle
            peer.service.token = "TOKEN-2"
        else:
            peer.service.answers[step["path"].partition("?")[0]] = answer(step)
        mind, reports = observe(mind, source.read(), float(step["at"]))
        kinds += [report.kind for report in reports]
    assert (mind.notice.state, kinds) == (state, told)


@pytest.mark.parametrize("name", NEVER_READABLE)
def test_a_node_where_notices_cannot_be_read(name: str, peer: Peer) -> None:
    document = json.loads(sample(name))
    for step in document.get("steps", [{"path": EVENTS, "status": 400, "body": document}]):
        if step.get("method") == "PUT":
            peer.service.put_status = step.get("status", 0)
        else:
            path = step["path"].partition("?")[0]
            peer.service.answers[path] = (step["status"], str(step.get("body", "")).encode(), {})
    source, mind, kinds = peer.source(QUICK_S), NoticeMind(), []
    for now in range(4):
        mind, reports = observe(mind, source.read(), float(now))
        kinds += [report.kind for report in reports]
    assert (mind.notice.state, kinds) == ("unreadable", ["notice.unreadable"])


def test_a_body_that_comes_with_404_is_no_notice(tmp_path: Path) -> None:
    name = "aws/imds_404_body.txt"
    peer = PEERS[0](tmp_path)
    peer.say((404, sample(name)))
    assert peer.source().read().state == "none"
    peer.service.close()


def test_a_power_off_that_comes_before_the_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = json.loads(sample("gcp/timeline_acpi_first.json"))["steps"]
    peer = GooglePeer(tmp_path)
    source, mind = peer.source(), NoticeMind()
    mind, _ = observe(mind, source.read(), -1.0)
    assert source.signalled() is None  # the operator ends the guard: the system stays up
    monkeypatch.setattr("backends.guard.notices.shutdown.going_down", lambda: True)
    reading = source.signalled()
    assert reading is not None
    mind, reports = observe(mind, reading, float(steps[0]["at"]))
    assert [report.kind for report in reports] == ["notice.seen"]
    peer.say(answer(steps[1]))
    mind, reports = observe(mind, source.read(), float(steps[1]["at"]))
    assert (mind.notice.state, mind.notice.deadline_at, reports) == ("notice", 30.0, ())
    peer.service.close()


def test_azures_first_answer_may_take_minutes(tmp_path: Path) -> None:
    step = json.loads(sample("azure/timeline_first_call_slow.json"))["steps"][0]
    peer = AzurePeer(tmp_path)
    slow = answer(step)

    def late() -> Answer:
        import time

        time.sleep(step["delay_s"] / 118)  # of the story's two minutes
        return slow

    peer.service.answers[EVENTS] = late
    source = AzureNotices(peer.clock, peer.service.url, timeout_s=0.3, first_timeout_s=30.0)
    assert source.read().state == "none"
    assert source.read().state == "unreadable"  # switched on: from now on a slow answer is none
    peer.service.close()


def test_azures_own_name_is_asked_for_and_nothing_is_ever_acknowledged(tmp_path: Path) -> None:
    about = json.loads(sample("azure/imds_compute.json"))
    known = {json.loads(sample("azure/ack_request.json"))["StartRequests"][0]["EventId"]}
    peer = AzurePeer(tmp_path)
    assert about["name"] == peer.own
    peer.service.answers[EVENTS] = (200, sample("azure/preempt_scheduled.json"))
    source = peer.source()
    for _ in range(3):
        assert source.read().state == "notice"
    assert not any("Start" in path or path == "POST" for path in peer.service.asked)
    assert sum("compute/name" in path for path in peer.service.asked) == 1
    assert known  # the id that a POST would have named
    peer.service.close()


def local_time(at: float) -> str:
    """As scontrol writes times."""
    return format_utc(at).partition(".")[0]


def test_slurms_kill_time() -> None:
    text = sample("marketplace/slurm_scontrol_show_job.txt").decode()
    clock = StoryClock()

    def signalled(answer: str | None) -> tuple[float | None, float]:
        reading = SlurmNotices(clock, {"SLURM_JOB_ID": "77"}, lambda argv: answer).signalled()
        assert reading is not None
        assert reading.state == "notice"
        return reading.left_s, reading.window_s

    assert signalled(text) == (None, 30.0)  # no EndTime is told
    assert signalled(None) == (None, 30.0)
    import os
    import time

    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        assert signalled(f"{text} EndTime={local_time(NOW + 90)}") == (90.0, 90.0)  # GraceTime 90
        assert signalled(f"{text} EndTime={local_time(NOW)}") == (
            0.0,
            0.0,
        )  # GraceTime 0: the interval must do
        old = text.replace("PreemptTime=2026-03-01T12:00:00", "PreemptTime=2026-03-01T09:00:00")
        assert signalled(f"{old} EndTime={local_time(NOW + 7200)}") == (
            7200.0,
            30.0,
        )  # of an earlier preemption
    finally:
        os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
        time.tzset()


def test_no_file_is_left_out() -> None:
    folder = data("notices")
    named = {*BODIES, *STORIES, *NEVER_READABLE, *BY_NAME}
    for file in folder.rglob("*"):
        name = str(file.relative_to(folder))
        if file.is_file() and name not in named:
            assert any(Path(name).match(pattern) for pattern in NOT_ON_THE_NODE), f"{name} has no test"

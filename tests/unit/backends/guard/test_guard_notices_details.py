"""What only one provider's notices have: windows, names, stale documents, graces; and which provider a node has."""

from __future__ import annotations

import datetime
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.guard.decide.notices import NoticeMind, observe
from backends.guard.notices import azure_events
from backends.guard.notices.azure import STALE_LIMIT
from backends.guard.notices.containers import RunpodNotices, SlurmNotices, slurm_job
from backends.guard.notices.kubernetes import KubernetesNotices
from backends.guard.notices.providers import notice_source, provider_here
from tests.support.data import case, data
from tests.support.notice_peers import FLAG, NAME, AzurePeer, GooglePeer, KubernetesPeer, StoryClock

INSTANCE = "/computeMetadata/v1/instance/"


@pytest.fixture
def google(tmp_path: Path) -> Iterator[GooglePeer]:
    peer = GooglePeer(tmp_path)
    yield peer
    peer.service.close()


@pytest.fixture
def azure(tmp_path: Path) -> Iterator[AzurePeer]:
    peer = AzurePeer(tmp_path)
    yield peer
    peer.service.close()


@pytest.mark.parametrize(
    ("scheduling", "attributes", "window_s"),
    [
        ({}, {}, 30.0),
        ({"preemptionNoticeDuration": {"seconds": "120"}}, {}, 120.0),
        ({"preemptionNoticeDuration": "120s"}, {"reprieve-notice-s": "60"}, 120.0),
        ({}, {"reprieve-notice-s": "120"}, 120.0),
        ({}, {"reprieve-notice-s": "a lot"}, 30.0),
        ({"preemptionNoticeDuration": {"seconds": "9000"}}, {}, 120.0),
    ],
)
def test_google_has_windows_of_two_lengths(
    google: GooglePeer, scheduling: dict[str, object], attributes: dict[str, str], window_s: float
) -> None:
    google.service.answers[INSTANCE + "scheduling/"] = (200, json.dumps(scheduling).encode())
    google.service.answers[INSTANCE + "attributes/"] = (200, json.dumps(attributes).encode())
    google.announce(0)
    assert google.source().read().window_s == window_s


def test_google_hangs_with_the_etag_it_saw_and_not_after_a_failure(google: GooglePeer) -> None:
    source = google.source()
    source.read()
    assert google.service.asked[0] == FLAG  # the first look does not wait
    assert source.period_s == 0.0
    source.read()
    hung = next(path for path in google.service.asked if "wait_for_change" in path)
    assert hung == f"{FLAG}?wait_for_change=true&timeout_sec=0&last_etag=e1"
    assert source.period_s > 0  # this server does not let requests hang: no busy loop
    google.say((503, b""))
    assert source.read().state == "unreadable"
    google.announce(0)
    google.service.asked.clear()
    assert source.read().state == "notice"
    assert google.service.asked[0] == FLAG


def test_an_etag_that_may_not_stand_in_an_address_is_not_used(google: GooglePeer) -> None:
    google.say((200, b"FALSE", {"Metadata-Flavor": "Google", "ETag": "a&last_etag=b"}))
    source = google.source()
    assert [source.read().state, source.read().state] == ["none", "none"]
    assert not any("wait_for_change" in path for path in google.service.asked)


def test_azure_reads_rc_17_as_one_notice(azure: AzurePeer) -> None:
    story = json.loads(data("cases", "files", "azure_events.json").read_text())
    azure.service.answers[NAME] = (200, story["self"].encode())
    source, mind, told = azure.source(), NoticeMind(), []
    for index, document in enumerate(story["documents"]):
        azure.say((200, json.dumps(document).encode()))
        mind, reports = observe(mind, source.read(), float(index))
        told.append([report.kind for report in reports])
    expected = [row["reclaim_notices"] for row in case(17)["expected"]["actions"]]
    assert [kinds.count("notice.seen") for kinds in told] == expected
    assert mind.notice.deadline_at == 1.0  # at once, when e-3 was seen


def test_azure_believes_a_numbering_that_begins_anew(azure: AzurePeer) -> None:
    source = azure.source()
    azure.incarnation = 90
    azure.announce(25)
    assert source.read().state == "notice"
    azure.incarnation = 0
    azure.calm()
    states = [source.read().state for _ in range(STALE_LIMIT + 1)]
    assert states == ["notice"] * STALE_LIMIT + ["none"]


def test_a_machine_of_azure_that_cannot_learn_its_name_takes_a_preemption_for_its_own(
    azure: AzurePeer,
) -> None:
    azure.service.answers[NAME] = (500, b"")
    azure.announce(25)
    source = azure.source()
    assert source.read().state == "notice"
    azure.service.answers[NAME] = (200, b"trainer-7")
    assert source.read().state == "none"


def test_a_live_migration_is_a_pause_and_the_same_one_from_look_to_look(azure: AzurePeer) -> None:
    freeze = {"EventId": "E", "EventType": "Freeze", "Resources": [azure.own], "EventStatus": "Scheduled",
              "NotBefore": "Sun, 01 Mar 2026 12:15:00 GMT", "DurationInSeconds": 5}  # fmt: skip
    azure.events(freeze)
    source, mind = azure.source(), NoticeMind()
    mind, _ = observe(mind, source.read(), 0.0)
    azure.clock.at = 10.4
    mind, _ = observe(mind, source.read(), 10.0)  # the wall clock runs a little fast
    assert mind.notice.state == "none"
    assert mind.notice.quiet == (900.0, 905.0)
    azure.events()
    mind, _ = observe(mind, source.read(), 11.0)
    assert mind.notice.quiet is None


@given(st.recursive(st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8), lambda inner:
       st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["EventId", "EventType", "Resources",
       "EventStatus", "NotBefore", "DurationInSeconds"]), inner, max_size=6)))  # fmt: skip
def test_any_event_is_read_without_an_error(event: object) -> None:
    document = azure_events.parse(json.dumps({"DocumentIncarnation": event, "Events": [event]}).encode())
    assert azure_events.verdict(document.events, 0.0).state in ("none", "hint", "notice")


def test_kubernetes_without_a_readable_pod_goes_by_the_signal(tmp_path: Path) -> None:
    peer = KubernetesPeer(tmp_path)
    source = peer.source()
    peer.say((403, b""))
    reading = source.signalled()
    assert reading is not None
    assert (reading.state, reading.left_s, reading.window_s) == ("notice", None, 15.0)
    peer.announce(50.0)
    reading = source.signalled()
    assert reading is not None
    assert (reading.left_s, reading.window_s) == (50.0, 30.0)
    peer.service.close()
    told = {"REPRIEVE_SIGNALS": "forwarded", "REPRIEVE_NOTICE_S": "90"}
    source = KubernetesNotices(StoryClock(), told, tmp_path, peer.service.url, 7)
    assert source.read().state == "none"
    reading = source.signalled()
    assert reading is not None
    assert reading.window_s == 90.0


def test_no_service_account_is_unreadable_and_the_host_name_is_the_pods(tmp_path: Path) -> None:
    reading = KubernetesNotices(StoryClock(), {}, tmp_path / "none", "http://127.0.0.1:1", 7).read()
    assert reading.state == "unreadable"
    assert "service account" in reading.reason
    assert socket.gethostname()


def test_runpod_hears_only_what_reaches_the_guard() -> None:
    assert RunpodNotices({}, 7).read().state == "unreadable"
    assert "REPRIEVE_SIGNALS" in RunpodNotices({}, 7).read().reason
    for source in (RunpodNotices({}, 1), RunpodNotices({"REPRIEVE_SIGNALS": "forwarded"}, 7)):
        assert source.read().state == "none"
        reading = source.signalled()
        assert reading is not None
        assert (reading.state, reading.window_s) == ("notice", 5.0)


def test_a_guard_outside_of_its_slurm_job_hears_nothing() -> None:
    source = SlurmNotices(StoryClock(), {}, lambda argv: None)
    assert source.read().state == "unreadable"
    assert source.signalled() is None  # the operator's SIGTERM ends the guard
    assert SlurmNotices(StoryClock(), {"SLURM_JOB_ID": "7"}, lambda argv: None).read().state == "none"


@pytest.mark.parametrize(
    ("job", "left_s"),
    [
        ("JobState=RUNNING PreemptTime={now} EndTime={soon} Partition=p", 9.0),  # a grace, and a time limit
        (
            "JobState=RUNNING PreemptTime={now} EndTime=Unknown Partition=p",
            20.0,
        ),  # no time limit: the partition's grace
        (
            "JobState=COMPLETING PreemptTime={now} EndTime={now} Partition=p",
            30.0,
        ),  # no grace: KillWait is what is left
        ("JobState=RUNNING PreemptTime={now} EndTime=Unknown Partition=../p", None),
    ],
)
def test_when_slurm_kills_a_preempted_job(job: str, left_s: float | None) -> None:
    clock = StoryClock()
    times = {
        name: datetime.datetime.fromtimestamp(clock.wall() + later).isoformat(timespec="seconds")
        for name, later in (("now", 0), ("soon", 9))
    }

    def run(argv: list[str]) -> str:
        if argv[:3] == ["scontrol", "show", "job"]:
            return job.format(**times)
        if argv[:3] == ["scontrol", "show", "partition"]:
            assert argv[3:] == ["-o", "p"]
            return "PartitionName=p DisableRootJobs=NO GraceTime=20 Hidden=NO"
        return "KeepAliveTime           = SYSTEM_DEFAULT\nKillWait                = 30 sec\n"

    reading = SlurmNotices(clock, {"SLURM_JOB_ID": "7"}, run).signalled()
    assert reading is not None
    assert reading.left_s == (None if left_s is None else pytest.approx(left_s, abs=1.0))


@given(st.text(max_size=80))
def test_any_answer_of_slurm_is_read_without_an_error(text: str) -> None:
    assert slurm_job(f"EndTime={text} PreemptTime=None").preempted_at is None or "PreemptTime" in text


@pytest.mark.parametrize(
    ("environment", "words", "provider"),
    [
        ({}, {"sys_vendor": "Amazon EC2"}, "aws"),
        ({}, {"sys_vendor": "Google", "product_name": "Google Compute Engine"}, "gcp"),
        ({}, {"sys_vendor": "Microsoft Corporation", "chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"}, "azure"),
        ({}, {"sys_vendor": "Microsoft Corporation", "chassis_asset_tag": "other"}, None),
        ({}, {}, None),
        ({"RUNPOD_POD_ID": "p"}, {"sys_vendor": "Amazon EC2"}, "runpod"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, {"sys_vendor": "Amazon EC2"}, "kubernetes"),
        ({"SLURM_JOB_ID": "1", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}, {}, "slurm"),
    ],
)  # fmt: skip
def test_the_provider_is_found_on_the_machine(
    tmp_path: Path, environment: dict[str, str], words: dict[str, str], provider: str | None
) -> None:
    folder = tmp_path / "sys/class/dmi/id"
    folder.mkdir(parents=True)
    for name, word in words.items():
        (folder / name).write_text(word + "\n")
    assert provider_here(environment, tmp_path) == provider


@pytest.mark.parametrize(
    ("provider", "kind"),
    [("aws", "AwsNotices"), ("practice", "AwsNotices"), ("gcp", "GoogleNotices"), ("azure", "AzureNotices"),
     ("kubernetes", "KubernetesNotices"), ("runpod", "RunpodNotices"), ("slurm", "SlurmNotices"), ("vast", "NoneType"),
     (None, "NoneType"), ("none", "NoneType")],
)  # fmt: skip
def test_each_provider_has_its_source(
    monkeypatch: pytest.MonkeyPatch, provider: str | None, kind: str
) -> None:
    monkeypatch.delenv("REPRIEVE_METADATA_URL", raising=False)
    monkeypatch.setattr("backends.guard.notices.providers.provider_here", lambda: None)
    assert type(notice_source(provider, StoryClock())).__name__ == kind


def test_a_machine_that_the_fleet_knows_nothing_of_speaks_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.guard.notices.providers.provider_here", lambda: "azure")
    assert type(notice_source("none", StoryClock())).__name__ == "AzureNotices"
    assert type(notice_source("gcp", StoryClock())).__name__ == "GoogleNotices"  # the fleet's word wins

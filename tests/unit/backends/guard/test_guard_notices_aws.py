"""The AWS notice reader against a loopback metadata service and the synthetic bodies of ../shared/data/notices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.clock import parse_utc
from backends.errors import UsageError
from backends.guard.decide.notices import NoticeMind, observe
from backends.guard.notices.aws import AwsNotices
from tests.support.guard_metadata import ACTION, REBALANCE, Metadata

DATA = Path(__file__).parents[5] / "shared/data/notices/aws"
NOW = parse_utc("2026-03-01T12:00:00Z")


class Clock:
    """The wall clock stands at the moment of the synthetic reclaim."""

    def __init__(self, wall: float = NOW) -> None:
        self.now = wall

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now - NOW

    def sleep(self, seconds: float) -> None:
        raise AssertionError("the reader never sleeps")

    async def pause(self, seconds: float) -> None:
        raise AssertionError("the reader never sleeps")


@pytest.fixture
def metadata() -> Iterator[Metadata]:
    service = Metadata()
    yield service
    service.close()


def reader(metadata: Metadata) -> AwsNotices:
    return AwsNotices(Clock(), metadata.url, timeout_s=0.3)


def sample(name: str) -> bytes:
    if not DATA.is_dir():
        pytest.skip(f"the synthetic notices are not at {DATA}")
    return (DATA / name).read_bytes()


def test_not_found_is_no_notice(metadata: Metadata) -> None:
    assert reader(metadata).read().state == "none"


@pytest.mark.parametrize(
    ("name", "state", "left_s", "window_s"),
    [
        ("imds_instance_action_terminate.json", "notice", 120.0, 120.0),
        ("imds_instance_action_stop.json", "notice", 120.0, 120.0),
        ("imds_instance_action_hibernate.json", "notice", 0.0, 0.0),
        ("imds_instance_action_past_time.json", "notice", -90.0, 120.0),
        ("imds_instance_action_missing_time.json", "notice", None, 120.0),
        ("imds_instance_action_unknown_action.json", "notice", 120.0, 120.0),
        ("imds_instance_action_aemm_old_key.json", "notice", 120.0, 120.0),
        ("imds_instance_action_duplicate_later_time.json", "notice", 127.0, 120.0),
        ("imds_instance_action_truncated.json", "unreadable", None, 0.0),
        ("imds_instance_action_empty.json", "unreadable", None, 0.0),
        ("imds_instance_action_html_from_proxy.json", "unreadable", None, 0.0),
    ],
)
def test_bodies(metadata: Metadata, name: str, state: str, left_s: float | None, window_s: float) -> None:
    metadata.answers[ACTION] = (200, sample(name))
    reading = reader(metadata).read()
    assert (reading.state, reading.left_s) == (state, left_s)
    if state == "notice":
        assert reading.window_s == window_s


def test_a_rebalance_recommendation_is_a_hint(metadata: Metadata) -> None:
    metadata.answers[REBALANCE] = (200, sample("imds_rebalance.json"))
    reading = reader(metadata).read()
    assert (reading.state, reading.mark) == ("hint", "2026-03-01T11:41:10Z")


@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_other_answers_are_unreadable(metadata: Metadata, status: int) -> None:
    metadata.answers[ACTION] = (status, b"")
    assert reader(metadata).read().state == "unreadable"


def test_silence_is_unreadable(metadata: Metadata) -> None:
    metadata.answers[ACTION] = None
    assert reader(metadata).read().state == "unreadable"


def test_a_dropped_token_reply_is_unreadable(metadata: Metadata) -> None:  # timeline_hop_limit
    metadata.put_status = 0
    assert reader(metadata).read().state == "unreadable"
    metadata.put_status = 403  # timeline_imds_disabled
    assert reader(metadata).read().state == "unreadable"


def test_nobody_listens() -> None:
    assert AwsNotices(Clock(), "http://127.0.0.1:1", timeout_s=0.3).read().state == "unreadable"


def test_an_expired_token_is_renewed_in_the_same_cycle(metadata: Metadata) -> None:  # timeline_token_expires
    source = reader(metadata)
    assert source.read().state == "none"
    metadata.token = "TOKEN-2"
    metadata.answers[ACTION] = (200, sample("imds_instance_action_terminate.json"))
    assert source.read().state == "notice"
    assert metadata.asked.count("PUT") == 2


def test_a_token_that_is_always_refused_is_unreadable(metadata: Metadata) -> None:
    metadata.answers[ACTION] = (401, b"")
    source = reader(metadata)
    assert source.read().state == "unreadable"
    assert metadata.asked.count("PUT") == 2


def test_a_failing_hint_does_not_hide_that_there_is_no_notice(metadata: Metadata) -> None:
    metadata.answers[REBALANCE] = (503, b"")
    assert reader(metadata).read().state == "none"
    metadata.answers[REBALANCE] = (200, b"<html>")
    assert reader(metadata).read().state == "none"


@pytest.mark.parametrize(
    ("name", "final", "kinds"),
    [
        ("timeline_normal.json", "notice", ["notice.seen"]),
        ("timeline_notice_withdrawn.json", "notice", ["notice.seen"]),
        ("timeline_throttled.json", "notice", ["notice.seen"]),
        ("timeline_no_notice_lost.json", "none", []),
    ],
)
def test_timelines(metadata: Metadata, name: str, final: str, kinds: list[str]) -> None:
    steps = json.loads(sample(name))["steps"]
    source, mind, told = reader(metadata), NoticeMind(), []
    for step in steps:
        if step.get("path") != ACTION:
            continue
        body = step.get("body", "")
        data = json.dumps(body).encode() if isinstance(body, dict) else body.encode()
        metadata.answers[ACTION] = (step["status"], data) if "status" in step else None
        mind, reports = observe(mind, source.read(), float(step["at"]))
        told += [report.kind for report in reports]
    assert mind.notice.state == final
    assert told == kinds


def test_the_base_url_comes_from_the_environment(metadata: Metadata, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRIEVE_METADATA_URL", metadata.url)
    assert AwsNotices(Clock()).read().state == "none"
    monkeypatch.setenv("REPRIEVE_METADATA_URL", "ftp://x")
    with pytest.raises(UsageError, match="REPRIEVE_METADATA_URL"):
        AwsNotices(Clock())


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=200)
    | st.text(max_size=60).map(lambda text: json.dumps({"action": text, "time": text}).encode())
)
def test_any_body_is_read_without_an_error(body: bytes) -> None:
    source = AwsNotices(Clock(), "http://127.0.0.1:1")
    reading = source._action(body)
    assert reading.state in ("notice", "unreadable")

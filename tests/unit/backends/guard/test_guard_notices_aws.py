"""The AWS notice reader against a loopback metadata service and the synthetic bodies of ../shared/data/notices."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.clock import parse_utc
from backends.errors import UsageError
from backends.guard.notices.aws import AwsNotices
from tests.support.data import data
from tests.support.guard_metadata import ACTION, REBALANCE, Metadata

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
    return AwsNotices(Clock(), metadata.url, timeout_s=10.0)


def sample(name: str) -> bytes:
    return data("notices", "aws", name).read_bytes()


def test_a_rebalance_recommendation_is_a_hint(metadata: Metadata) -> None:
    metadata.answers[REBALANCE] = (200, sample("imds_rebalance.json"))
    reading = reader(metadata).read()
    assert (reading.state, reading.mark) == ("hint", "2026-03-01T11:41:10Z")


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

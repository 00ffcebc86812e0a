"""The contract of notice sources, on every provider's reader and a loopback service that speaks its language."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.guard.decide.notices import UNREADABLE_AFTER, NoticeMind, observe
from backends.guard.notices.port import NoticeSource
from tests.support.notice_peers import PEERS, QUICK_S, Peer


@pytest.fixture(params=PEERS, ids=lambda peer: peer.kind)
def peer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Peer]:
    made: Peer = request.param(tmp_path)
    yield made
    made.service.close()


def look(source: NoticeSource, mind: NoticeMind, now: float) -> tuple[NoticeMind, list[str]]:
    mind, reports = observe(mind, source.read(), now)
    return mind, [report.kind for report in reports]


def test_nothing_is_announced(peer: Peer) -> None:
    assert peer.source().read().state == "none"


def test_a_reclaim_is_a_notice_within_the_documented_window(peer: Peer) -> None:
    peer.announce(20.0)
    reading = peer.source().read()
    assert (reading.state, reading.window_s) == ("notice", peer.window_s)
    assert reading.left_s is None or reading.left_s == pytest.approx(20.0, abs=1.0)


def test_a_notice_is_told_once_and_keeps_its_earliest_deadline(peer: Peer) -> None:
    source = peer.source()
    mind, kinds = look(source, NoticeMind(), 0.0)
    assert kinds == []
    peer.announce(25.0)
    mind, kinds = look(source, mind, 1.0)
    assert kinds == ["notice.seen"]
    first = mind.notice.deadline_at
    peer.announce(29.0)
    mind, kinds = look(source, mind, 2.0)
    assert (mind.notice.deadline_at, kinds) == (first, [])


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500, 503])
def test_any_other_status_is_unreadable_and_passes(peer: Peer, status: int) -> None:
    source = peer.source()
    peer.say((status, b""))
    assert source.read().state == "unreadable"
    peer.calm()
    assert source.read().state == "none"


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>captive portal</html>", b'{"truncated": ', b"\x00\xff\xfe", b"[]", b"null", b"7" * 200_000],
)
def test_a_body_that_makes_no_sense_is_unreadable(peer: Peer, body: bytes) -> None:
    peer.say((200, body, {"Metadata-Flavor": "Google"}))
    reading = peer.source().read()
    assert reading.state == "unreadable"
    assert reading.reason
    assert len(reading.reason) < 300


def test_silence_is_unreadable_and_bounded(peer: Peer) -> None:
    peer.say(None)
    begun = time.monotonic()
    source = peer.source(QUICK_S)
    assert source.read().state == "unreadable"
    assert time.monotonic() - begun < 10


def test_nobody_listens(peer: Peer) -> None:
    source = peer.source()
    peer.service.close()
    assert source.read().state == "unreadable"


def test_three_in_a_row_are_an_alarm_of_their_own_and_a_notice_outlives_them(peer: Peer) -> None:
    source = peer.source()
    mind, _ = look(source, NoticeMind(), 0.0)
    peer.say((403, b""))
    told: list[str] = []
    for now in range(1, UNREADABLE_AFTER + 2):
        mind, kinds = look(source, mind, float(now))
        told += kinds
    assert (mind.notice.state, told) == ("unreadable", ["notice.unreadable"])
    peer.announce(25.0)
    mind, kinds = look(source, mind, 10.0)
    assert kinds == ["notice.readable", "notice.seen"]
    peer.say((403, b""))
    for now in range(11, 16):
        mind, _ = look(source, mind, float(now))
    assert mind.notice.state == "notice"


def test_what_vanishes_stands_unless_the_provider_calls_it_off(peer: Peer) -> None:
    source = peer.source()
    peer.announce(25.0)
    mind, _ = look(source, NoticeMind(), 0.0)
    peer.calm()
    mind, kinds = look(source, mind, 1.0)
    assert (mind.notice.state, kinds) == (
        ("none", ["notice.withdrawn"]) if peer.withdraws else ("notice", [])
    )
    mind, _ = look(source, mind, 500.0)
    assert mind.notice.state == "none"


def test_it_reads_often_enough_for_the_shortest_window(peer: Peer) -> None:
    source = peer.source()
    source.read()
    assert 0 <= source.period_s <= 2.0

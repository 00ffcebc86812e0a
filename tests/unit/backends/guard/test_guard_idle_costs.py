"""What an idle guard does not do again and again, and that nothing is missed for it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from backends.fakes.clock import FakeClock
from backends.guard.disk import durable
from backends.guard.notices.aws import HINT_EVERY_S, AwsNotices
from backends.guard.notices.metadata import MetadataService, UnreadableError
from backends.store import fleetkey
from backends.store.fleetkey import FleetKey
from tests.support.guard_metadata import ACTION, REBALANCE, Metadata


class Service:
    """Keeps connections open as HTTP/1.1 does; `closes` shuts each one after its answer without a word before."""

    def __init__(self) -> None:
        self.closes = self.silent = False
        self.connections = self.requests = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                outer.connections += 1
                super().setup()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                pass

            def do_GET(self) -> None:
                outer.requests += 1
                if outer.silent:
                    outer.ended.wait(10)
                    return
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")
                if outer.closes:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)

        self.ended = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def service() -> Iterator[Service]:
    found = Service()
    yield found
    found.close()


def test_one_connection_serves_many_requests(service: Service) -> None:
    metadata = MetadataService(service.url)
    assert [metadata.ask("GET", "/x", {}).body for _ in range(5)] == [b"ok"] * 5
    assert (service.connections, service.requests) == (1, 5)


def test_a_connection_that_the_service_closed_is_opened_again(service: Service) -> None:
    service.closes = True
    metadata = MetadataService(service.url)
    assert [metadata.ask("GET", "/x", {}).body for _ in range(3)] == [b"ok"] * 3
    assert service.connections == 3


def test_silence_on_an_open_connection_is_told_at_once_and_not_waited_for_twice(service: Service) -> None:
    metadata = MetadataService(service.url, timeout_s=0.3)
    metadata.ask("GET", "/x", {})
    service.silent = True
    with pytest.raises(UnreadableError, match="timed out"):
        metadata.ask("GET", "/x", {})
    assert service.requests == 2
    service.silent = False
    assert metadata.ask("GET", "/x", {}).body == b"ok"  # over a new one


def test_the_hint_is_looked_for_every_few_seconds_and_the_notice_every_time() -> None:
    metadata, clock = Metadata(), FakeClock()
    try:
        notices = AwsNotices(clock, metadata.url)
        assert notices.read().state == "none"
        metadata.answers[REBALANCE] = (200, b'{"noticeTime": "2026-03-01T12:00:00Z"}')
        for _ in range(int(HINT_EVERY_S) - 1):
            clock.advance(1.0)
            assert notices.read().state == "none"
        clock.advance(1.0)
        assert notices.read().state == "hint"
        clock.advance(1.0)
        assert notices.read().state == "hint"  # it stands between two looks
        assert metadata.asked.count(REBALANCE) == 2
        metadata.answers[ACTION] = (200, b'{"action": "terminate", "time": "2026-03-01T12:02:00Z"}')
        clock.advance(1.0)
        assert notices.read().state == "notice"
    finally:
        metadata.close()


def test_a_file_that_means_nothing_after_a_reboot_is_not_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync

    def noting(handle: int) -> None:
        synced.append(handle)
        real(handle)

    monkeypatch.setattr(os, "fsync", noting)
    path = tmp_path / "heartbeat.json"
    durable.write(path, {"beat": 1}, synced=False)
    assert not synced
    durable.write(path, {"beat": 2})
    assert len(synced) == 2
    assert durable.read(path) == {"beat": 2}
    assert [each.name for each in tmp_path.iterdir()] == ["heartbeat.json"]


def test_a_signature_found_good_is_not_calculated_again_and_another_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = FleetKey.new()
    verify, signature = key.verify_key, key.sign(b"claim")
    assert verify.verifies(b"claim", signature)
    calls: list[bytes] = []
    real = Ed25519PublicKey.from_public_bytes

    def counting(public: bytes) -> object:
        calls.append(public)
        return real(public)

    monkeypatch.setattr(Ed25519PublicKey, "from_public_bytes", counting)
    assert verify.verifies(b"claim", signature)
    assert not calls
    assert not verify.verifies(b"claim.", signature)
    assert not verify.verifies(b"claim", signature[:-1] + bytes([signature[-1] ^ 1]))
    assert not FleetKey.new().verify_key.verifies(b"claim", signature)
    assert len(calls) == 3
    monkeypatch.setattr(fleetkey, "REMEMBERED", 1)
    assert verify.verifies(b"other", key.sign(b"other"))
    assert len(verify._verified) == 1

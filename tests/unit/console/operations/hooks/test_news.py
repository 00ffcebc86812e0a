"""News go out in order, are tried again, never hold anything up, and their failure is told once."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from backends.errors import CredentialsError, ReprieveError, UnreachableError, UsageError
from backends.fakes.clock import FakeClock, run
from console.operations.hooks.channels import Command, Webhook, channels, read_webhook
from console.operations.hooks.news import KEPT, WAITS_S, Level, News, Postman


class Heard:
    """A channel in memory that fails as often as it is told."""

    def __init__(self, failures: int = 0, name: str = "memory") -> None:
        self.name = name
        self.failures, self.texts, self.tries = failures, list[str](), 0

    async def send(self, document: dict[str, Any]) -> None:
        self.tries += 1
        if self.failures:
            self.failures -= 1
            raise UnreachableError("no answer")
        self.texts.append(document["text"])


def news(text: str, level: Level = "news") -> News:
    return News("2026-12-01T00:00:00Z", level, "node.lost", text, node="gpu-a")


def deliver(channels: list[Heard], said: list[News], clock: FakeClock | None = None) -> list[str]:
    clock, complaints = clock or FakeClock(), list[str]()

    async def main() -> None:
        postman = Postman(channels, "fleet", "watch-here", clock, complaints.append)
        for each in said:
            postman.hear(each)
        await asyncio.sleep(sum(WAITS_S) + 1)
        await postman.close()

    run(clock, main())
    return complaints


def test_order_is_kept_and_steps_are_not_delivered() -> None:
    channel = Heard()
    assert deliver([channel], [news("one"), news("a step", "info"), news("two", "alert")]) == []
    assert channel.texts == ["one", "two"]


def test_a_failing_channel_is_tried_again_told_once_and_delays_no_other() -> None:
    slow, quick = Heard(failures=3), Heard(name="quick")
    complaints = deliver([slow, quick], [news("one"), news("two")])
    assert slow.texts == ["one", "two"]
    assert quick.texts == ["one", "two"]
    assert complaints == ["news are not delivered by memory: no answer"]


def test_what_cannot_be_delivered_is_given_up_and_the_next_is_tried() -> None:
    channel = Heard(failures=len(WAITS_S) + 1)
    deliver([channel], [news("one"), news("two")])
    assert channel.texts == ["two"]


def test_waiting_news_are_bounded() -> None:
    channel = Heard(failures=10**6)
    complaints = deliver([channel], [news(str(number)) for number in range(3 * KEPT)])
    assert any("dropped" in text for text in complaints) or len(complaints) == 1
    assert channel.tries < 2 * len(WAITS_S) + 2


class Server:
    """A real HTTP server on loopback; `answers` are the statuses it gives."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.paths.append(self.path)
                outer.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(outer.answers.pop(0) if outer.answers else 204)
                self.send_header("Location", f"http://127.0.0.1:{outer.port}/elsewhere")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Quiet."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


def send(channel: Webhook | Command, text: str = "node gpu-a is lost") -> None:
    asyncio.run(channel.send(news(text).document("prod", "watch-here")))


def test_a_webhook_gets_one_json_document(server: Server) -> None:
    send(Webhook(f"http://127.0.0.1:{server.port}/secret-path"))
    assert server.bodies == [
        {
            "schema": "reprieve/news/v1", "time": "2026-12-01T00:00:00Z", "level": "news", "kind": "node.lost",
            "text": "node gpu-a is lost", "node": "gpu-a", "job": None, "fleet": "prod", "controller": "watch-here",
        }
    ]  # fmt: skip


@pytest.mark.parametrize("status", [302, 307, 404, 500])
def test_anything_but_success_is_a_failure_and_redirects_are_not_followed(
    server: Server, status: int
) -> None:
    server.answers = [status]
    channel = Webhook(f"http://127.0.0.1:{server.port}/secret-path")
    with pytest.raises(UnreachableError, match=f"it answers {status}") as error:
        send(channel)
    assert server.paths == ["/secret-path"]
    assert "secret" not in error.value.message + channel.name


def test_a_silent_webhook_says_so_without_its_address(server: Server) -> None:
    port = server.port
    server.close()
    with pytest.raises(UnreachableError, match="no answer") as error:
        send(Webhook(f"http://127.0.0.1:{port}/secret-path"))
    assert "secret" not in error.value.message


def secret_file(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("text", "mode", "kind", "message"),
    [
        ("https://hooks.example/x\n", 0o644, CredentialsError, "may be read by others: chmod 600"),
        ("http://hooks.example/x\n", 0o600, UsageError, "https"),
        ("ftp://hooks.example/x\n", 0o600, UsageError, "https"),
        ("not an address", 0o600, UsageError, "https"),
        ("", 0o600, UsageError, "https"),
        ("https://a/1\nhttps://a/2\n", 0o600, UsageError, "one https"),
    ],
)
def test_the_address_file(
    tmp_path: Path, text: str, mode: int, kind: type[ReprieveError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        read_webhook(secret_file(tmp_path / "hook", text, mode))
    assert read_webhook(secret_file(tmp_path / "good", "https://hooks.example/T0/B1\n")).endswith("B1")
    with pytest.raises(UsageError, match="cannot be read"):
        read_webhook(tmp_path / "absent")


def test_a_command_reads_the_document_and_its_failure_is_told(tmp_path: Path) -> None:
    script = tmp_path / "page"
    script.write_text('#!/bin/sh\ncat > "$0.got"\necho "$REPRIEVE_NEWS_LEVEL" > "$0.level"\n')
    script.chmod(0o700)
    (channel,) = channels(None, str(script))
    send(channel)  # type: ignore[arg-type]  # a Command
    assert json.loads((tmp_path / "page.got").read_text())["text"] == "node gpu-a is lost"
    assert (tmp_path / "page.level").read_text() == "news\n"
    script.write_text("#!/bin/sh\necho 'no route \x1b[31mto pager'\nexit 3\n")
    with pytest.raises(ReprieveError, match="exit 3: no route") as error:
        send(channel)  # type: ignore[arg-type]  # a Command
    assert "\x1b" not in error.value.message
    with pytest.raises(UsageError, match="a program that can be run"):
        channels(None, str(tmp_path / "absent"))

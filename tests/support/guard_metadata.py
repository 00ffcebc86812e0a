"""A loopback metadata service for notice tests: answers scripted by path, tokens like the real one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ACTION = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
TOKEN = "/latest/api/token"

Answer = tuple[int, bytes] | None  # None: no answer at all


class Metadata:
    """Serves what `answers` holds; 404 for the rest; a GET needs the newest token."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer | Callable[[], Answer]] = {}
        self.token = "TOKEN-1"
        self.put_status = 200
        self.asked: list[str] = []
        self._hang = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._hang.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def _handler(outer) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler's below
        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                pass

            def reply(self, answer: Answer) -> None:
                if answer is None:
                    outer._hang.wait(30)
                    return
                status, body = answer
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_PUT(self) -> None:
                outer.asked.append("PUT")
                if self.path != TOKEN or "X-aws-ec2-metadata-token-ttl-seconds" not in self.headers:
                    self.reply((400, b""))
                elif outer.put_status == 0:
                    self.reply(None)
                else:
                    self.reply((outer.put_status, outer.token.encode()))

            def do_GET(self) -> None:
                outer.asked.append(self.path)
                if self.headers.get("X-aws-ec2-metadata-token") != outer.token:
                    self.reply((401, b""))
                    return
                answer = outer.answers.get(self.path, (404, b"<html>404</html>"))
                self.reply(answer() if callable(answer) else answer)

        return Handler

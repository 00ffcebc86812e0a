"""A loopback metadata service for notice tests: answers scripted by path, each provider's own condition for an answer."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

ACTION = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
TOKEN = "/latest/api/token"

Answer = tuple[int, bytes] | tuple[int, bytes, dict[str, str]] | None  # None: no answer at all
Kind = Literal["aws", "gcp", "azure", "kubernetes"]
_NEEDED = {"gcp": ("Metadata-Flavor", "Google", 403), "azure": ("Metadata", "true", 400),
           "kubernetes": ("Authorization", "Bearer SECRET", 401)}  # fmt: skip


class Metadata:
    """Serves what `answers` holds by path without its query; 404 for the rest.

    A GET needs what the provider asks for: AWS the newest token, the others their header.
    """

    def __init__(self, kind: Kind = "aws") -> None:
        self.kind = kind
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
                status, body, headers = answer if len(answer) == 3 else (*answer, {})
                if outer.kind == "gcp" and len(answer) == 2:
                    headers = {"Metadata-Flavor": "Google"}
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):  # the client gave up
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
                name, value, refusal = _NEEDED.get(outer.kind, ("X-aws-ec2-metadata-token", outer.token, 401))
                if self.headers.get(name) != value:
                    self.reply((refusal, b""))
                    return
                answer = outer.answers.get(self.path.partition("?")[0], (404, b"<html>404</html>"))
                self.reply(answer() if callable(answer) else answer)

        return Handler

"""A loopback HTTP server that answers by a function of the request: for peers that no package imitates well enough."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Asked:
    """One request; header names are in lower case."""

    method: str
    path: str  # with its query
    headers: Mapping[str, str]
    body: str


Reply = tuple[int, str, str]  # status, content type (of a redirect: where to), body
Answer = Callable[[Asked], Reply]


@contextlib.contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """The base address of a server that answers with `answer`."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

        def handle_any(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, self.rfile.read(size).decode())
            status, kind, body = answer(asked)
            self.send_response(status)
            self.send_header("Location" if 300 <= status < 400 else "Content-Type", kind)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - the base class's names

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)

"""A tiny server with the wire formats of S3, of Google's XML interface and of nothing else: faults on order.

It imitates answers; it proves nothing about a provider. Signatures are not looked at.
"""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "ckpt"


@dataclass
class Trouble:
    """What happens to the next matching requests."""

    method: str
    status: int = 0  # an error status; 0: the line goes dead
    code: str = ""
    times: int = 1
    skip: int = 0  # this many matching requests go well first
    done: bool = False  # the request takes effect before it goes wrong
    cut: bool = False  # the answer's body ends early
    slow_s: float = 0.0  # answered only after this long


@dataclass
class CloudState:
    """What the server holds."""

    objects: dict[str, bytes] = field(default_factory=dict)
    troubles: list[Trouble] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    conditional: bool = True  # False: If-None-Match is accepted and ignored, as some servers do
    page: int = 1000  # keys on one page of a listing
    lock: threading.Lock = field(default_factory=threading.Lock)
    port: int = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def s3(self, prefix: str = "fleet") -> str:
        return f"s3://{BUCKET}/{prefix}?endpoint={self.endpoint}&region=us-east-1"

    def gs(self, prefix: str = "fleet") -> str:
        return f"gs://{BUCKET}/{prefix}?endpoint={self.endpoint}"

    def trouble(self, method: str) -> Trouble | None:
        with self.lock:
            self.requests.append(method)
            for each in self.troubles:
                if each.method not in (method, "*") or each.times == 0:
                    continue
                each.skip -= 1
                if each.skip < 0:
                    each.times -= 1
                    return each
        return None


class _Handler(BaseHTTPRequestHandler):
    state: ClassVar[CloudState]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_words: object) -> None:
        pass

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").strip("/")

    def _answer(self, status: int, body: bytes = b"", *, cut: bool = False, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self._die()

    def _error(self, status: int, code: str) -> None:
        words = f"<Error><Code>{code}</Code><Message>said so</Message><Secret>hunter2</Secret></Error>"
        self._answer(status, words.encode())

    def _die(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def _meet(self) -> Trouble | None:
        """Act out what is ordered; a `done` or `cut` one is left to the caller."""
        found = self.state.trouble(self.command)
        if found is None or found.done or found.cut:
            return found
        time.sleep(found.slow_s)
        if found.status:
            self._error(found.status, found.code)
        else:
            self._die()
        return found

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        found = self._meet()
        if found is not None and not found.done:
            return
        once = (
            self.headers.get("If-None-Match") == "*" or self.headers.get("x-goog-if-generation-match") == "0"
        )
        with self.state.lock:
            taken = once and self.state.conditional and self._key() in self.state.objects
            if not taken:
                self.state.objects[self._key()] = body
        if found is not None:
            time.sleep(found.slow_s)
            self._die()
        elif taken:
            self._error(412, "PreconditionFailed")
        else:
            self._answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        found = self._meet()
        if found is not None and not found.cut:
            return
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            self._list(query.get("prefix", [""])[0], query.get("continuation-token", [""])[0])
            return
        with self.state.lock:
            body = self.state.objects.get(self._key())
        if body is None:
            self._error(404, "NoSuchKey")
            return
        dated = {"Last_Modified": formatdate(1_800_000_000, usegmt=True), "ETag": '"e"'}
        asked = self.headers.get("Range", "")
        if not asked:
            self._answer(200, body, cut=found is not None, **dated)
            return
        first, last = (int(part) for part in asked.removeprefix("bytes=").split("-"))
        if first >= len(body):
            self._error(416, "InvalidRange")
            return
        part = body[first : last + 1]
        span = f"bytes {first}-{first + len(part) - 1}/{len(body)}"
        self._answer(206, part, cut=found is not None, Content_Range=span, **dated)

    def _list(self, prefix: str, after: str) -> None:
        with self.state.lock:
            names = sorted(key for key in self.state.objects if key.startswith(prefix) and key > after)
            rows = [(name, len(self.state.objects[name])) for name in names[: self.state.page]]
        more = len(names) > self.state.page
        items = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{size}</Size><ETag>e</ETag>"
            f"<LastModified>2027-01-15T08:00:00.000Z</LastModified></Contents>"
            for name, size in rows
        )
        token = f"<NextContinuationToken>{escape(rows[-1][0])}</NextContinuationToken>" if more else ""
        flag = str(more).lower()
        text = f"<ListBucketResult><IsTruncated>{flag}</IsTruncated>{items}{token}</ListBucketResult>"
        self._answer(200, text.encode())

    def do_DELETE(self) -> None:
        if self._meet() is not None:
            return
        with self.state.lock:
            gone = self.state.objects.pop(self._key(), None) is None
        if gone and "x-goog" in " ".join(self.headers).lower():
            self._error(404, "NoSuchKey")
        else:
            self._answer(204)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Cut connections are meant here."""


@contextmanager
def cloud() -> Iterator[CloudState]:
    """A server on loopback until the block ends."""
    state = CloudState()
    handler = type("Handler", (_Handler,), {"state": state})
    server = _Server(("127.0.0.1", 0), handler)
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)

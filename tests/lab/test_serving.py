"""A model server with its cache in memory and an HTTP client that keeps its session over the move."""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.engines.criu import CriuEngine
from backends.engines.port import RestoreRequest, SaveRequest
from backends.records.job import Job
from tests.support.engines import CLOCK, criu_or_skip, end_all, lines_of, spawn, until

pytestmark = pytest.mark.lab
# Attention over everything said before: each answer depends on the whole cache of its session.
SERVER = r"""
import http.server, json, pathlib, sys
import numpy as np
home = pathlib.Path(sys.argv[1])
rng = np.random.default_rng(7)
SIZE = 64
embed, wq, wk, wv, out = (rng.standard_normal(shape) / 8 for shape in ((256, SIZE), (SIZE, SIZE), (SIZE, SIZE), (SIZE, SIZE), (SIZE, 256)))
sessions = {}
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        keys, values = sessions.setdefault(asked["session"], ([], []))
        x = embed[asked["token"]]
        keys.append(x @ wk); values.append(x @ wv)
        weights = np.exp(np.array(keys) @ (x @ wq) / 8); weights /= weights.sum()
        logits = (weights @ np.array(values)) @ out
        body = json.dumps({"token": int(logits.argmax()), "length": len(keys)}).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *words): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
(home / "port.tmp").write_text(str(server.server_address[1])); (home / "port.tmp").rename(home / "port")
server.serve_forever()
"""


class Client:
    """One session; connects again when its connection is gone."""

    def __init__(self, port: int, session: str) -> None:
        self.port, self.session = port, session
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self.said: list[int] = []

    def say(self, token: int) -> tuple[int, int]:
        """Send one token: the answer's, and the length of the server's cache."""
        body = json.dumps({"session": self.session, "token": token})
        for attempt in (1, 2):
            try:
                self.connection.request("POST", "/", body)
                found = json.loads(self.connection.getresponse().read())
                break
            except (OSError, http.client.HTTPException):
                self.connection.close()
                if attempt == 2:
                    raise
        return found["token"], found["length"]

    def talk(self, first: int, count: int) -> list[int]:
        """Feed each answer back; all answers."""
        answers = []
        for _ in range(count):
            first, _length = self.say(first)
            answers.append(first)
        return answers


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "home"
    place.mkdir()
    yield place
    end_all(tmp_path)


def test_a_session_goes_on_with_its_cache(home: Path, tmp_path: Path) -> None:
    engine = CriuEngine(criu_or_skip(), tmp_path / "run", CLOCK)
    job = Job("server", "here")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    process = spawn([sys.executable, "-c", SERVER, str(home)], home)
    until((home / "port").exists, "the server")
    port = int(lines_of(home / "port")[0])
    whole = Client(port, "uninterrupted").talk(1, 30)
    client = Client(port, "moved")
    assert client.talk(1, 10) == whole[:10]
    assert engine.examine(job, process).answer == "ok"
    place = tmp_path / "save"
    place.mkdir(mode=0o700)
    saved = engine.save(SaveRequest(job, process, place, 30.0, 30.0), lambda: None)
    assert client.talk(whole[9], 5) == whole[10:15], "saving costs the server nothing but a pause"
    engine.end(process)
    back = engine.restore(RestoreRequest(job, place, saved.files, saved.details, 30.0, tmp_path / "aside"))
    try:
        answer, length = client.say(whole[9])
        assert (answer, length) == (whole[10], 11), "the cache is that of the save: 10 tokens and this one"
        assert client.talk(answer, 19) == whole[11:30]
    finally:
        engine.end(back)

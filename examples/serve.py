"""A language model server in plain numpy that knows nothing of checkpoints.

The weights are random and seeded: what it says means nothing, but it is computed as a real one computes it, token by
token over a cache of keys and values that each session fills (llama-style; one head, no batching). A request carries
all tokens of its session; what the cache holds of them is not computed again, and the answer says how much that was.

    python serve.py --port 8000 [--weights-mib 64]
    POST /complete {"session": "a", "tokens": [1, 2, 3], "count": 8} → {"tokens": […], "reused": 0, "computed": 10}
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread: the same sums, bit for bit, on every run

import numpy as np

WIDTH = 256
WORDS = 256
LONGEST = 1 << 16  # tokens of one session
REAL = np.float32


class Model:
    """The weights; `layers` of them come to about `mib` MiB."""

    def __init__(self, mib: int, seed: int = 7) -> None:
        rng = np.random.default_rng(seed)
        layers = max(1, (mib << 20) // (4 * WIDTH * WIDTH * 4))
        self.embedding, self.words = rng.standard_normal((2, WORDS, WIDTH), dtype=REAL)
        shape = (layers, 4, WIDTH, WIDTH)
        self.layers = rng.standard_normal(shape, dtype=REAL) / REAL(np.sqrt(WIDTH))


class Session:
    """What one session has said, and the keys and values of that in every layer."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.said: list[int] = []
        self.room = 64
        self.cache = np.empty((len(model.layers), 2, self.room, WIDTH), REAL)

    def complete(self, tokens: list[int], count: int) -> dict[str, Any]:
        """`count` tokens that follow `tokens`; all but the part that is in the cache is computed."""
        reused = 0
        for mine, theirs in zip(self.said, tokens[:-1], strict=False):
            if mine != theirs:
                break
            reused += 1
        del self.said[reused:]
        computed = 0
        answer: list[int] = []
        following = 0
        for token in tokens[reused:]:
            following = self._step(token)
            computed += 1
        for number in range(count):
            answer.append(following)
            if number + 1 < count:
                following = self._step(following)
                computed += 1
        return {"tokens": answer, "reused": reused, "computed": computed}

    def _step(self, token: int) -> int:
        """Take one token; the likeliest next one."""
        at = len(self.said)
        if at == self.room:
            self.cache = np.concatenate((self.cache, np.empty_like(self.cache)), axis=2)
            self.room *= 2
        x = self.model.embedding[token]
        for number, (to_query, to_key, to_value, through) in enumerate(self.model.layers):
            keys, values = self.cache[number]
            keys[at], values[at] = x @ to_key, x @ to_value
            weights = np.exp(keys[: at + 1] @ (x @ to_query) / REAL(np.sqrt(WIDTH)))
            x = x + (weights / weights.sum()) @ values[: at + 1]
            x = x + np.tanh(x @ through)
            x = x / np.sqrt((x * x).mean())
        self.said.append(token)
        return int((self.model.words @ x).argmax())


class Handler(BaseHTTPRequestHandler):
    """POST /complete; anything else is not found."""

    protocol_version = "HTTP/1.1"
    model: Model
    sessions: dict[str, Session]
    lock: threading.Lock

    def do_POST(self) -> None:
        """Answer one request."""
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        tokens, count = [int(token) % WORDS for token in asked["tokens"]], int(asked["count"])
        if self.path != "/complete" or not tokens or len(tokens) + count > LONGEST:
            self.send_error(404 if self.path != "/complete" else 400)
            return
        with self.lock:
            session = self.sessions.setdefault(str(asked["session"]), Session(self.model))
            body = json.dumps(session.complete(tokens, count)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: Any) -> None:
        """No line for each request."""


class Server(ThreadingHTTPServer):
    """Threads end with the program; a port is free again at once."""

    daemon_threads = True
    allow_reuse_address = True


def main() -> None:
    """Serve until ended."""
    parser = argparse.ArgumentParser(description="a language model server in plain numpy")
    parser.add_argument("--address", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--weights-mib", type=int, default=64)
    given = parser.parse_args()
    Handler.model, Handler.sessions, Handler.lock = Model(given.weights_mib), {}, threading.Lock()
    server = Server((given.address, given.port), Handler)
    print(f"serving on {given.address}:{given.port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()

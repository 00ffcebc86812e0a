"""A model server brought back against one started cold: `python -m benchmarks.serving [--weights-mib N] [--tokens N]`, as root.

The server is `examples/serve.py`; one session of `--tokens` tokens fills its cache. Cold: start it, let it make its
weights, let it compute the whole session again, and give the next token. Back: verify the checkpoint in the store (as the
console does before it claims an epoch), fetch it (checked once more as it comes), restore, ask for the next token. Both
stop at the same answer. Store and save lie on the disk of `TMPDIR`; times of one run, one after the other.
"""

from __future__ import annotations

import argparse
import http.client
import json
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from backends.clock import SystemClock
from backends.engines.criu import CriuEngine
from backends.engines.launch import identify
from backends.engines.port import Process, RestoreRequest, SaveRequest
from backends.ids import CheckpointId
from backends.records.job import Job
from backends.store.commit import Committer, SaveSource, SourceFile
from backends.store.fetch import fetch
from backends.store.files import FileStore
from backends.store.fleetkey import FleetKey
from backends.store.sealing import JobKey
from backends.store.takeover import Taker, begin
from backends.store.verify import verify_checkpoint
from benchmarks.common import ratio, report
from benchmarks.freeze import find_tool, freezable
from benchmarks.peers import settle

SERVER = Path(__file__).resolve().parents[1] / "examples" / "serve.py"
UID = "abcdefghij0123456789"
FASTER = 2.0  # a restore should beat a cold start by this at least, or it is not worth its disk
CLOCK = SystemClock()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def ask(port: int, tokens: list[int]) -> dict[str, Any]:
    """The next token of a session; waits until the server listens."""
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        try:
            connection.connect()
            break
        except ConnectionRefusedError:
            time.sleep(0.002)
    body = json.dumps({"session": "bench", "tokens": tokens, "count": 1})
    connection.request("POST", "/complete", body)
    answer: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return answer


class Bench:
    """One server and one store in `home`."""

    def __init__(self, home: Path, weights_mib: int, tokens: int) -> None:
        tool = find_tool()
        if tool is None:
            raise SystemExit("serving: no CRIU on this machine or in the cache")
        self.home, self.port = home, free_port()
        self.argv = [sys.executable, str(SERVER), "--address", "127.0.0.1", "--port", str(self.port)]
        self.argv += ["--weights-mib", str(weights_mib)]
        self.session = [number * 37 % 251 for number in range(tokens)]
        self.job = Job("serving", "here", command=tuple(self.argv), engine="criu")
        self.engine = CriuEngine(tool, home / "run", CLOCK)
        self.store, self.key, self.fleet = FileStore(home / "store"), JobKey.new(), FleetKey.new()
        begin(Taker(self.store, UID, self.fleet, "bench", "n" * 32, CLOCK), "serving", "here", "guard")
        self.figures: dict[str, float] = {}
        self._last = 0.0

    def _lap(self, name: str) -> None:
        now = time.perf_counter()
        self.figures[name] = round(now - self._last, 4)
        self._last = now

    def _begin(self) -> None:
        settle()
        self._last = time.perf_counter()

    def cold(self) -> tuple[Process, subprocess.Popen[bytes], dict[str, Any]]:
        """Start the server and get the session's next token."""
        self._begin()
        child = subprocess.Popen(
            self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            cwd="/", start_new_session=True,
        )  # fmt: skip
        ask(self.port, [1])  # it listens once its weights are made
        self._lap("cold.start_s")
        answer = ask(self.port, self.session)
        self._lap("cold.session_again_s")
        process = identify(child.pid)
        if process is None:
            raise SystemExit("serving: the server did not start")
        return process, child, answer

    def save(self, process: Process) -> dict[str, Any]:
        """One save into the store; the engine's details, which a restore needs."""
        where = self.home / "save"
        where.mkdir(mode=0o700)
        saved = self.engine.save(SaveRequest(self.job, process, where, 300.0, 300.0), lambda: None)
        files = tuple(SourceFile(**asdict(file)) for file in saved.files)
        source = SaveSource(
            where, "criu", saved.frozen_at, saved.frozen_s, saved.dump_s, files=files, details=saved.details
        )
        committer = Committer(self.store, UID, 1, self.key, self.fleet.verify_key, CLOCK)
        done = committer.commit(1, source)
        self.figures |= {"save.pause_s": round(saved.frozen_s, 4), "save.image_mb": saved.size_bytes / 1e6}
        self.figures["save.stored_mb"] = done.stored_bytes / 1e6
        shutil.rmtree(where)
        return {"files": saved.files, "details": saved.details}

    def back(self, kept: dict[str, Any]) -> tuple[Process, dict[str, Any]]:
        """Verify, fetch, restore, and get the session's next token."""
        self._begin()
        verify_checkpoint(self.store, UID, CheckpointId(1, 1), self.key, CLOCK)
        self._lap("back.verify_s")
        fetch(self.store, UID, CheckpointId(1, 1), self.key, self.home / "fetched")
        self._lap("back.fetch_s")
        process = self.engine.restore(
            RestoreRequest(
                self.job, self.home / "fetched", kept["files"], kept["details"], 120.0, self.home / "aside"
            )
        )
        self._lap("back.restore_s")
        answer = ask(self.port, self.session)
        self._lap("back.first_answer_s")
        return process, answer


def measure(weights_mib: int, tokens: int) -> dict[str, float]:
    """All figures; the answers of both ways are compared."""
    with TemporaryDirectory(prefix="bench.") as name:
        bench = Bench(Path(name), weights_mib, tokens)
        process, child, expected = bench.cold()
        try:
            kept = bench.save(process)
        finally:
            child.kill()
            child.wait()
        back, answer = bench.back(kept)
        bench.engine.end(back)
    if answer["tokens"] != expected["tokens"] or answer["reused"] != tokens - 1:
        raise SystemExit(f"serving: the session did not come back: {answer} where {expected} was expected")
    for way in ("cold", "back"):
        parts = [value for key, value in bench.figures.items() if key.startswith(way)]
        bench.figures[f"{way}.total_s"] = round(sum(parts), 4)
    return bench.figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="a server brought back against one started cold")
    parser.add_argument("--weights-mib", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("-o", choices=("json", "table"), default="table")
    given = parser.parse_args()
    if not freezable():
        raise SystemExit("serving: needs root and CRIU")
    figures = measure(given.weights_mib, given.tokens)
    figures |= {"weights_mib": given.weights_mib, "tokens": given.tokens}
    faster = figures["cold.total_s"] / figures["back.total_s"]
    report("serving", figures, {"cold start / restore": ratio(faster, FASTER, "higher")}, ("numpy",))


if __name__ == "__main__":
    main()

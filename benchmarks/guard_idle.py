"""What a guard costs while nothing happens: processor time and memory of guard and watchdog, per second of waiting.

Two states: no job at all, and one protected job with an hour until its next save (its lineage is read every 5 s from a
directory). In both the provider's metadata is read once a second from a server on loopback.
"""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from backends.clock import SystemClock
from backends.errors import UnreachableError
from backends.guard.disk.layout import Layout
from backends.guard.server import call
from backends.ids import new_nonce, new_uid
from backends.records.job import Job
from backends.records.strict import to_document
from backends.store.fleetkey import FleetKey
from backends.store.open import open_store
from backends.store.sealing import JobKey
from backends.store.takeover import Taker, begin
from benchmarks.common import ratio, report

WATCH_S = 60.0
SETTLE_S = 12.0
ROOT = Path(__file__).resolve().parents[1]
# A program that saves itself: the engine `signal` needs no root, and the guard's cost is the same.
PROGRAM = (
    "import signal, sys, time\n"
    "def save(*_):\n    open(sys.argv[1], 'a').write('x')\n"
    "signal.signal(signal.SIGUSR1, save)\nwhile True:\n    time.sleep(3600)\n"
)


class Metadata(http.server.BaseHTTPRequestHandler):
    """A provider that announces nothing."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def do_PUT(self) -> None:
        """A session token."""
        self._answer(200, b"token")

    def do_GET(self) -> None:
        """No notice."""
        self._answer(404, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def used(pid: int) -> tuple[float, float, float]:
    """Processor seconds, resident MiB and private MiB of a process."""
    nanoseconds = sum(
        int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()
    )
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
    private = sum(
        int(line.split()[1])
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        if line.startswith("Private_")
    )
    return nanoseconds / 1e9, resident / 1024, private / 1024


def watch(layout: Layout) -> dict[str, float]:
    """Share of a core and MiB of guard and watchdog over a quiet stretch."""
    pids = {
        "guard": int(layout.lock.read_text().split()[0]),
        "watchdog": int((layout.state / "watchdog.lock").read_text().split()[0]),
    }
    before = {name: used(pid) for name, pid in pids.items()}
    begun = time.monotonic()
    time.sleep(WATCH_S)
    taken = time.monotonic() - begun
    found = {}
    for name, pid in pids.items():
        cpu, resident, private = used(pid)
        found[f"{name}_core_percent"] = 100 * (cpu - before[name][0]) / taken
        found[f"{name}_mib"] = resident
        found[f"{name}_private_mib"] = private
    return found


def start(root: Path, url: str) -> Layout:
    """A real guard at `root`."""
    environment = {
        **os.environ,
        "REPRIEVE_NODE_ROOT": str(root),
        "REPRIEVE_METADATA_URL": url,
        "PYTHONPATH": str(ROOT),
    }
    argv = [sys.executable, "-m", "backends.guard.entry", "serve", "--detach"]
    subprocess.run(argv, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=60)
    return Layout(root)


def protect(layout: Layout, work: Path) -> None:
    """One job with an hour between saves, its first save done."""
    key, uid, nonce = FleetKey.new(), new_uid(), new_nonce()
    url = f"file://{work / 'store'}"
    guard = str(call(layout.socket, "status", {}, 10)["guard"])
    begin(Taker(open_store(url), uid, key, "bench", nonce, SystemClock()), "idle", "node", guard)
    mark = work / "saved"
    job = Job(
        "idle", "node", uid, command=(sys.executable, "-S", "-c", PROGRAM, str(mark)), engine="signal", interval_s=3600.0,
        store=url, marker=str(mark), files=(), cwd=str(work),
    )  # fmt: skip
    grant = {
        "store": url, "epoch": 1, "nonce": nonce, "key": JobKey.new().hex, "verify_key": key.verify_key.hex, "continues": "genesis",
    }  # fmt: skip
    answer = call(
        layout.socket, "start", {"request": new_nonce(), "job": to_document(job), "grant": grant}, 120
    )
    if "error" in answer:
        raise SystemExit(f"guard_idle: {answer['error']['message']}")
    give_up_at = time.monotonic() + 60
    while True:
        status: dict[str, Any] = call(layout.socket, "status", {}, 10)["jobs"][0]
        if status["saved"] is not None:
            return
        if time.monotonic() > give_up_at:
            raise SystemExit(f"guard_idle: the first save did not come: {status['error']}")
        time.sleep(0.2)


def end(layout: Layout) -> None:
    """The guard, its watchdog and the job."""
    try:
        jobs = call(layout.socket, "status", {}, 10)["jobs"]
        call(layout.socket, "shutdown", {}, 10)
    except UnreachableError:
        return
    for job in jobs:
        if job["pid"]:
            os.kill(job["pid"], 9)
    for _ in range(100):
        if not layout.socket.exists():
            return
        time.sleep(0.1)


def main() -> None:
    """Measure and print."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="reprieve-bench-", ignore_cleanup_errors=True) as place:
        work = Path(place)
        layout = start(work / "node", f"http://127.0.0.1:{server.server_address[1]}")
        try:
            time.sleep(SETTLE_S)
            empty = watch(layout)
            protect(layout, work)
            time.sleep(SETTLE_S)
            busy = watch(layout)
        finally:
            end(layout)
    figures = {f"no_job_{name}": value for name, value in empty.items()}
    figures |= {f"one_job_{name}": value for name, value in busy.items()}
    ratios = {}
    for state, found in (("no_job", empty), ("one_job", busy)):
        cpu = found["guard_core_percent"] + found["watchdog_core_percent"]
        ratios[f"{state}_core_percent"] = ratio(cpu, 0.2)
        # Both run one interpreter: what they share is counted once, with the guard.
        ratios[f"{state}_mib"] = ratio(found["guard_mib"] + found["watchdog_private_mib"], 60.0)
    report("guard_idle", figures, ratios, ("cryptography", "blake3"))


if __name__ == "__main__":
    main()

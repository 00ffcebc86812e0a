"""The fleet in the text format of Prometheus: into a file for a node's collector, or on a port of this machine."""

from __future__ import annotations

import asyncio
import math
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from backends.clean import clean
from backends.errors import UsageError
from backends.ledger.records import Reclaim
from console.operations.view import FleetView, risk_now

REQUEST_LIMIT = 8192
REQUEST_S = 5.0
HOSTS = ("127.0.0.1", "localhost", "[::1]")


def metrics_text(view: FleetView, reclaims: list[Reclaim], beat_at: float | None) -> str:
    """Every metric with its help and type; what is unknown has no sample, never 0.

    Args:
        view: the fleet now.
        reclaims: the ledger's, for the totals.
        beat_at: wall time of this controller's last heartbeat in the store; None: none was written.
    """
    lines: list[str] = []

    def metric(name: str, kind: str, text: str, samples: list[tuple[dict[str, str], float | None]]) -> None:
        kept = [(labels, value) for labels, value in samples if value is not None and math.isfinite(value)]
        lines.append(f"# HELP reprieve_{name} {text}")
        lines.append(f"# TYPE reprieve_{name} {kind}")
        lines.extend(f"reprieve_{name}{_labels(labels)} {value:.10g}" for labels, value in kept)

    def each_job(read: Callable[[int], float | None]) -> list[tuple[dict[str, str], float | None]]:
        return [({"job": row.name}, read(index)) for index, row in enumerate(view.jobs)]

    jobs, now = view.jobs, view.taken_at
    states = Counter(row.state for row in jobs)
    metric("jobs", "gauge", "jobs by state", [({"state": s}, n) for s, n in sorted(states.items())])
    nodes = Counter(row.state for row in view.nodes)
    metric("nodes", "gauge", "nodes by state", [({"state": s}, n) for s, n in sorted(nodes.items())])
    metric(
        "job_work_at_risk_seconds", "gauge", "work that a loss this second would cost",
        each_job(lambda index: risk_now(jobs[index], now)),
    )  # fmt: skip
    metric(
        "job_checkpoint_timestamp_seconds", "gauge", "freeze instant of the newest durable save",
        each_job(lambda index: jobs[index].frozen_at),
    )  # fmt: skip
    metric("job_freeze_seconds", "gauge", "pause of the newest save", each_job(lambda i: jobs[i].freeze_s))
    metric("job_interval_seconds", "gauge", "work between two saves", each_job(lambda i: jobs[i].interval_s))
    counts = Counter((each.cause, each.outcome) for each in reclaims)
    metric(
        "restores_total", "counter", "restores on record by cause and outcome",
        [({"cause": cause, "outcome": outcome}, n) for (cause, outcome), n in sorted(counts.items())],
    )  # fmt: skip
    taken = [each for each in reclaims if each.cause == "reclaim"]
    for name in ("lost_work", "restore", "wait"):
        known = [value for each in taken if (value := getattr(each, f"{name}_s")) is not None]
        metric(
            f"reclaim_{name}_seconds_total", "counter", f"{name.replace('_', ' ')} of reclaims, where known",
            [({}, math.fsum(known))],
        )  # fmt: skip
    metric("controller_look_timestamp_seconds", "gauge", "when the fleet was looked at last", [({}, now)])
    metric("controller_heartbeat_timestamp_seconds", "gauge", "last heartbeat in the store", [({}, beat_at)])
    return "\n".join(lines) + "\n"


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def write_file(path: Path, text: str) -> None:
    """Replace the collector's file whole; it is for others to read. UsageError when it cannot be written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, "utf-8")
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UsageError(f"metrics file {path} cannot be written: {clean(error.strerror or error)}") from None


class Endpoint:
    """`GET /metrics` on a port of 127.0.0.1; shows the newest text it was given."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.text = ""
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen; UsageError when the port cannot be had. With port 0 `port` becomes the one that was."""
        try:
            self._server = await asyncio.start_server(
                self._serve, "127.0.0.1", self.port, limit=REQUEST_LIMIT
            )
        except OSError as error:
            raise UsageError(
                f"metrics port {self.port} cannot be used: {clean(error.strerror or error)}"
            ) from None
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                status, body = self._answer(head.decode("latin-1"))
                kind = "text/plain; version=0.0.4; charset=utf-8"
                data = body.encode()
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n"
                    f"Connection: close\r\n\r\n".encode()
                    + data
                )
                await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # the caller went away, or is none that we talk to
        finally:
            writer.close()

    def _answer(self, head: str) -> tuple[str, str]:
        request, *rows = head.split("\r\n")
        words = request.split(" ")
        fields = {
            name.strip().lower(): value.strip() for name, _, value in (row.partition(":") for row in rows)
        }
        host = fields.get("host", "").rsplit(":", 1)[0] if fields.get("host", "") != "[::1]" else "[::1]"
        if host not in HOSTS:  # a page in a browser that reached us under a name of its own
            return "403 Forbidden", "only for this machine\n"
        if len(words) != 3 or words[0] != "GET":
            return "405 Method Not Allowed", "GET is expected\n"
        if words[1].partition("?")[0] != "/metrics":
            return "404 Not Found", "see /metrics\n"
        return "200 OK", self.text

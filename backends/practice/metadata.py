"""A fake metadata endpoint per host, shaped like AWS's instance metadata service version 2.

`answer` is pure: what the endpoint says to one request in one state at one time. `serve` puts it on a socket.
Only what a guard reads is offered; everything else is 404.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import dataclass, field
from typing import Literal, get_args

from backends.clock import Clock, format_utc

MetadataMode = Literal["silent", "hint", "notice", "hang", "forbidden", "error", "html"]
MODES: tuple[str, ...] = get_args(MetadataMode)
UNREADABLE = ("hang", "forbidden", "error", "html")

_BASE = "/latest/meta-data/"
_HEAD_LIMIT_BYTES = 16 * 1024
_REQUEST_S = 10.0
_TTL_LIMIT_S = 21_600
_NOT_FOUND = "404 - Not Found"
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
            405: "Method Not Allowed", 500: "Internal Server Error"}  # fmt: skip


@dataclass
class Metadata:
    """State of one endpoint."""

    instance: str
    pool: str  # provider/zone/type/os
    mode: MetadataMode = "silent"
    deadline: float | None = None  # wall seconds at which the host is taken, with mode `notice`
    since: float | None = None  # wall seconds at which the hint was given
    tokens: dict[str, float] = field(default_factory=dict)  # token → monotonic end of its life


@dataclass(frozen=True)
class Answer:
    """One HTTP answer."""

    status: int
    body: str = ""
    kind: str = "text/plain"
    headers: tuple[tuple[str, str], ...] = ()


def answer(
    state: Metadata, method: str, path: str, headers: dict[str, str], *, wall: float, monotonic: float
) -> Answer | None:
    """What the endpoint says; None is silence (the connection hangs).

    Args:
        state: of the endpoint; a token request adds its token.
        method: of the HTTP request.
        path: of the HTTP request.
        headers: with lower-case names.
        wall: seconds since 1970.
        monotonic: seconds, for the lives of tokens.
    """
    if state.mode == "hang":
        return None
    if state.mode == "forbidden":
        return Answer(403, "403 - Forbidden")
    if state.mode == "error":
        return Answer(500, "500 - Internal Server Error")
    if state.mode == "html":
        return Answer(200, "<html><body>captive portal</body></html>", "text/html")
    if path == "/latest/api/token":
        return _token(state, method, headers, monotonic) if method == "PUT" else Answer(405)
    if state.tokens.get(headers.get("x-aws-ec2-metadata-token", ""), 0.0) <= monotonic:
        return Answer(401, "401 - Unauthorized")
    if method != "GET":
        return Answer(405)
    return _read(state, path, wall)


def _token(state: Metadata, method: str, headers: dict[str, str], monotonic: float) -> Answer:
    wanted = headers.get("x-aws-ec2-metadata-token-ttl-seconds", "")
    if not wanted.isdigit() or not 1 <= int(wanted) <= _TTL_LIMIT_S:
        return Answer(400, "400 - Bad Request")
    state.tokens = {token: end for token, end in state.tokens.items() if end > monotonic}
    token = secrets.token_urlsafe(32)
    state.tokens[token] = monotonic + int(wanted)
    return Answer(200, token, headers=(("x-aws-ec2-metadata-token-ttl-seconds", wanted),))


def _read(state: Metadata, path: str, wall: float) -> Answer:
    _provider, zone, kind, _system = [*state.pool.split("/"), "", "", "", ""][:4]
    plain = {
        "instance-id": state.instance,
        "instance-type": kind,
        "placement/availability-zone": zone,
        "instance-life-cycle": "spot",
    }
    if path == "/latest/dynamic/instance-identity/document":
        document = {"instanceId": state.instance, "instanceType": kind, "availabilityZone": zone}
        return Answer(200, json.dumps(document), "application/json")
    name = path.removeprefix(_BASE) if path.startswith(_BASE) else ""
    if name in plain:
        return Answer(200, plain[name])
    at = _whole_seconds(state.deadline)
    if state.mode == "notice" and name == "spot/instance-action":
        return Answer(200, json.dumps({"action": "terminate", "time": at}), "application/json")
    if state.mode == "notice" and name == "spot/termination-time":
        return Answer(200, at)
    if state.mode in ("hint", "notice") and name == "events/recommendations/rebalance":
        since = _whole_seconds(state.since if state.since is not None else wall)
        return Answer(200, json.dumps({"noticeTime": since}), "application/json")
    return Answer(404, _NOT_FOUND)


def _whole_seconds(seconds: float | None) -> str:
    """As the service writes times: UTC, whole seconds."""
    return format_utc(seconds or 0.0).partition(".")[0] + "Z"


async def serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, state: Metadata, clock: Clock
) -> None:
    """Serve one connection: one request, one answer, close."""
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _REQUEST_S)
        method, path, headers = _parse(head)
        said = answer(state, method, path, headers, wall=clock.wall(), monotonic=clock.monotonic())
        if said is None:
            await reader.read()  # until the client gives up
            return
        writer.write(_bytes(said))
        await writer.drain()
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return
    finally:
        writer.close()


def _parse(head: bytes) -> tuple[str, str, dict[str, str]]:
    """Method, path and headers of a request head; ValueError when it is none."""
    if len(head) > _HEAD_LIMIT_BYTES:
        raise ValueError("request head is too long")
    first, *rest = head.decode("latin-1").split("\r\n")
    method, path, _version = first.split(" ")
    pairs = (line.partition(":") for line in rest if ":" in line)
    return method, path.rstrip("/"), {name.strip().lower(): value.strip() for name, _, value in pairs}


def _bytes(said: Answer) -> bytes:
    body = said.body.encode()
    lines = [
        f"HTTP/1.1 {said.status} {_REASONS.get(said.status, 'Error')}",
        f"Content-Type: {said.kind}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in said.headers),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body

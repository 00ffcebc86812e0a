"""The practice fleet as a provider: only a clear answer proves anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from backends.clock import SystemClock
from backends.clouds.practice.cloud import PracticeCloud, node_of
from backends.errors import DamagedError, UnreachableError
from backends.practice.control import bind_control
from backends.records.node import Node

HOST = {
    "name": "host-d",
    "ssh": "root@127.0.0.1:4022",
    "pool": "practice/zone-a/small/linux",
    "instance": "i-4",
    "host_key": "ssh-ed25519 AAAA",
}
NODE = Node("host-a", "root@127.0.0.1:4000", "practice", instance="i-1")


class Daemon:
    """Says one line to every request."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.line = b""
        self.asked: list[dict[str, Any]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(json.loads(await reader.readline()))
        writer.write(self.line)
        await writer.drain()
        writer.close()


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    made = Daemon(tmp_path / "control.sock")
    server = await asyncio.start_unix_server(made.serve, sock=bind_control(made.place))
    yield made
    server.close()


def ok(**fields: Any) -> bytes:
    return json.dumps({"ok": fields}).encode() + b"\n"


@pytest.mark.parametrize(
    ("line", "state"),
    [
        (ok(state="running", reason="running"), "running"),
        (ok(state="terminated", reason="Server.SpotInstanceTermination"), "terminated"),
        (ok(state="unknown", reason="InvalidInstanceID.NotFound"), "unknown"),
        (ok(state="gone"), "unknown"),
        (ok(), "unknown"),
        (b"", "unknown"),
        (b'{"ok": {"state": "termina', "unknown"),
        (b"not json\n", "unknown"),
        (b"[]\n", "unknown"),
    ],
)
async def test_only_the_word_terminated_is_terminated(daemon: Daemon, line: bytes, state: str) -> None:
    daemon.line = line
    cloud = PracticeCloud(daemon.place, SystemClock(), timeout_s=5)
    answer = await asyncio.to_thread(cloud.instance, NODE)
    assert answer.state == state
    assert daemon.asked == [{"verb": "instance", "instance": "i-1"}]


def test_no_daemon_and_no_instance_id_are_unknown(tmp_path: Path) -> None:
    cloud = PracticeCloud(tmp_path / "control.sock", SystemClock())
    answer = cloud.instance(NODE)
    assert answer.state == "unknown"
    assert "no practice fleet runs" in answer.reason
    assert cloud.instance(Node("x", "x")).state == "unknown"
    with pytest.raises(UnreachableError):
        cloud.replace("practice/zone-a/small/linux", "t")


async def test_a_ready_replacement_is_a_node_with_pinned_key(daemon: Daemon) -> None:
    daemon.line = ok(token="t", state="ready", reason="", host=HOST)
    cloud = PracticeCloud(daemon.place, SystemClock(), timeout_s=5)
    found = await asyncio.to_thread(cloud.replace, HOST["pool"], "t")
    assert found.state == "ready"
    assert found.node is not None
    assert found.node.provider == "practice"
    assert found.node.host_key == HOST["host_key"]
    assert found.node.identity_file == str(daemon.place.parent / "keys/id_ed25519")


@pytest.mark.parametrize(("said", "state"), [("pending", "pending"), ("failed", "failed"), ("odd", "failed")])
async def test_other_replacements_have_no_node(daemon: Daemon, said: str, state: str) -> None:
    daemon.line = ok(token="t", state=said, reason="why\x1b[2J")
    cloud = PracticeCloud(daemon.place, SystemClock(), timeout_s=5)
    found = await asyncio.to_thread(cloud.replace, HOST["pool"], "t")
    assert (found.state, found.node) == (state, None)
    assert "\x1b" not in found.reason


def test_a_host_described_without_a_field_is_refused() -> None:
    for missing in HOST:
        broken = {key: value for key, value in HOST.items() if key != missing}
        with pytest.raises(DamagedError, match=missing):
            node_of(broken, Path("/k"))

"""The fleet's rules and the control protocol, on fake hosts."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.clock import SystemClock
from backends.clouds.practice.client import PracticeClient
from backends.errors import UnreachableError, UsageError
from backends.practice.control import Control, bind_control
from backends.practice.fleet import DEFAULT_POOL, Fleet, letters
from tests.support.practice_fakes import FakeKind


class Desk:
    """A control with its fleet of two fake hosts."""

    def __init__(self, directory: Path) -> None:
        self.kind = FakeKind()
        self.fleet = Fleet(self.kind, directory, SystemClock())
        self.ended = False
        self.control = Control(self.fleet, lambda: {"hosts": len(self.fleet.members)}, self._end)

    def _end(self) -> None:
        self.ended = True

    async def ask(self, verb: str, **fields: Any) -> dict[str, Any]:
        answer = await self.control.answer(json.dumps({"verb": verb, **fields}).encode())
        assert "ok" in answer, answer
        ok: dict[str, Any] = answer["ok"]
        return ok

    async def refused(self, **request: Any) -> str:
        answer = await self.control.answer(json.dumps(request).encode())
        return str(answer["error"]["message"])


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    made = Desk(tmp_path)
    await made.fleet.add()
    await made.fleet.add()
    yield made
    await made.fleet.close()


async def eventually(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await SystemClock().pause(0.01)


async def test_a_reclaimed_host_is_terminated_once_and_refuses(desk: Desk) -> None:
    host = await desk.ask("reclaim", host="host-a")
    assert host["state"] == "terminated"
    assert host["ended_at"] is not None
    assert desk.kind.made[0].kills == 1
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", host["ssh_port"])
    assert "reclaimed already" in await desk.refused(verb="reclaim", host="host-a")
    assert (await desk.ask("instance", instance=host["instance"]))["state"] == "terminated"


async def test_a_notice_alone_takes_nothing_and_can_be_withdrawn(desk: Desk) -> None:
    host = await desk.ask("notice", host="host-a", notice_s=0.0)
    assert (host["state"], host["metadata"]) == ("noticed", "notice")
    await SystemClock().pause(0.05)
    assert (await desk.ask("instance", instance=host["instance"]))["state"] == "running"
    host = await desk.ask("metadata", host="host-a", mode="silent")
    assert (host["state"], host["notice_at"]) == ("running", None)


async def test_a_withdrawn_notice_withdraws_its_reclaim(desk: Desk) -> None:
    await desk.ask("reclaim", host="host-a", notice_s=0.1)
    await desk.ask("metadata", host="host-a", mode="silent")
    await desk.ask("reclaim", host="host-b", notice_s=0.1)
    await eventually(lambda: desk.fleet.members["host-b"].state == "terminated")
    await SystemClock().pause(0.1)
    assert desk.fleet.members["host-a"].state == "running"


async def test_unreadable_is_a_word_for_forbidden(desk: Desk) -> None:
    assert (await desk.ask("metadata", host="host-a", mode="unreadable"))["metadata"] == "forbidden"


async def test_a_host_that_dies_by_itself_is_recorded(desk: Desk) -> None:
    desk.kind.made[1].living = False
    await desk.fleet.notice_deaths()
    assert desk.fleet.members["host-b"].state == "terminated"
    assert desk.fleet.members["host-a"].state == "running"


async def test_unknown_instances_prove_nothing(desk: Desk) -> None:
    assert (await desk.ask("instance", instance="i-0"))["state"] == "unknown"


async def test_a_token_makes_one_host_however_often_it_is_used(desk: Desk) -> None:
    first = await desk.ask("replace", token="t", pool=DEFAULT_POOL)
    assert first["state"] == "pending"
    await eventually(lambda: len(desk.fleet.members) == 3)
    answers = [await desk.ask("replace", token="t") for _ in range(3)]
    assert {answer["host"]["name"] for answer in answers} == {"host-c"}
    assert "was used for pool" in await desk.refused(verb="replace", token="t", pool="practice/b/c/linux")
    assert len(desk.fleet.members) == 3


async def test_no_capacity_fails_and_the_same_token_may_try_again(desk: Desk) -> None:
    await desk.ask("capacity", available=False)
    failed = await desk.ask("replace", token="t")
    assert failed["state"] == "failed"
    assert "InsufficientInstanceCapacity" in failed["reason"]
    await desk.ask("capacity", available=True)
    await desk.ask("replace", token="t")
    await eventually(lambda: len(desk.fleet.members) == 3)


async def test_a_host_that_does_not_start_is_a_failed_request(desk: Desk) -> None:
    desk.kind.failure = "no room"
    await desk.ask("replace", token="t")
    await SystemClock().pause(0.02)
    failed = await desk.ask("replace", token="t")
    assert (failed["state"], failed["reason"]) == ("failed", "no room")


async def test_another_clouds_pool_is_refused(desk: Desk) -> None:
    assert "practice/ZONE/TYPE/SYSTEM" in await desk.refused(verb="replace", token="t", pool="aws/x/y/linux")


async def test_a_partition_is_silent_and_heals(desk: Desk) -> None:
    host = await desk.ask("partition", host="host-a")
    await desk.ask("partition", host="host-a")  # twice is once

    async def hear() -> bytes:
        """As root the handshake itself is swallowed; elsewhere a connection opens and hears nothing."""
        heard, _ = await asyncio.open_connection("127.0.0.1", host["ssh_port"])
        return await heard.readline()

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(hear(), 0.4)
    await desk.ask("heal", host="host-a")
    async with asyncio.timeout(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", host["ssh_port"])
        assert await reader.readline() == b"SSH-2.0-fake\r\n"
    writer.close()
    assert desk.kind.made[0].cuts == [True, False]


async def test_the_port_of_a_reclaimed_host_stays_taken(desk: Desk) -> None:
    import socket

    host = await desk.ask("reclaim", host="host-a")
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", host["ssh_port"]))


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"verb": "explode"}, "practice verb 'explode' is not one of describe, reclaim"),
        ({}, "practice verb 'None'"),
        ({"verb": "reclaim"}, "'host' is missing"),
        (
            {"verb": "reclaim", "host": "nobody"},
            "practice host 'nobody' does not exist; there are: host-a, host-b",
        ),
        ({"verb": "reclaim", "host": "host-a", "now": True}, "unknown field 'now'"),
        ({"verb": "store_full", "on": "yes"}, "bool expected"),
        ({"verb": "metadata", "host": "host-a", "mode": "odd"}, "'silent' or 'hint'"),
    ],
)
async def test_wrong_requests_are_refused_by_name(
    desk: Desk, request_: dict[str, Any], expected: str
) -> None:
    assert expected in await desk.refused(**request_)


@given(st.binary(max_size=200))
def test_any_line_gets_one_answer(line: bytes) -> None:
    control = Control(Fleet(FakeKind(), Path("/nowhere"), SystemClock()), dict, lambda: None)
    assert "error" in asyncio.run(control.answer(line))


async def test_over_the_socket_sync_and_async_even_on_a_long_path(desk: Desk, tmp_path: Path) -> None:
    place = tmp_path / ("d" * 100) / "control.sock"
    place.parent.mkdir()
    server = await asyncio.start_unix_server(desk.control.serve, sock=bind_control(place))
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    client = PracticeClient(place, timeout_s=5)
    assert await client.acall("describe") == {"hosts": 2}
    assert await asyncio.to_thread(client.call, "describe") == {"hosts": 2}
    with pytest.raises(UsageError, match="host-zz"):
        await client.acall("heal", host="host-zz")
    await client.acall("shutdown")
    assert desk.ended
    server.close()


async def test_nobody_there_is_unreachable_with_a_hint(tmp_path: Path) -> None:
    client = PracticeClient(tmp_path / "control.sock")
    with pytest.raises(UnreachableError) as caught:
        client.call("describe")
    assert caught.value.hint == "start one with: reprieve practice up"
    with pytest.raises(UnreachableError):
        await client.acall("describe")


@given(st.integers(1, 10**6))
def test_letters_are_different_for_every_number(number: int) -> None:
    assert letters(number) != letters(number + 1)
    assert letters(number).isalpha()


def test_letters_go_on_after_z() -> None:
    assert [letters(number) for number in (1, 26, 27, 52, 53)] == ["a", "z", "aa", "az", "ba"]

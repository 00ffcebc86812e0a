"""The lasting channel: a line for a line, one process a node, and single commands where a node does not attend."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from backends.errors import DamagedError, UnreachableError
from backends.nodes import attending
from backends.nodes.ssh import LinkPool
from tests.support.sshnodes import FakeHost, Fleet, echo


class AttendingHost(FakeHost):
    """Answers `attend` line by line, as `says` tells; anything else as every fake host."""

    says: Any = staticmethod(lambda line: line)

    async def process(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        if not (process.command or "").endswith(" attend"):
            await super().process(process)
            return
        self.commands.append("attend")
        async for line in process.stdin:
            answer = self.says(line)
            if answer is None:
                break
            if answer:
                process.stdout.write(answer)
        process.exit(0)


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with Fleet(tmp_path) as made:
        pool = made.pool
        made.pool = LinkPool(
            known_hosts=pool.host_keys.files, clock=pool._clock, ssh_config=pool.ssh_config, attend=True
        )
        yield made


async def attending_host(fleet: Fleet, says: Any) -> AttendingHost:
    host = AttendingHost("n1", echo, fleet.client_line, False, asyncssh.generate_private_key("ssh-ed25519"))
    host.says = says
    await host.listen()
    fleet.hosts.append(host)
    return host


async def test_many_looks_share_one_channel_and_other_verbs_do_not(fleet: Fleet) -> None:
    host = await attending_host(fleet, lambda line: line)
    link = await fleet.pool.link(fleet.node(host))
    for number in range(5):
        answer = await link.call("status", {"n": number}, timeout_s=40)
        assert answer == {"verb": "status", "document": {"n": number}}
    await asyncio.gather(*(link.call("events", {"n": n}, timeout_s=40) for n in range(5)))
    await link.call("facts", {}, timeout_s=40)
    assert [command.rsplit(maxsplit=1)[-1] for command in host.commands] == ["attend", "facts"]


async def test_a_node_that_does_not_know_the_word_is_asked_by_commands(fleet: Fleet) -> None:
    host = await attending_host(fleet, lambda _line: None)
    link = await fleet.pool.link(fleet.node(host))
    for _ in range(2):
        assert (await link.call("status", {}, timeout_s=40))["verb"] == "status"
    words = [command.rsplit(maxsplit=1)[-1] for command in host.commands]
    assert words == ["attend", "status", "status"]


async def test_a_node_that_is_silent_to_the_word_is_asked_by_commands(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attending, "FIRST_S", 0.3)
    host = await attending_host(fleet, lambda _line: b"")
    link = await fleet.pool.link(fleet.node(host))
    assert (await link.call("status", {}, timeout_s=40))["verb"] == "status"


async def test_an_answer_that_came_too_late_is_not_taken_for_the_next_one(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attending, "FIRST_S", 30.0)

    def says(line: bytes) -> bytes:
        """Silent to the first question, two lines for the second, an echo for others."""
        return b"" if b'"n":1' in line else 2 * line if b'"n":2' in line else line

    host = await attending_host(fleet, says)
    link = await fleet.pool.link(fleet.node(host))
    assert (await link.call("status", {"n": 0}, timeout_s=40))["document"] == {"n": 0}
    with pytest.raises(UnreachableError, match="none within"):
        await link.call("status", {"n": 1}, timeout_s=2.0)
    with pytest.raises(DamagedError, match="more than one line"):
        await link.call("status", {"n": 2}, timeout_s=40)
    assert (await link.call("status", {"n": 3}, timeout_s=40))["document"] == {"n": 3}
    assert [command for command in host.commands if command != "attend"] == []


async def test_a_refusal_is_raised_as_the_kind_it_names(fleet: Fleet) -> None:
    error = json.dumps({"error": {"kind": "unreachable", "message": "the guard is down", "hint": None}})
    host = await attending_host(fleet, lambda _line: error.encode() + b"\n")
    link = await fleet.pool.link(fleet.node(host))
    with pytest.raises(UnreachableError, match="the guard is down"):
        await link.call("status", {}, timeout_s=40)


async def test_a_node_speaks_for_itself_on_this_channel_too(fleet: Fleet) -> None:
    host = await attending_host(fleet, lambda _line: b'{"node": "another"}\n')
    link = await fleet.pool.link(fleet.node(host))
    with pytest.raises(DamagedError, match="another"):
        await link.call("status", {}, timeout_s=40)


async def test_a_pool_is_told_to_keep_channels_for_links_that_are_there_and_those_to_come(
    fleet: Fleet,
) -> None:
    host = await attending_host(fleet, lambda line: line)
    fleet.pool = LinkPool(
        known_hosts=fleet.pool.host_keys.files, clock=fleet.pool._clock, ssh_config=fleet.pool.ssh_config
    )
    link = await fleet.pool.link(fleet.node(host))
    await link.call("clock", {}, timeout_s=40)
    await fleet.pool.lasting()
    for _ in range(3):
        assert (await link.call("clock", {}, timeout_s=40))["verb"] == "clock"
    assert [command.rsplit(maxsplit=1)[-1] for command in host.commands] == ["clock", "attend"]

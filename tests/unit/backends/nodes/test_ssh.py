"""SshLink on in-process servers: host keys, deadlines, hostile output, jump hosts, nothing but fixed verbs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from backends.clock import SystemClock
from backends.errors import (
    CredentialsError,
    DamagedError,
    FencedError,
    HostKeyError,
    NotInstalledError,
    ReprieveError,
    UnreachableError,
    UsageError,
)
from backends.nodes import connect
from backends.nodes.connect import Lasting
from backends.nodes.exchange import quoted
from backends.nodes.hostkeys import key_line
from backends.nodes.probe import offered_key
from backends.nodes.route import Hop
from backends.nodes.ssh import VERBS, LinkPool
from backends.records.node import Node
from tests.support.sshnodes import Fleet, echo, hang, says


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with Fleet(tmp_path) as made:
        yield made


async def test_verb_document_and_answer(fleet: Fleet) -> None:
    host = await fleet.host()
    link = await fleet.pool.link(fleet.node(host))
    answer = await link.call("status", {"a": ["ä", 1]}, timeout_s=5)
    assert answer == {"verb": "status", "document": {"a": ["ä", 1]}}
    await link.call("facts", {}, timeout_s=5)
    assert host.connections == 1, "the connection lasts"
    assert host.environments == [{}, {}]
    assert host.logins == ["root"]


@pytest.mark.parametrize("verb", ["", "status; id", "STATUS", "$(id)", "status\n", "--help", "serve"])
async def test_only_fixed_verbs_reach_a_command_line(fleet: Fleet, verb: str) -> None:
    host = await fleet.host()
    link = await fleet.pool.link(fleet.node(host))
    with pytest.raises(UsageError, match="node verb"):
        await link.call(verb, {}, timeout_s=5)
    assert host.commands == []


async def test_every_verb_gives_the_same_command_but_for_the_verb(fleet: Fleet) -> None:
    host = await fleet.host()
    link = await fleet.pool.link(fleet.node(host))
    evil = {"job": "$(touch x)`id`;'\"\n", "command": ["; rm -rf /"]}
    for verb in sorted(VERBS):
        await link.call(verb, evil, timeout_s=5)
    assert {command.rsplit(" ", 1)[0] for command in host.commands} == {host.commands[0].rsplit(" ", 1)[0]}
    assert [command.rsplit(" ", 1)[1] for command in host.commands] == sorted(VERBS)


def test_quoting_leaves_nothing_to_the_shell() -> None:
    assert quoted(("a", "b c", "$(id)", "'", "")) == "a 'b c' '$(id)' ''\"'\"'' ''"
    with pytest.raises(ValueError, match="NUL"):
        quoted(("a\0b",))


async def test_named_error_becomes_its_kind(fleet: Fleet) -> None:
    refusal = {"error": {"code": 1, "kind": "fenced", "message": "epoch 3 exists\x1b[2J", "hint": "look"}}
    host = await fleet.host(handler=says(refusal))
    link = await fleet.pool.link(fleet.node(host))
    with pytest.raises(FencedError) as caught:
        await link.call("save", {}, timeout_s=5)
    assert caught.value.message == "node n1: epoch 3 exists\\x1b[2J"
    assert caught.value.hint == "look"


@pytest.mark.parametrize("kind", ["host_key", "not_installed", "nonsense", 7, None])
async def test_a_node_cannot_claim_what_is_ours_to_judge(fleet: Fleet, kind: object) -> None:
    host = await fleet.host(handler=says({"error": {"kind": kind, "message": "x"}}))
    link = await fleet.pool.link(fleet.node(host))
    with pytest.raises(ReprieveError) as caught:
        await link.call("save", {}, timeout_s=5)
    assert type(caught.value) is ReprieveError


async def test_bare_host_is_not_installed(fleet: Fleet) -> None:
    host = await fleet.host(handler=says(b"", 127))
    link = await fleet.pool.link(fleet.node(host))
    with pytest.raises(NotInstalledError, match="not installed") as caught:
        await link.call("status", {}, timeout_s=5)
    assert caught.value.hint == "run `reprieve fleet install n1`"
    assert isinstance(caught.value, UnreachableError)


async def test_other_exit_means_that_the_call_did_not_happen(fleet: Fleet) -> None:
    host = await fleet.host(handler=says(b"{}", 3))
    link = await fleet.pool.link(fleet.node(host))
    with pytest.raises(UnreachableError, match="did not happen: exit 3"):
        await link.call("status", {}, timeout_s=5)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        pytest.param(b"x" * ((1 << 20) + 1), "more than 1048576 bytes", id="too long"),
        (b'{"a": 1, "a": 2}', "a key occurs twice"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b'{"a":' * 40 + b"1" + b"}" * 40, "nested deeper"),
        (b"[]", "a JSON object was expected"),
        (b"\xff\xfe", "not the JSON expected"),
        (b"", "not the JSON expected"),
        (b'{"a": 1} {"b": 2}', "not the JSON expected"),
        (b'{"node": "other"}', "speaks for 'other'"),
        (b'{"events": [{"node": "n1"}, {"node": "n2"}]}', "speaks for 'n2'"),
        (b'{"node": ["n1"]}', "speaks for"),
    ],
)
async def test_hostile_output_is_refused(fleet: Fleet, output: bytes, message: str) -> None:
    host = await fleet.host(handler=says(output))
    link = await fleet.pool.link(fleet.node(host))
    with pytest.raises(DamagedError, match=message) as caught:
        await link.call("status", {}, timeout_s=20)
    assert caught.value.message.startswith("node n1: answer to status")


async def test_endless_output_ends_at_the_cap(fleet: Fleet) -> None:
    host = await fleet.host(handler=says(b"y" * (64 << 20)))
    link = await fleet.pool.link(fleet.node(host))
    with pytest.raises(DamagedError, match="more than 1048576 bytes"):
        await link.call("status", {}, timeout_s=20)
    host.handler = echo
    assert (await link.call("facts", {}, timeout_s=20))["verb"] == "facts", "the connection still serves"


async def test_hanging_call_ends_at_its_deadline_and_blocks_no_other(fleet: Fleet) -> None:
    async def handler(command: str, stdin: bytes) -> tuple[bytes, int]:
        return await (hang if command.endswith("save") else echo)(command, stdin)

    host = await fleet.host(handler=handler)
    link = await fleet.pool.link(fleet.node(host))
    stuck = [asyncio.create_task(link.call("save", {}, timeout_s=30)) for _ in range(12)]
    await asyncio.sleep(0.2)
    assert (await link.call("status", {}, timeout_s=10))["verb"] == "status", (
        "long calls leave sessions for quick ones"
    )
    with pytest.raises(UnreachableError, match=r"none within 0\.3 s"):
        await link.call("save", {}, timeout_s=0.3)
    for task in stuck:
        task.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)
    assert (await link.call("start", {}, timeout_s=10))["verb"] == "start"


async def test_reconnects_after_the_server_went_away(fleet: Fleet) -> None:
    host = await fleet.host()
    link = await fleet.pool.link(fleet.node(host))
    await link.call("status", {}, timeout_s=5)
    await host.stop()
    with pytest.raises(UnreachableError):
        await link.call("status", {}, timeout_s=2)
    await host.listen()
    assert (await link.call("status", {}, timeout_s=20))["verb"] == "status"


@pytest.mark.slow
async def test_two_hundred_nodes_with_ten_percent_hanging(fleet: Fleet) -> None:
    host = await fleet.host("shared")
    silent = await fleet.silent_port()
    nodes = [
        fleet.node(host, name=f"n{index}", **({"ssh": f"root@127.0.0.1:{silent}"} if index % 10 == 0 else {}))
        for index in range(200)
    ]
    finished: list[str] = []

    async def poll(node: Node) -> None:
        link = await fleet.pool.link(node)
        await link.call("status", {}, timeout_s=60 if node.name in healthy else 5)
        finished.append(node.name)

    healthy = {node.name for index, node in enumerate(nodes) if index % 10}
    tasks = {node.name: asyncio.create_task(poll(node)) for node in nodes}
    await asyncio.wait([tasks[name] for name in healthy], timeout=60)
    assert set(finished) == healthy
    assert not any(tasks[name].done() and not tasks[name].exception() for name in tasks.keys() - healthy)
    results = await asyncio.gather(*tasks.values(), return_exceptions=True)
    assert sum(isinstance(result, UnreachableError) for result in results) == 20
    # Warm: every healthy node answers again while the hanging ones are being tried again.
    again = [asyncio.create_task(poll(node)) for node in nodes]
    done, _ = await asyncio.wait([again[index] for index in range(200) if index % 10], timeout=30)
    assert len(done) == 180
    for task in again:
        task.cancel()
    await asyncio.gather(*again, return_exceptions=True)


async def test_changed_host_key_is_a_hard_stop(fleet: Fleet) -> None:
    old = asyncssh.generate_private_key("ssh-ed25519")
    host = await fleet.host()
    other = fleet.node(host, host_key=old.export_public_key().decode())
    link = await fleet.pool.link(other)
    with pytest.raises(HostKeyError, match="host key changed") as caught:
        await link.call("status", {}, timeout_s=5)
    assert host.key.get_fingerprint() in caught.value.message
    assert old.get_fingerprint() in caught.value.message
    assert host.commands == []
    assert host.logins == []


async def test_changed_kind_of_host_key_is_a_hard_stop(fleet: Fleet) -> None:
    host = await fleet.host(key=asyncssh.generate_private_key("ecdsa-sha2-nistp256"))
    old = asyncssh.generate_private_key("ssh-ed25519")
    link = await fleet.pool.link(fleet.node(host, host_key=old.export_public_key().decode()))
    with pytest.raises(HostKeyError, match="no key of the stored kind"):
        await link.call("status", {}, timeout_s=5)
    assert host.logins == []


async def test_unknown_host_key_is_refused_and_known_hosts_is_used(fleet: Fleet) -> None:
    host = await fleet.host()
    node = fleet.node(host, host_key=None)
    with pytest.raises(HostKeyError, match="host key unknown"):
        await (await fleet.pool.link(node)).call("status", {}, timeout_s=5)
    fleet.known_hosts.write_text(f"not a line\n[127.0.0.1]:{host.port} {host.line}\n")
    fresh = LinkPool(known_hosts=(fleet.known_hosts,), clock=SystemClock())
    try:
        assert await (await fresh.link(node)).call("status", {}, timeout_s=5)
    finally:
        await fresh.close()


async def test_no_known_hosts_file_is_no_permission(fleet: Fleet) -> None:
    host = await fleet.host()
    pool = LinkPool(known_hosts=(), clock=SystemClock())
    with pytest.raises(HostKeyError, match="host key unknown"):
        await (await pool.link(fleet.node(host, host_key=None))).call("status", {}, timeout_s=5)
    await pool.close()
    assert host.logins == []


async def test_refused_login_names_user_and_host(fleet: Fleet) -> None:
    host = await fleet.host()
    host.client_line = "ssh-ed25519 AAAA"
    with pytest.raises(CredentialsError, match=rf"root@127\.0\.0\.1:{host.port} refused the login"):
        await (await fleet.pool.link(fleet.node(host))).call("status", {}, timeout_s=5)


async def test_key_file_open_to_others_is_refused(fleet: Fleet) -> None:
    host = await fleet.host()
    fleet.identity.chmod(0o644)
    with pytest.raises(CredentialsError, match="can be read by others; run `chmod 600"):
        await (await fleet.pool.link(fleet.node(host))).call("status", {}, timeout_s=5)


async def test_closed_port_is_unreachable(fleet: Fleet) -> None:
    host = await fleet.host()
    await host.stop()
    with pytest.raises(UnreachableError, match="the connection was refused"):
        await (await fleet.pool.link(fleet.node(host))).call("status", {}, timeout_s=3)


async def test_jump_chain_is_opened_hop_by_hop_with_the_same_policy(fleet: Fleet) -> None:
    first = await fleet.host("first", forwards=True)
    second = await fleet.host("second", forwards=True, address="::1")
    nodes = [await fleet.host(f"n{index}") for index in range(3)]
    fleet.config.write_text(
        f"Host first\n  HostName 127.0.0.1\n  Port {first.port}\n  User one\n  IdentityFile {fleet.identity}\n"
        f"Host ::1\n  IdentityFile {fleet.identity}\n"
        f"Host 127.0.0.1\n  ProxyJump first,two@[::1]:{second.port}\n  ForwardAgent yes\n"
    )
    stored = f"[127.0.0.1]:{first.port} {first.line}\n"
    fleet.known_hosts.write_text(stored)
    records = [fleet.node(host) for host in nodes]
    with pytest.raises(HostKeyError, match=r"host key unknown: two@\[::1\]"):
        await (await fleet.pool.link(records[0])).call("status", {}, timeout_s=10)
    assert nodes[0].connections == 0, "nothing goes through a hop that is not vouched for"
    fleet.known_hosts.write_text(stored + f"[::1]:{second.port} {second.line}\n")
    pool = LinkPool(known_hosts=(fleet.known_hosts,), clock=SystemClock(), ssh_config=fleet.config)
    first.connections = second.connections = 0
    try:
        links = [await pool.link(record) for record in records]
        await asyncio.gather(*(link.call("status", {}, timeout_s=10) for link in links))
    finally:
        await pool.close()
    assert (first.connections, second.connections) == (1, 1), "jump hosts are shared"
    assert set(first.logins) == {"one"}
    assert set(second.logins) == {"two"}
    assert set(first.forwarded) == {("::1", second.port)}
    assert set(second.forwarded) == {("127.0.0.1", host.port) for host in nodes}


async def test_dead_jump_host_fails_all_behind_it_together(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "HANDSHAKE_S", 0.2)
    silent = await fleet.silent_port()
    host = await fleet.host()
    fleet.config.write_text(f"Host 127.0.0.1\n  ProxyJump root@localhost:{silent}\n")
    nodes = [fleet.node(host, name=f"n{index}") for index in range(30)]
    started = time.monotonic()
    links = [await fleet.pool.link(node) for node in nodes]
    results = await asyncio.gather(
        *(link.call("status", {}, timeout_s=8) for link in links), return_exceptions=True
    )
    assert all(isinstance(result, UnreachableError) for result in results)
    assert time.monotonic() - started < 30, "one after the other would take 30 times the handshake deadline"


async def test_match_exec_never_runs_when_connecting(fleet: Fleet, tmp_path: Path) -> None:
    host = await fleet.host()
    mark = tmp_path / "ran"
    fleet.config.write_text(f'Match exec "touch {mark}"\n  User someone\n')
    link = await fleet.pool.link(fleet.node(host, ssh=f"127.0.0.1:{host.port}"))
    await link.call("status", {}, timeout_s=5)
    assert not mark.exists()
    assert any("Match exec is never run" in note for note in link.notes)


async def test_back_off_grows_to_its_cap_and_ends_with_success() -> None:
    pauses: list[float] = []

    class Clock(SystemClock):
        now = 0.0

        def monotonic(self) -> float:
            return self.now

        async def pause(self, seconds: float) -> None:
            pauses.append(seconds)
            self.now += seconds

    async def opening() -> asyncssh.SSHClientConnection:
        raise UnreachableError("away")

    lasting = Lasting(opening, Clock(), lambda: 1.0)
    for _ in range(9):
        with pytest.raises(UnreachableError, match="away"):
            await lasting.get()
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30]


async def test_many_waiters_open_once() -> None:
    opened = 0

    async def opening() -> asyncssh.SSHClientConnection:
        nonlocal opened
        opened += 1
        await asyncio.sleep(0.01)
        raise UnreachableError("away")

    lasting = Lasting(opening, SystemClock(), lambda: 0.0)
    results = await asyncio.gather(*(lasting.get() for _ in range(50)), return_exceptions=True)
    assert opened == 1
    assert all(isinstance(result, UnreachableError) for result in results)


async def test_changed_record_gets_a_new_link(fleet: Fleet) -> None:
    host = await fleet.host()
    node = fleet.node(host)
    link = await fleet.pool.link(node)
    assert await fleet.pool.link(fleet.node(host, cordoned=True)) is link
    assert await fleet.pool.link(fleet.node(host, ssh="root@127.0.0.1:1")) is not link


async def test_no_more_than_eight_handshakes_with_one_server(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = await fleet.host()
    now = peak = 0
    really = asyncssh.connect

    async def connect_counted(*arguments: Any, **options: Any) -> asyncssh.SSHClientConnection:
        nonlocal now, peak
        now += 1
        peak = max(peak, now)
        try:
            return await really(*arguments, **options)
        finally:
            now -= 1

    monkeypatch.setattr(asyncssh, "connect", connect_counted)
    links = [await fleet.pool.link(fleet.node(host, name=f"n{index}")) for index in range(40)]
    await asyncio.gather(*(link.call("status", {}, timeout_s=30) for link in links))
    assert peak == connect.PER_SERVER == 8


def test_a_key_with_a_passphrase_is_used_through_the_agent_alone(tmp_path: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    path = tmp_path / "id"
    key.write_private_key(path, "pkcs8-pem", passphrase="secret")
    path.chmod(0o600)
    hop = Hop("h", 22, "u", (str(path),))
    with pytest.raises(CredentialsError, match=r"needs a passphrase, and .*id\.pub is not there"):
        connect.login_options(hop)
    key.write_public_key(f"{path}.pub")
    assert connect.login_options(hop) == {"agent_identities": [f"{path}.pub"]}
    with pytest.raises(CredentialsError, match="is not there"):
        connect.login_options(Hop("h", 22, "u", (str(tmp_path / "absent"),)))
    path.write_text("nonsense")
    with pytest.raises(CredentialsError, match="is no private key"):
        connect.login_options(hop)
    assert connect.login_options(Hop("h", 22, "u")) == {}


async def test_a_host_with_several_keys_is_asked_for_the_stored_kind(fleet: Fleet) -> None:
    stored = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
    host = await fleet.host()
    await host.stop()
    host.acceptor = await asyncssh.listen(
        "127.0.0.1", host.port, server_host_keys=[host.key, stored], server_factory=asyncssh.SSHServer
    )
    node = fleet.node(host, host_key=None)
    assert (await offered_key(fleet.pool, node)).known == "new"
    fleet.known_hosts.write_text(f"[127.0.0.1]:{host.port} {key_line(stored)}\n")
    assert (await offered_key(fleet.pool, node)).known == "trusted"

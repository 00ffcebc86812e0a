"""Real-world cases of area ssh, by id."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from backends.clock import SystemClock
from backends.errors import HostKeyError, UsageError
from backends.nodes.address import check_host
from backends.nodes.hostkeys import key_line
from backends.nodes.route import Hop, Route, route_to
from backends.nodes.ssh import LinkPool
from backends.records.node import Node
from tests.support.nodes_cases import case, case_file
from tests.support.sshnodes import Fleet


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "config"
    shutil.copyfile(case_file("files/ssh_config_odd"), copy)
    copy.chmod(0o600)
    monkeypatch.chdir(tmp_path)
    return copy


def resolve(alias: str, config: Path) -> Route:
    return route_to(Node(name="n", ssh=alias), config)


def hop_matches(hop: Hop, expected: dict[str, Any]) -> bool:
    names = {"hostname": "host", "host": "host", "port": "port", "user": "user"}
    return all(getattr(hop, names[key]) == value for key, value in expected.items() if key in names)


def test_rc_25_ssh_config_semantics(config: Path, tmp_path: Path) -> None:
    data = case("RC-25")
    expected = data["expected"]
    for alias in data["input"]["hosts"]:
        route = resolve(alias, config)
        want = dict(expected[alias])
        if alias == "gpu-v6":
            # Its user would come from the Match exec block, which is never run: told, not followed.
            assert want.pop("user") == "someone-else"
            assert any("Match exec is never run; user" in note for note in route.notes)
        assert hop_matches(route.hops[-1], want), alias
        assert route.hops[-1].host_key_alias == want.get("host_key_alias")
        jumps = route.hops[:-1]
        if "jump" in want:
            assert len(jumps) == len(want["jump"]), alias
        for hop, jump in zip(jumps, want.get("jump", []), strict=False):
            assert hop_matches(hop, {**expected["bastion"], "jump": 0} if jump == "bastion" else jump), alias
    assert not (tmp_path / "reprieve-match-exec-ran").exists()


def test_rc_25_what_the_file_loosens_stays_strict_and_is_reported(config: Path) -> None:
    notes = " ".join(resolve("gpu-equals", config).notes)
    assert "agent forwarding stays off" in notes
    assert "stricthostkeychecking no: host keys are checked all the same" in notes
    assert "/dev/null" in notes


def test_rc_25_same_as_openssh_for_the_ascii_names(config: Path, tmp_path: Path) -> None:
    ssh = shutil.which("ssh")
    if ssh is None:
        pytest.skip("no OpenSSH client to compare with")
    for alias in ("bastion", "gpu-v6", "gpu-two-hops", "gpu-equals", "gpu-public"):
        printed = subprocess.run(
            [ssh, "-G", "-F", str(config), alias],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
            cwd=tmp_path,
        ).stdout
        values = dict(line.split(" ", 1) for line in printed.splitlines() if " " in line)
        last = resolve(alias, config).hops[-1]
        assert (last.host, str(last.port)) == (values["hostname"], values["port"])


def test_rc_27_host_names_that_are_allowed() -> None:
    data = case("RC-27")
    accepted = []
    for name in data["input"]["names"]:
        try:
            accepted.append(check_host(name))
        except UsageError:
            continue
    assert accepted == data["expected"]["accepted"]


async def test_rc_26_host_key_changed_on_a_recycled_address(tmp_path: Path) -> None:
    assert case("RC-26")
    async with Fleet(tmp_path) as fleet:
        machine = await fleet.host("i-aaa", key=asyncssh.generate_private_key("ssh-ed25519"))
        old = asyncssh.generate_private_key("ssh-ed25519")
        fleet.known_hosts.write_text(f"i-aaa {key_line(old)}\n127.0.0.1 {key_line(old)}\n")
        stored = fleet.known_hosts.read_bytes()
        for alias, word in (("i-bbb", "unknown"), ("i-aaa", "changed")):
            fleet.config.write_text(
                f"Host {alias}\n HostName 127.0.0.1\n Port {machine.port}\n HostKeyAlias {alias}\n"
            )
            pool = LinkPool(known_hosts=(fleet.known_hosts,), clock=SystemClock(), ssh_config=fleet.config)
            link = await pool.link(Node(name="n", ssh=alias, identity_file=str(fleet.identity)))
            with pytest.raises(HostKeyError, match=f"host key {word}") as caught:
                await link.call("status", {}, timeout_s=5)
            assert machine.key.get_fingerprint() in caught.value.message
            await pool.close()
        assert machine.commands == []
        assert machine.logins == []
        assert fleet.known_hosts.read_bytes() == stored


def test_rc_27_no_process_is_started_while_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **keywords: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(os, "system", refuse)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    path = tmp_path / "config"
    path.write_text('Host *\n  HostName %h;id\nMatch exec "touch x"\n  User root\n')
    with pytest.raises(UsageError, match="is not allowed"):
        route_to(Node(name="n", ssh="gpu-1"), path)

"""The loopback fleet with real processes: what a reclaim ends, what a session sees, that nothing escapes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.clock import SystemClock
from backends.errors import UsageError
from backends.practice import abilities, processes
from backends.practice.launch import Running, choose, end, start
from backends.practice.processes import Process
from tests.support.practice import (
    Machine,
    connect,
    host_of,
    processes_naming,
    ssh,
    tree_of,
    wait_until,
)

CLOCK = SystemClock()
# A process that detaches as far as a program can: new session, twice forked, no streams.
ESCAPE = "setsid -f sh -c 'setsid -f sleep 600' </dev/null >/dev/null 2>&1"


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("fleet")
    with start(directory, 2, "loopback") as running:
        yield running


def living(directory: Path) -> list[Process]:
    return [
        found for pid in processes_naming(str(directory)) if (found := processes.look(pid)) and found.alive
    ]


def sleepers(directory: Path) -> list[Process]:
    """Living `sleep` processes of this fleet (they carry its paths in their environment)."""
    return [item for item in living(directory) if _program(item.pid) == b"sleep"]


def _program(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
    except OSError:
        return b""


async def run(running: Running, host: str, command: str, stdin: str | None = None) -> Any:
    description = running.describe()
    return await ssh(host_of(description, host), description["identity_file"], command, stdin=stdin)


async def test_a_session_has_its_own_place_and_our_python(fleet: Running) -> None:
    said = await run(
        fleet,
        "host-a",
        'pwd; echo "$HOME $REPRIEVE_NODE_ROOT"; command -v python3; cat; echo bad >&2; exit 3',
        "in\n",
    )
    place = fleet.directory / "hosts/host-a"
    lines = said.out.splitlines()
    assert lines[0] == str(place / "home")
    assert lines[1] == f"{place / 'home'} {place / 'opt'}"
    assert Path(lines[2]).resolve() == Path(sys.executable).resolve()
    assert lines[3] == "in"
    assert (said.err, said.status) == ("bad\n", 3)


async def test_much_output_and_input_pass_whole(fleet: Running) -> None:
    text = "0123456789abcdef" * 200_000
    said = await run(fleet, "host-a", "cat", text)
    assert said.out == text


async def test_a_strange_key_does_not_log_in(fleet: Running, tmp_path: Path) -> None:
    import asyncssh

    from backends.practice.sshd import new_key

    new_key(tmp_path / "other", "other")
    with pytest.raises(asyncssh.PermissionDenied):
        await connect(fleet.describe()["hosts"][0], str(tmp_path / "other"))


async def test_the_metadata_endpoint_is_named_in_the_environment(fleet: Running) -> None:
    script = (
        "import os, urllib.request as u; b=os.environ['REPRIEVE_METADATA_URL']; r=u.Request(b+'/latest/api/token', "
        "method='PUT', headers={'X-aws-ec2-metadata-token-ttl-seconds':'9'}); t=u.urlopen(r,timeout=5).read().decode(); "
        "print(u.urlopen(u.Request(b+'/latest/meta-data/instance-id', headers={'X-aws-ec2-metadata-token':t}),timeout=5).read().decode())"
    )
    said = await run(fleet, "host-b", f'python3 -c "{script}"')
    assert said.out.strip() == host_of(fleet.describe(), "host-b")["instance"]


async def test_a_reclaim_ends_every_process_of_the_host_and_no_other(fleet: Running) -> None:
    for host in ("host-a", "host-b"):
        assert (await run(fleet, host, ESCAPE)).status == 0
    assert wait_until(lambda: len(sleepers(fleet.directory)) == 2)
    description = fleet.describe()
    connection = await connect(host_of(description, "host-a"), description["identity_file"])
    waiting = asyncio.create_task(connection.run("sleep 500"))
    assert await asyncio.to_thread(wait_until, lambda: len(sleepers(fleet.directory)) == 3)
    await fleet.client.acall("reclaim", host="host-a")
    left = sleepers(fleet.directory)
    assert len(left) == 1
    assert str(fleet.directory / "hosts/host-b").encode() in Path(f"/proc/{left[0].pid}/environ").read_bytes()
    await asyncio.wait({waiting}, timeout=10)
    assert waiting.done()
    with pytest.raises(ConnectionRefusedError):
        await connect(host_of(description, "host-a"), description["identity_file"])
    assert not (fleet.directory / "hosts/host-a").exists()
    assert (await run(fleet, "host-b", "echo on")).out == "on\n"


async def test_a_killed_host_init_takes_its_orphans_along(fleet: Running) -> None:
    await run(fleet, "host-a", ESCAPE)
    assert wait_until(lambda: len(sleepers(fleet.directory)) == 1)
    host = host_of(fleet.describe(), "host-a")
    os.kill(host["pid"], signal.SIGKILL)
    assert wait_until(lambda: host_of(fleet.describe(), "host-a")["state"] == "terminated")
    assert wait_until(lambda: not sleepers(fleet.directory))
    assert (await run(fleet, "host-b", "echo on")).out == "on\n"


async def test_a_partition_is_silent_and_heals(fleet: Running) -> None:
    description = fleet.describe()
    host = host_of(description, "host-a")
    fleet.client.call("partition", host="host-a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.7):
            await connect(host, description["identity_file"])
    fleet.client.call("heal", host="host-a")
    assert (await run(fleet, "host-a", "echo back")).out == "back\n"


async def test_a_replacement_has_a_new_key_and_an_empty_disk(fleet: Running) -> None:
    assert wait_until(lambda: fleet.client.call("replace", token="t")["state"] == "ready")
    hosts = fleet.describe()["hosts"]
    assert len({host["host_key"].split()[1] for host in hosts}) == 3
    assert (await run(fleet, "host-c", 'ls -A "$REPRIEVE_NODE_ROOT" "$HOME" | grep -v : ')).out.strip() == ""


def test_a_full_store_is_refused_by_name(fleet: Running) -> None:
    with pytest.raises(UsageError, match="cannot be made full on a loopback fleet"):
        fleet.client.call("store_full", on=True)


@pytest.mark.parametrize("way", ["stop", "kill daemon", "close pipe", "end"])
def test_whatever_ends_it_leaves_no_process(way: str, tmp_path: Path) -> None:
    before = Machine.now()
    directory = tmp_path / "fleet"
    running = start(directory, 2, "loopback")
    asyncio.run(run(running, "host-a", ESCAPE))
    assert wait_until(lambda: len(sleepers(directory)) == 1)

    def all_of_it() -> list[processes.Process]:
        mine = [found for pid in tree_of(running.daemon.pid) if (found := processes.look(pid))]
        return living(directory) + mine

    # daemon, two inits, the one that tried to escape; the shell that started it may take a moment to end
    assert wait_until(lambda: len({item.pid for item in all_of_it()}) == 4)
    known = all_of_it()
    if way == "kill daemon":
        os.kill(running.daemon.pid, signal.SIGKILL)
    elif way == "close pipe":
        running._lifetime.close()
    elif way == "end":
        assert end(directory, CLOCK)
    else:
        running.stop()
    assert processes.wait_gone(known, CLOCK, 15)
    running.stop()
    assert not living(directory)
    assert Machine.now() == before
    assert not end(directory, CLOCK)


def test_the_mode_is_chosen_with_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert choose("auto", tmp_path) == ("loopback", "not root: namespaces and CRIU need it")
    with pytest.raises(UsageError, match="not root"):
        choose("namespaces", tmp_path)
    with pytest.raises(UsageError, match="practice mode 'odd'"):
        choose("odd", tmp_path)


@pytest.mark.parametrize(
    ("version", "kernel", "fits"),
    [
        ("4.2.1", "6.18.44-fc", True),
        ("4.1.1", "6.18.44-fc", False),
        ("4.1.1", "6.15.0", True),
        ("3.17.1", "6.13.0", False),
        ("3.17.1", "6.1.0-30-amd64", True),
        ("unknown", "6.18.0", False),
        ("4.10", "6.18.0", True),
    ],
)
def test_an_old_criu_is_named_with_the_kernel(version: str, kernel: str, fits: bool) -> None:
    reason = abilities.why_criu_is_old(version, kernel)
    assert (reason is None) == fits
    assert reason is None or (version in reason and kernel in reason)


def test_the_version_is_read_from_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from backends.nodes.closures import Closure

    for name in ("_platform", "_tools", "_namespaces"):
        monkeypatch.setattr(abilities, name, lambda: None)
    monkeypatch.setattr(abilities, "find_sshd", lambda _cache: None)
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "h", "6.18.0", "", "x86_64")))
    for package, fits in (("criu_4.2.1-1_amd64.deb", True), ("criu_4.1.1-1_amd64.deb", False)):
        found = Closure(tmp_path, ("libc6_2.41_amd64.deb", "libcriu2_9.9-1_amd64.deb", package))
        monkeypatch.setattr(abilities, "criu_closure", lambda _cache, found=found: found)
        assert (abilities.why_no_namespaces(tmp_path) is None) == fits


def test_no_package_source_is_one_plain_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from backends.nodes.closures import ClosureError

    def none(_cache: Path) -> None:
        raise ClosureError("this machine has no Debian package source")

    for name in ("_platform", "_tools", "_namespaces"):
        monkeypatch.setattr(abilities, name, lambda: None)
    monkeypatch.setattr(abilities, "find_sshd", none)
    assert abilities.why_no_namespaces(tmp_path) == "no sshd: this machine has no Debian package source"
    monkeypatch.setattr(abilities, "find_sshd", lambda _cache: None)
    monkeypatch.setattr(abilities, "criu_closure", none)
    assert abilities.why_no_namespaces(tmp_path) == "no CRIU: this machine has no Debian package source"

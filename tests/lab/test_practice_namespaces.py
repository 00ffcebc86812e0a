"""The namespaces fleet: real hosts, real sshd; what can be done to them, and that nothing is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.clock import SystemClock
from backends.clouds.practice.cloud import PracticeCloud, node_of
from backends.errors import UsageError
from backends.practice import abilities, processes
from backends.practice.launch import Running, start
from backends.practice.layout import Layout
from tests.support.practice import (
    Machine,
    connect,
    hold_namespaces,
    host_of,
    namespaces_of,
    processes_naming,
    ssh,
    tree_of,
    wait_until,
)

pytestmark = pytest.mark.lab
CLOCK = SystemClock()


@pytest.fixture(scope="module", autouse=True)
def able() -> None:
    """Skip by name where the machine cannot."""
    reason = abilities.why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Three hosts, shared by tests that leave them as they were."""
    directory = tmp_path_factory.mktemp("fleet")
    with start(directory, 3, "namespaces") as running:
        yield running


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Two hosts of a second fleet that a test may break."""
    directory = tmp_path_factory.mktemp("fleet")
    with start(directory, 2, "namespaces") as running:
        yield running


async def test_hosts_are_apart_and_run_our_python(fleet: Running) -> None:
    description = fleet.describe()
    assert description["mode"] == "namespaces"
    for host in description["hosts"]:
        said = await ssh(
            host,
            description["identity_file"],
            "hostname; id -u; command -v python3; ls -d /home/* /root/.ssh; cat /proc/1/comm",
        )
        lines = said.out.splitlines()
        assert lines[0] == host["name"]
        assert lines[1] == "0"
        assert Path(lines[2]).resolve() == Path(sys.executable).resolve()
        assert lines[-1] == "sshd"
        assert "No such file" in said.err  # nothing of the machine's homes


async def test_a_host_with_another_key_is_refused(fleet: Running) -> None:
    import asyncssh

    description = fleet.describe()
    first, second = description["hosts"][:2]
    with pytest.raises(asyncssh.HostKeyNotVerifiable):
        await connect(first, description["identity_file"], host_key=second["host_key"])


async def test_hosts_reach_the_store_the_metrics_server_and_each_other(fleet: Running) -> None:
    description = fleet.describe()
    host = host_of(description, "host-a")
    name, port = description["metrics"].split(":")
    script = (
        f"import socket; s=socket.create_connection(('{name}',{port}),5); s.sendall(b'step 1\\n'); s.close();"
        "socket.create_connection(('10.77.0.3',22),5).close();"
        f"open('{description['store']}/from-host','w').write('x')"
    )
    said = await ssh(host, description["identity_file"], f'python3 -c "{script}"')
    assert said.status == 0, said.err
    assert (Path(description["store"]) / "from-host").read_text() == "x"
    assert wait_until(lambda: fleet.describe()["metrics_lines"] >= 1)


async def test_usr_and_python_are_read_only_and_the_disk_is_its_own(fleet: Running) -> None:
    description = fleet.describe()
    host = host_of(description, "host-b")
    said = await ssh(
        host,
        description["identity_file"],
        f"touch /usr/x; touch {sys.prefix}/x; mkdir -p /opt/reprieve && echo kept > /opt/reprieve/f && cat /opt/reprieve/f",
    )
    assert said.err.count("Read-only file system") == 2
    assert said.out == "kept\n"
    assert not Path("/opt/reprieve/f").exists() or Path("/opt/reprieve/f").read_text() != "kept\n"


async def test_orphans_are_reaped(fleet: Running) -> None:
    description = fleet.describe()
    host = host_of(description, "host-c")
    said = await ssh(
        host,
        description["identity_file"],
        "for i in 1 2 3; do setsid -f sh -c 'exec true'; done; sleep 0.3; grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l",
    )
    assert said.out.strip() == "0"


METADATA = """
import http.client, sys
def ask(method, path, headers):
    c = http.client.HTTPConnection("169.254.169.254", timeout=1.5)
    try:
        c.request(method, path, headers=headers); r = c.getresponse(); return r.status, r.read().decode()
    except OSError as error:
        return type(error).__name__, ""
t = ask("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"})
h = {"X-aws-ec2-metadata-token": t[1]}
print(t[0], ask("GET", "/latest/meta-data/instance-id", h), ask("GET", "/latest/meta-data/spot/instance-action", h), ask("GET", "/latest/meta-data/instance-id", {})[0], sep="|")
"""


async def test_each_host_has_its_own_metadata_endpoint(fleet: Running) -> None:
    description = fleet.describe()
    identity = description["identity_file"]
    host = host_of(description, "host-a")

    async def look(name: str) -> str:
        said = await ssh(host_of(description, name), identity, "python3 -", stdin=METADATA)
        return said.out.strip()

    assert await look("host-a") == f"200|(200, '{host['instance']}')|(404, '404 - Not Found')|401"
    fleet.client.call("notice", host="host-a", notice_s=120)
    assert '"action": "terminate"' in await look("host-a")
    assert "404 - Not Found" in await look("host-b")
    for mode, expected in (("forbidden", "403|"), ("hang", "TimeoutError|"), ("error", "500|")):
        fleet.client.call("metadata", host="host-a", mode=mode)
        assert (await look("host-a")).startswith(expected)
    fleet.client.call("metadata", host="host-a", mode="silent")
    assert "404 - Not Found" in await look("host-a")
    assert host_of(fleet.describe(), "host-a")["state"] == "running"


async def test_a_reclaim_ends_everything_and_refuses(own: Running) -> None:
    description = own.describe()
    identity = description["identity_file"]
    host = host_of(description, "host-a")
    node = node_of(host, Path(identity))
    cloud = PracticeCloud(own.layout.control, CLOCK)
    assert cloud.instance(node).state == "running"
    connection = await connect(host, identity)
    await connection.run("setsid -f sleep 600 </dev/null >/dev/null 2>&1")
    before = tree_of(host["pid"])
    assert len(before) >= 3
    known = [found for pid in before if (found := processes.look(pid)) is not None]
    own.client.call("reclaim", host="host-a")
    await asyncio.wait_for(connection.wait_closed(), 10)
    assert not any(process.alive for process in known)
    with pytest.raises(ConnectionRefusedError):
        await connect(host, identity)
    assert cloud.instance(node).state == "terminated"
    assert not (own.layout.hosts / "host-a").exists()
    assert (await ssh(host_of(description, "host-b"), identity, "echo on")).out == "on\n"


async def test_a_host_killed_from_outside_counts_as_terminated(own: Running) -> None:
    host = host_of(own.describe(), "host-b")
    os.kill(host["pid"], signal.SIGKILL)
    assert wait_until(lambda: own.client.call("instance", instance=host["instance"])["state"] == "terminated")
    with pytest.raises(ConnectionRefusedError):
        await connect(host, own.describe()["identity_file"])


async def test_a_reclaim_with_notice_announces_first(own: Running) -> None:
    host = own.client.call("reclaim", host="host-b", notice_s=1.0)
    assert host["state"] == "noticed"
    assert host["notice_at"] is not None
    said = await ssh(host, own.describe()["identity_file"], "python3 -", stdin=METADATA)
    assert '"action": "terminate"' in said.out
    assert wait_until(lambda: host_of(own.describe(), "host-b")["state"] == "terminated")


async def test_a_partition_is_silence_and_heals(own: Running) -> None:
    description = own.describe()
    identity = description["identity_file"]
    host = host_of(description, "host-a")
    other = host_of(description, "host-b")
    connection = await connect(host, identity)
    own.client.call("partition", host="host-a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.5):
            await connect(host, identity)
    waiting = asyncio.create_task(connection.run("echo same"))
    assert not (await asyncio.wait({waiting}, timeout=1.5))[0]
    probe = "import socket\ntry:\n    socket.create_connection(('10.77.0.2', 22), 1.5)\nexcept OSError as error:\n    print(type(error).__name__)\n"
    assert (await ssh(other, identity, "python3 -", stdin=probe)).out == "TimeoutError\n"
    assert own.client.call("instance", instance=host["instance"])["state"] == "running"
    own.client.call("heal", host="host-a")
    assert (await ssh(host, identity, "echo back")).out == "back\n"
    assert (await asyncio.wait_for(waiting, 10)).stdout == "same\n"
    connection.abort()


async def test_a_replacement_is_a_bare_new_host(own: Running) -> None:
    cloud = PracticeCloud(own.layout.control, CLOCK)
    pool = own.describe()["hosts"][0]["pool"]
    own.client.call("capacity", available=False)
    assert cloud.replace(pool, "token-1").state == "failed"
    own.client.call("capacity", available=True, delay_s=0.3)
    assert cloud.replace(pool, "token-1").state == "pending"
    assert wait_until(lambda: cloud.replace(pool, "token-1").state == "ready")
    node = cloud.replace(pool, "token-1").node
    assert node is not None
    assert cloud.replace(pool, "token-1").node == node  # nothing is made twice
    description = own.describe()
    assert [host["name"] for host in description["hosts"]] == ["host-a", "host-b", "host-c"]
    assert len({host["host_key"].split()[1] for host in description["hosts"]}) == 3
    assert len({host["instance"] for host in description["hosts"]}) == 3
    said = await ssh(
        host_of(description, node.name), description["identity_file"], "ls -A /opt; command -v criu"
    )
    assert "reprieve" not in said.out
    assert "criu" not in said.out


async def test_a_full_store_is_enospc_on_hosts_only(own: Running) -> None:
    description = own.describe()
    identity, store = description["identity_file"], description["store"]
    host = host_of(description, "host-a")
    (Path(store) / "old").write_text("kept")
    own.client.call("store_full", on=True)
    script = f"cat {store}/old; echo new > {store}/new; mkdir {store}/d"
    said = await ssh(host, identity, script)
    assert said.out == "kept"
    assert said.err.count("No space left on device") == 2
    own.client.call("store_full", on=False)
    said = await ssh(host, identity, f"echo new > {store}/new; cat {store}/old")
    assert (said.out, said.err) == ("kept", "")
    assert (Path(store) / "new").read_text() == "new\n"


def test_two_fleets_run_side_by_side_but_not_in_one_directory(fleet: Running, own: Running) -> None:
    assert fleet.describe()["pid"] != own.describe()["pid"]
    with pytest.raises(UsageError, match=r"runs in .* already"):
        start(own.directory, 1, "namespaces")


@pytest.mark.parametrize("which", ["init", "unshare", "starter pipe"])
def test_killing_the_one_process_leaves_nothing(which: str, tmp_path: Path) -> None:
    before = Machine.now()
    directory = tmp_path / "fleet"
    running = start(directory, 3, "namespaces")
    held = hold_namespaces(tree_of(running.daemon.pid))  # so that their numbers are not given to others
    spaces = {str(Path(f"/proc/self/fd/{descriptor}").readlink()) for descriptor in held} - namespaces_of(
        [os.getpid()]
    )
    assert len(spaces) >= 12  # parent and three hosts, three kinds each
    tree = [found for pid in tree_of(running._child.pid) if (found := processes.look(pid))]
    assert len(tree) >= 5
    assert Machine.now() == before  # nothing in the machine's namespaces while it runs
    if which == "init":
        os.kill(running.daemon.pid, signal.SIGKILL)
    elif which == "unshare":
        running._child.kill()
    else:
        running._lifetime.close()
    assert processes.wait_gone(tree, CLOCK, 10)
    running._child.wait(10)
    assert Machine.now() == before
    assert not processes_naming(str(directory))
    alive = {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    assert not spaces & namespaces_of(list(alive))
    for descriptor in held:
        os.close(descriptor)
    running.stop()
    again = start(directory, 1, "namespaces")  # leftovers are cleaned at the next start
    assert [host["name"] for host in again.describe()["hosts"]] == ["host-a"]
    again.stop()


STARTER = """
import sys
from pathlib import Path
from backends.practice.launch import start
print("begin", flush=True)
running = start(Path(sys.argv[1]), 3, "namespaces")
print("up", running.daemon.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("delay_s", [0.0, 0.15, 0.35])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_in_the_middle_of_the_start_leaves_nothing(
    delay_s: float, number: int, tmp_path: Path
) -> None:
    before = Machine.now()
    directory = tmp_path / "fleet"
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=abilities.daemon_environment(),
    )
    assert starter.stdout is not None
    assert starter.stdout.readline() == b"begin\n"
    CLOCK.sleep(delay_s)
    starter.send_signal(number)
    starter.wait(30)
    assert wait_until(lambda: not processes_naming(str(directory)), 15)
    assert Machine.now() == before
    layout = Layout(directory)
    with start(directory, 1, "namespaces"):
        assert layout.context.exists()
    starter.communicate()

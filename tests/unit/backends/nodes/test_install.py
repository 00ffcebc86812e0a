"""Installation on a real root of this machine through an in-process SSH server that runs what it is asked to."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from backends.engines.port import start_ticks
from backends.errors import (
    CredentialsError,
    DamagedError,
    FullError,
    HostKeyError,
    IncompatibleError,
    NotInstalledError,
    ReprieveError,
)
from backends.nodes import probe
from backends.nodes.bundle import Bundle
from backends.nodes.install import install, plan_install, uninstall
from backends.nodes.probe import Look, look, offered_key, run_bootstrap
from backends.nodes.ssh import SshLink
from backends.records import strict
from backends.records.facts import Facts
from tests.support.nodes_install import small_bundle
from tests.support.sshnodes import Fleet, real


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return small_bundle(tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return small_bundle(tmp_path_factory.mktemp("newer"), "newer")


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with Fleet(tmp_path) as made:
        yield made
    pid = tmp_path / "node/opt/run/guard.pid"
    if pid.exists():
        os.kill(int(pid.read_text()), signal.SIGKILL)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "node").mkdir()
    return tmp_path / "node/opt"


@pytest.fixture
async def link(fleet: Fleet, root: Path) -> SshLink:
    host = await fleet.host(handler=real({"REPRIEVE_NODE_ROOT": str(root)}))
    return await fleet.pool.link(fleet.node(host))


def tree(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


@pytest.mark.slow
async def test_install_call_upgrade_uninstall(
    link: SshLink, root: Path, bundle: Bundle, newer: Bundle
) -> None:
    with pytest.raises(NotInstalledError):
        await link.call("facts", {}, timeout_s=20)
    done = await install(link, bundle)
    assert (done.node, done.bundle, done.before, done.changed, done.root) == (
        "n1",
        bundle.digest,
        None,
        True,
        str(root),
    )
    first = await link.call("status", {}, timeout_s=20)
    assert first["node"] == "n1"
    facts = strict.read(Facts, await link.call("facts", {}, timeout_s=20), what="facts")
    assert facts.bundle == bundle.digest
    assert facts.kernel == os.uname().release
    inside = await link.call("events", {}, timeout_s=20)
    assert inside["file"].startswith(str(root / "bundle" / bundle.digest / "python"))
    assert not [path for path in inside["path"] if "/work/" in path or path == ""], (
        "nothing from outside is importable"
    )

    again = await install(link, bundle)
    assert (again.changed, again.guard, again.before) == (False, done.guard, bundle.digest)
    assert (await link.call("status", {}, timeout_s=20))["pid"] == first["pid"], "the same guard runs on"

    (root / "state/desired").mkdir()
    (root / "state/desired/job.json").write_text("kept")
    up = await install(link, newer)
    assert (up.changed, up.guard, up.before) == (True, done.guard, bundle.digest)
    assert (root / "state/desired/job.json").read_text() == "kept"
    assert (await link.call("status", {}, timeout_s=20))["pid"] != first["pid"]
    assert (await link.call("facts", {}, timeout_s=20))["bundle"] == newer.digest
    identity = strict.loads((root / "state/guard.json").read_bytes(), what="guard.json")
    assert identity == {
        "guard": done.guard,
        "node": "n1",
        "version": "0.1newer",
        "bundle": newer.digest,
        "provider": "none",
    }

    pid = int((root / "run/guard.pid").read_text())
    removed = await uninstall(link)
    assert removed.left == ()
    assert str(root) in removed.removed
    assert list(root.parent.iterdir()) == []
    assert start_ticks(pid) is None, "the guard is gone"
    assert (await uninstall(link)).removed == ()


async def test_modes_and_names_are_those_of_the_plan(link: SshLink, root: Path, bundle: Bundle) -> None:
    found = await look(link)
    assert (found.root, found.bundle, found.writable, found.uid) == (str(root), None, True, os.getuid())
    plan = plan_install(found, bundle)
    assert plan.upload_bytes == bundle.size_bytes
    assert plan.unit is None
    await install(link, bundle, found=found)
    planned = {
        line.split()[1].removeprefix(f"{root}/").strip("/").split("/")[0]
        for line in plan.lines()
        if line.startswith("file")
    }
    assert {path.name for path in root.iterdir()} == planned
    modes = {
        name: stat.S_IMODE((root / name).lstat().st_mode)
        for name in ("bin/reprieve-node", "bin/reprieve-helper", "state", "staging", "run", "bundle")
    }
    assert modes == {
        "bin/reprieve-node": 0o755,
        "bin/reprieve-helper": 0o755,
        "state": 0o700,
        "staging": 0o700,
        "run": 0o700,
        "bundle": 0o755,
    }
    assert stat.S_IMODE((root / "state/guard.json").stat().st_mode) == 0o600
    assert plan_install(await look(link), bundle).upload_bytes == 0
    assert list((root / "staging").iterdir()) == []
    await uninstall(link)


async def test_uninstall_leaves_foreign_files_and_says_so(link: SshLink, root: Path, bundle: Bundle) -> None:
    await install(link, bundle)
    (root / "mine.txt").write_text("x")
    removed = await uninstall(link)
    assert removed.left == ("mine.txt",)
    assert [path.name for path in root.iterdir()] == ["mine.txt"]


async def test_uninstall_touches_no_job(link: SshLink, root: Path, bundle: Bundle) -> None:
    await install(link, bundle)
    job = subprocess.Popen(["/bin/sleep", "60"], cwd=root / "run", stdout=(root / "run/job.log").open("wb"))
    try:
        await uninstall(link)
        assert job.poll() is None
        assert not root.exists()
    finally:
        job.kill()
        job.wait()


def altered(bundle: Bundle, change: Any) -> bytes:
    data = bytearray(bundle.data)
    change(data)
    return bytes(data)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.__setitem__(len(data) // 2, data[len(data) // 2] ^ 1),
        lambda data: data.pop(),
        lambda data: data.append(0),
        lambda data: data.clear(),
    ],
)
async def test_altered_bundle_is_refused_before_unpacking(
    link: SshLink, root: Path, bundle: Bundle, change: Any
) -> None:
    header = {
        "do": "install", "digest": bundle.digest, "size": bundle.size_bytes, "unpacked_bytes": 1, "node": "n1",
        "guard": "a" * 20, "version": "x",
    }  # fmt: skip
    with pytest.raises(DamagedError, match=r"altered|broke off"):
        await run_bootstrap(link, header, altered(bundle, change), timeout_s=60)
    assert not (root / "current").exists()
    assert list((root / "bundle").iterdir()) == []
    assert list((root / "staging").iterdir()) == []


async def test_bundle_altered_on_disk_is_not_sent(link: SshLink, bundle: Bundle, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(altered(bundle, lambda data: data.append(1)))
    broken = Bundle(bundle.digest, copy, bundle.size_bytes, 1, 1, "x")
    with pytest.raises(ReprieveError, match="altered on disk"):
        await install(link, broken)


async def test_guard_that_does_not_start_is_told_with_its_words(
    link: SshLink, root: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = probe.program().replace("range(100)", "range(2)")
    monkeypatch.setattr(probe, "program", lambda: text)
    (root / "run").mkdir(parents=True)
    (root / "run/refuse").touch()
    with pytest.raises(ReprieveError, match="does not start: no guard today"):
        await install(link, bundle)
    (root / "run/refuse").unlink()
    assert (await install(link, bundle)).guard, "the next try goes on from there"
    await uninstall(link)


async def test_a_planted_link_is_not_followed(
    link: SshLink, root: Path, bundle: Bundle, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root.mkdir()
    (root / "state").symlink_to(outside)
    with pytest.raises(ReprieveError, match="state is not a directory of user"):
        await install(link, bundle)
    assert list(outside.iterdir()) == []
    (root / "state").unlink()
    root.chmod(0o777)
    with pytest.raises(ReprieveError, match="can be written by others"):
        await install(link, bundle)


async def test_no_python(fleet: Fleet, root: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    host = await fleet.host(handler=real({"PATH": str(tmp_path / "empty")}))
    probing = probe._FINDER.replace("/usr/bin/python3", "/nonexistent").replace(
        "/usr/local/bin/python3", "/nonexistent"
    )
    link = await fleet.pool.link(fleet.node(host))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "_FINDER", probing)
        with pytest.raises(IncompatibleError, match=r"no Python 3\.11 or newer"):
            await look(link)


async def test_an_older_python_is_passed_over(fleet: Fleet, root: Path, tmp_path: Path) -> None:
    old = tmp_path / "bin"
    old.mkdir()
    (old / "python3").write_text("#!/bin/sh\nexit 1\n")
    (old / "python3").chmod(0o755)
    (old / "python3.12").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (old / "python3.12").chmod(0o755)
    host = await fleet.host(handler=real({"PATH": f"{old}:/usr/bin:/bin", "REPRIEVE_NODE_ROOT": str(root)}))
    found = await look(await fleet.pool.link(fleet.node(host)))
    assert found.version[:2] >= (3, 11)


async def test_no_space_is_told_before_anything_is_written(link: SshLink, root: Path, bundle: Bundle) -> None:
    huge = Bundle(bundle.digest, bundle.path, bundle.size_bytes, 1 << 58, 1, "x")
    with pytest.raises(FullError, match=r"MiB free, .* MiB are needed"):
        await install(link, huge)
    assert not root.exists()


async def test_noexec_is_told(link: SshLink, bundle: Bundle) -> None:
    found = await look(link)
    with pytest.raises(IncompatibleError, match="mounted noexec"):
        await install(link, bundle, found=Look(**{**vars(found), "noexec": True}))


async def test_neither_root_nor_sudo(fleet: Fleet) -> None:
    def answer(uid: int) -> bytes:
        return strict.canonical({
            "python": "p", "version": [3, 11, 2], "implementation": "cpython", "machine": "x86_64", "libc": "glibc 2.36",
            "system": "Linux", "uid": uid, "root": "/opt/reprieve", "writable": uid == 0, "free_bytes": 1, "noexec": False,
            "systemd": False, "bundle": None, "guard": None, "node": None,
        })  # fmt: skip

    async def no_sudo(command: str, stdin: bytes) -> tuple[bytes, int]:
        return (
            (b"sudo: a password is required", 1) if command.startswith("sudo -n -- ") else (answer(1000), 0)
        )

    async def sudo(command: str, stdin: bytes) -> tuple[bytes, int]:
        return answer(0 if command.startswith("sudo -n -- ") else 1000), 0

    host = await fleet.host(handler=no_sudo)
    link = await fleet.pool.link(fleet.node(host))
    with pytest.raises(CredentialsError, match="user 1000 is not root"):
        await look(link)
    host.handler = sudo
    assert (await look(link)).sudo is True


async def test_probe_pins_a_new_key_only_when_told_to(fleet: Fleet, root: Path) -> None:
    host = await fleet.host(handler=real({"REPRIEVE_NODE_ROOT": str(root)}))
    node = fleet.node(host, host_key=None)
    offer = await offered_key(fleet.pool, node)
    assert (offer.known, offer.fingerprint, offer.line) == ("new", host.key.get_fingerprint(), host.line)
    assert host.logins == []
    with pytest.raises(HostKeyError, match="host key unknown: it shows ssh-ed25519 SHA256:"):
        await probe.probe(fleet.pool, node, accept_new=False)
    assert host.logins == []
    pinned, found = await probe.probe(fleet.pool, node, accept_new=True)
    assert pinned.host_key == host.line
    assert found.uid == os.getuid()
    fleet.known_hosts.write_text(f"[127.0.0.1]:{host.port} {fleet.client_line}\n")
    assert (await offered_key(fleet.pool, node)).known == "changed"
    with pytest.raises(HostKeyError, match="host key changed"):
        await probe.probe(fleet.pool, node, accept_new=True)


async def test_only_constant_text_is_on_the_command_line(fleet: Fleet, root: Path, bundle: Bundle) -> None:
    host = await fleet.host(handler=real({"REPRIEVE_NODE_ROOT": str(root)}))
    link = await fleet.pool.link(fleet.node(host))
    await install(link, bundle)
    await uninstall(link)
    assert len(set(host.commands)) == 1
    assert bundle.digest not in host.commands[0]

"""Files of a fleet: its directory, its records, a host's tree, sshd's configuration, recorded processes."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from backends.clock import SystemClock
from backends.errors import ReprieveError, UsageError
from backends.inventory.load import load
from backends.practice import launch, netlink, processes, records, rootfs, sshd
from backends.practice.layout import Layout
from backends.practice.namespaces import address_of
from backends.practice.processes import Process
from backends.records.node import Node


def test_a_directory_with_other_files_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="not a practice fleet's"):
        Layout(tmp_path).claim()
    Layout(tmp_path).empty()
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_claimed_directory_is_emptied_but_stays_ours(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "new")
    layout.claim()
    assert stat.S_IMODE(layout.directory.stat().st_mode) == 0o700
    (layout.store / "deep").mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (layout.directory / "link").symlink_to(outside)
    layout.lock.touch()
    layout.empty()
    assert sorted(path.name for path in layout.directory.iterdir()) == ["lock", "practice-fleet"]
    assert outside.is_dir()
    layout.claim()


def test_records_are_read_by_the_inventory_and_private(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    hosts = [
        {"name": f"host-{name}", "ssh": "root@127.0.0.1:4022", "pool": "practice/zone-a/small/linux",
         "instance": "i-1", "host_key": "ssh-ed25519 AAAA host"}
        for name in ("a", "b")
    ]  # fmt: skip
    records.write(layout, {"hosts": hosts}, bare=False)
    context = json.loads(layout.context.read_text())
    assert context == {
        "fleet": str(layout.fleet),
        "state": str(layout.state),
        "store": layout.store_url,
        "socket": str(layout.control),
    }
    inventory = load(layout.fleet)
    assert inventory.node("host-a") == Node(
        "host-a", "root@127.0.0.1:4022", "practice", "practice/zone-a/small/linux", "i-1",
        str(layout.identity), "ssh-ed25519 AAAA host",
    )  # fmt: skip
    for path in (layout.context, layout.fleet / "nodes/host-a.toml"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_bare_fleets_have_no_node_records(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    records.write(layout, {"hosts": [{"name": "host-a"}]}, bare=True)
    assert layout.context.exists()
    assert not (layout.fleet / "nodes").exists()


def test_a_hosts_tree_shows_nothing_secret_of_the_machine(tmp_path: Path) -> None:
    root = tmp_path / "root"
    rootfs.build(root, "host-a", "127.0.0.1 localhost\n")
    assert stat.S_IMODE((root / "root").stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "tmp").stat().st_mode) == 0o1777
    assert (root / "etc/shadow").read_text().startswith("root:*:")
    assert stat.S_IMODE((root / "etc/shadow").stat().st_mode) == 0o600
    assert (root / "etc/hostname").read_text() == "host-a\n"
    names = {line.partition(":")[0] for line in (root / "etc/passwd").read_text().splitlines()}
    assert names == {"root", "daemon", "sshd", "nobody"}
    assert list((root / "root").iterdir()) == []
    assert list((root / "usr").iterdir()) == []


def test_the_python_that_runs_us_is_bound_once(tmp_path: Path) -> None:
    base, inner = tmp_path / "python", tmp_path / "python/venv"
    inner.mkdir(parents=True)
    found = rootfs.python_binds((str(inner), str(base), "/usr", "/usr/local"))
    assert [item.source for item in found] == [base]
    assert found[0].inside(Path("/r")) == Path("/r" + str(base))


def test_sshd_lines_follow_what_the_program_knows(tmp_path: Path) -> None:
    program = tmp_path / "sbin/sshd"
    program.parent.mkdir()
    program.write_bytes(b"\x7fELF...usedns...")
    old = sshd.find_sshd(tmp_path, program)
    assert old.extra == ()
    program.write_bytes(b"\x7fELF...usedns\0persourcepenalties\0sshdsessionpath")
    new = sshd.find_sshd(tmp_path, program)
    assert new.extra == ("PerSourcePenalties no",)  # its own paths are right for the machine's sshd
    text = sshd.configuration(new, "10.77.0.2", {"PATH": "/a:/b", "LANG": "C"})
    assert 'SetEnv "PATH=/a:/b" "LANG=C"\n' in text
    assert "UsePAM no\n" in text
    assert "PasswordAuthentication no\n" in text


def test_libraries_are_linked_without_the_c_library(tmp_path: Path) -> None:
    libraries = tmp_path / "tree/usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    for name in ("libwrap.so.0", "libcrypto.so.3", "libc.so.6", "ld-linux-x86-64.so.2", "libnss_files.so.2"):
        (libraries / name).touch()
    server = sshd.Sshd("x", tmp_path / "tree", libraries, ())
    sshd.link_libraries(server, tmp_path / "links")
    links = {path.name: str(path.readlink()) for path in (tmp_path / "links").iterdir()}
    assert set(links) == {"libwrap.so.0", "libcrypto.so.3"}
    assert links["libwrap.so.0"] == "/opt/practice-sshd/usr/lib/x86_64-linux-gnu/libwrap.so.0"


def test_a_new_key_is_private_and_never_overwrites(tmp_path: Path) -> None:
    line = sshd.new_key(tmp_path / "k/id", "host-a")
    assert line.startswith("ssh-ed25519 AAAA")
    assert line.endswith(" host-a")
    assert stat.S_IMODE((tmp_path / "k/id").stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        sshd.new_key(tmp_path / "k/id", "host-a")


def test_addresses_are_different_and_inside_the_network() -> None:
    addresses = [address_of(number) for number in range(1, 5001)]
    assert len(set(addresses)) == 5000
    assert addresses[0] == "10.77.0.2"
    assert all(address.startswith("10.77.") and not address.endswith((".0", ".255")) for address in addresses)
    macs = {netlink.mac_of(address) for address in addresses}
    assert len(macs) == 5000
    assert all(mac[0] & 3 == 2 for mac in macs)  # locally administered, not multicast


def test_a_reused_process_id_is_not_the_process_that_was_meant() -> None:
    me = processes.look(os.getpid())
    assert me is not None
    assert me.alive
    other = Process(me.pid, me.start_ticks + 1)
    assert not other.alive
    other.kill()  # must not end this test
    assert processes.look(2**22 + 1) is None


def test_a_recorded_daemon_counts_only_while_it_lives(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert launch.recorded(layout) is None
    layout.record.write_text("nonsense")
    assert launch.recorded(layout) is None
    me = processes.look(os.getpid())
    assert me is not None
    layout.record.write_text(json.dumps({"pid": me.pid, "start_ticks": me.start_ticks}))
    assert launch.recorded(layout) == me
    layout.record.write_text(json.dumps({"pid": me.pid, "start_ticks": me.start_ticks + 1}))
    assert launch.recorded(layout) is None
    assert not launch.end(tmp_path, SystemClock())


def test_a_daemon_that_fails_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "choose", lambda _mode, _cache: ("namespaces", "forced"))
    monkeypatch.setattr(
        launch, "run_in_own_namespaces", lambda argv: [argv[0], "-c", "raise SystemExit('no luck')"]
    )
    with pytest.raises(ReprieveError, match="practice fleet did not start: no luck"):
        launch.start(tmp_path / "f", 1)
    monkeypatch.setattr(
        launch, "run_in_own_namespaces", lambda argv: [argv[0], "-c", "import signal; signal.pause()"]
    )
    with pytest.raises(ReprieveError, match="was not ready within 1 s"):
        launch.start(tmp_path / "f", 1, timeout_s=1.0)


def test_emptying_goes_on_when_another_program_empties_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(tmp_path / "new")
    layout.claim()
    (layout.store / "deep").mkdir(parents=True)
    real, tries = shutil.rmtree, []

    def raced(path: Path) -> None:
        tries.append(path)
        if len(tries) < 3:
            raise FileNotFoundError(2, "No such file or directory", "3.18")
        real(path)

    monkeypatch.setattr("backends.practice.layout.shutil.rmtree", raced)
    layout.empty()
    assert sorted(path.name for path in layout.directory.iterdir()) == ["practice-fleet"]

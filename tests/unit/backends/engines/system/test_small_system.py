"""Sockets, moments at which criu may be ended, free process ids, places for scratch layers, incarnations."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.engines.nsinit import free_start
from backends.engines.port import Process, RestoreRequest, start_ticks
from backends.engines.proc import Tree, read_member
from backends.engines.system.places import EXIT, KEPT, incarnation, outcome, remember
from backends.engines.system.scratch import layers, mount_flags, places_for
from backends.engines.system.seized import own_registers, parse_place
from backends.engines.system.sockets import (
    conflicts,
    listening_addresses,
    parse_inet,
    parse_unix,
    port_of,
    tree_sockets,
    unix_peers,
)  # fmt: skip
from backends.records.job import Job

LISTEN = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 77 1 0"
ESTABLISHED = (
    "   1: 0100007F:1F90 0100007F:E000 01 00000000:00000000 00:00000000 00000000     0        0 78 1 0"
)
WAITING = "   2: 0100007F:1F90 0100007F:E001 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0"


def test_inet_tables() -> None:
    found = parse_inet([LISTEN, ESTABLISHED, "", "odd"], "tcp")
    assert [(s.inode, s.listening, s.connected) for s in found] == [(77, True, False), (78, False, True)]
    assert listening_addresses(tuple(found)) == ["0100007F:1F90"]
    assert port_of("0100007F:1F90") == 8080
    assert port_of("odd:") == 0


def test_conflicts_tell_taken_from_lingering() -> None:
    assert conflicts(["0100007F:1F90"], [LISTEN]) == ({8080}, set())
    assert conflicts(["0100007F:1F90"], [WAITING]) == (set(), {8080})
    assert conflicts(["0200007F:1F90"], [LISTEN]) == (set(), set())
    assert conflicts(["00000000:1F90"], [LISTEN]) == ({8080}, set())
    assert conflicts(["0100007F:1F91"], [LISTEN, WAITING, "", "x"]) == (set(), set())
    assert conflicts([], [LISTEN]) == (set(), set())


def test_unix_table() -> None:
    lines = [
        "0: 00000002 00000000 00010000 0001 01 50 /run/a b",
        "0: 00000002 00000000 00000000 0002 03 51 @abstract",
        "0: 00000002 00000000 00000000 0001 03 52",
        "odd",
    ]
    found = parse_unix(lines)
    assert [(s.inode, s.path, s.listening, s.datagram) for s in found] == [
        (50, "/run/a b", True, False), (51, "", False, True), (52, "", False, False),
    ]  # fmt: skip


@given(st.lists(st.text(max_size=80), max_size=5))
def test_any_table_is_read(lines: list[str]) -> None:
    assert isinstance(parse_inet(lines, "tcp") + parse_unix(lines), list)
    conflicts(["0100007F:1F90"], lines)


def test_the_other_end_of_a_socket_is_inside_or_outside() -> None:
    pair = socket.socketpair()
    try:
        inside = {s.inode: s for s in tree_sockets(own())}
        number = os.fstat(pair[0].fileno()).st_ino
        assert inside[number].connected
        assert not inside[number].outside_peer
        assert unix_peers()[number] == os.fstat(pair[1].fileno()).st_ino
    finally:
        pair[0].close()
        pair[1].close()


def own() -> Tree:
    member = read_member(os.getpid())
    assert member is not None
    return Tree((member,))


MAPS = """400000-500000 r-xp 00000000 fd:00 5 /usr/bin/python3
7f0000-7f1000 rwxs 00000000 00:01 9 /memfd:CRIUMFD (deleted)
800000-900000 rw-p 00000000 00:00 0
"""


@pytest.mark.parametrize(
    ("syscall", "state", "safe"),
    [
        ("230 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffc 0x450000", "t", True),  # its own code, stopped
        ("-1 0x7ffc 0x450000", "t", True),
        ("45 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffc 0x7f0100", "S", True),  # waits in the helper
        ("-1 0x7ffc 0x7f0100", "t", False),  # stopped in the helper
        ("45 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffc 0x7f0100", "t", False),
        ("-1 0x7ffc 0x400008", "t", False),  # criu's single call
        ("running", "R", False),
        ("", "S", False),
        ("-1 0x7ffc 0xffff0000", "t", True),  # vdso and the like
    ],
)
def test_moments_at_which_criu_may_be_ended(syscall: str, state: str, safe: bool) -> None:
    assert own_registers(MAPS, syscall, state) is safe


@given(st.text(max_size=60))
def test_any_syscall_line_is_read(line: str) -> None:
    assert parse_place(line) is None or len(line.split()) >= 3


@given(st.sets(st.integers(1, 4000), min_size=1, max_size=60))
def test_helpers_start_where_no_id_of_the_job_is(taken: set[int]) -> None:
    pid_max = 4100
    start = free_start(taken, pid_max)
    wrapped = {pid if pid < pid_max else pid - pid_max + 300 for pid in range(start + 1, start + 65)}
    assert not wrapped & taken
    assert start < pid_max


def test_ids_beyond_the_node_s_are_refused() -> None:
    with pytest.raises(ValueError, match=r"process id 40000, this node's kernel\.pid_max is 32768"):
        free_start({5, 40000}, 32768)
    with pytest.raises(ValueError, match="no 64 free"):
        free_start(set(range(1, 1000)), 1001)


def test_scratch_layers_cover_all_places_with_few_mounts(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "c").mkdir()
    wanted = [str(tmp_path / name) for name in ("a", "a/b", "c/new/deep")]
    assert places_for(wanted) == ([str(tmp_path / "a"), str(tmp_path / "c")], [])
    assert places_for(["/", "/no-such-place-here/x"]) == (["/no-such-place-here"], ["/no-such-place-here"])


def request(tmp_path: Path, scratch: Path | None = None) -> RestoreRequest:
    return RestoreRequest(Job("j", "n"), tmp_path, (), {}, 1.0, tmp_path / "aside", scratch)


def test_directories_of_incarnations_are_few_and_the_living_one_stays(tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = incarnation(run, request(tmp_path))
    ticks = start_ticks(os.getpid())
    assert ticks is not None
    me = Process(os.getpid(), ticks)
    remember(first, me)
    places = [incarnation(run, request(tmp_path)) for _ in range(KEPT + 4)]
    assert first.is_dir()
    assert places[-1].is_dir()
    assert not places[0].exists()
    assert len(list(run.iterdir())) <= KEPT + 2
    assert incarnation(run, request(tmp_path, tmp_path)).name == "j.rehearsal.1"
    assert outcome(run, me) is None
    (first / EXIT).write_text('{"code": -9}')
    assert outcome(run, me) == -9
    assert outcome(run, Process(me.pid, me.start_ticks + 1)) is None
    (first / EXIT).write_text("garbage")
    assert outcome(run, me) is None


MOUNTS = """\
158 65 254:0 / / rw,relatime - ext4 /dev/vda rw
164 158 254:0 /x /root/.pyenv/3\\040x ro,nosuid,relatime shared:1 - ext4 /dev/vda rw
odd
187 158 0:52 / /run rw,nosuid,nodev,noexec,noatime - tmpfs tmpfs rw
"""


def test_mounts_keep_their_flags() -> None:
    assert mount_flags(MOUNTS) == {
        "/": 1 << 21, "/root/.pyenv/3 x": 2 | 1 << 21, "/run": 2 | 4 | 8 | 1 << 10
    }  # fmt: skip


def test_what_is_mounted_below_a_scratch_place_is_laid_over_it_again() -> None:
    mounts = ["/", "/proc", "/root/.py", "/root-2", "/root/data", "/root/data/deep", "/root/data/run/inner"]
    assert layers(["/root", "/root/data/run"], mounts) == [
        ("/root", "overlay"),
        ("/root/.py", "bind"),
        ("/root/data", "bind"),
        ("/root/data/deep", "remount"),
        ("/root/data/run", "overlay"),
        ("/root/data/run/inner", "bind"),
    ]
    assert layers(["/root/data"], ["/", "/root/data"]) == [("/root/data", "overlay")]
    assert layers([], mounts) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_rehearsal_sees_what_is_mounted_below_its_place_and_cannot_write_there(tmp_path: Path) -> None:
    home, disk = tmp_path / "home", tmp_path / "disk"
    for directory in (home / "mnt", disk, tmp_path / "tree", tmp_path / "work"):
        directory.mkdir(parents=True)
    (disk / "python").write_text("there")
    program = f"""
import json, os, subprocess
from pathlib import Path
from backends.engines.system.scratch import enter, places_for
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
subprocess.run(["mount", "--bind", {str(disk)!r}, {str(home / "mnt")!r}], check=True)
places, made = places_for([{str(home)!r}])
enter({{"places": places, "tree": {str(tmp_path / "tree")!r}, "work": {str(tmp_path / "work")!r}}})
Path({str(home / "new")!r}).write_text("scratch")
seen = Path({str(home / "mnt" / "python")!r}).read_text()
try:
    Path({str(home / "mnt" / "python")!r}).write_text("spoilt")
except OSError as error:
    print(json.dumps([seen, error.strerror]))
"""
    done = subprocess.run(
        ["unshare", "-m", "-n", sys.executable, "-c", program],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["there", "Read-only file system"]
    assert (disk / "python").read_text() == "there"
    assert not (home / "new").exists()

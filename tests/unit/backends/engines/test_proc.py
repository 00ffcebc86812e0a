"""Reading /proc: odd names, vanished processes, everything a process can hold."""

from __future__ import annotations

import base64
import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.engines.proc import (
    Descriptor,
    _kind,
    children,
    parse_arguments,
    parse_map,
    parse_stat,
    read_member,
    read_stat,
    read_tree,
    tree_pids,
)  # fmt: skip

CASES = Path(__file__).resolve().parents[5] / "shared" / "data" / "cases" / "cases.jsonl"


def case(number: str) -> dict[str, object]:
    if not CASES.exists():
        pytest.skip(f"{CASES} is absent: the real-world cases are not here")
    found = [json.loads(line) for line in CASES.read_text("utf-8").splitlines()]
    result = next(item for item in found if item["id"] == number)
    assert isinstance(result, dict)
    return result


def test_rc_28_names_with_blanks_brackets_and_newlines() -> None:
    data = case("RC-28")
    given_, expected = data["input"], data["expected"]
    assert isinstance(given_, dict)
    assert isinstance(expected, dict)
    stat = parse_stat(given_["stat"].encode())
    assert (stat.pid, stat.state, stat.ppid, stat.start_ticks) == (83875, "S", 75750, 16366278)
    assert "\n" not in stat.name
    assert "\\x0a" in stat.name
    huge = parse_stat(given_["huge"].encode())
    assert (huge.pid, huge.ppid, huge.start_ticks) == (4194303, 1, 99)
    arguments = parse_arguments(base64.b64decode(given_["cmdline_b64"]))
    assert [word.hex() for word in arguments] == expected["argv_bytes"]


@given(st.binary(max_size=15), st.integers(1, 1 << 22), st.integers(0, 1 << 60))
def test_any_name_leaves_the_fields_in_place(name: bytes, pid: int, start: int) -> None:
    tail = b"S 7 1 1 0 -1 4194304 1 2 3 4 5 6 0 0 20 0 1 0 " + str(start).encode() + b" 8 9"
    found = parse_stat(str(pid).encode() + b" (" + name + b") " + tail)
    assert (found.pid, found.ppid, found.start_ticks, found.cpu_ticks) == (pid, 7, start, 11)
    assert found.name.isprintable()


@given(st.binary(max_size=80))
def test_what_is_no_stat_line_is_a_value_error(data: bytes) -> None:
    try:
        parse_stat(data)
    except ValueError:
        return
    assert data.count(b" ") >= 20


def test_a_short_stat_line_is_refused() -> None:
    with pytest.raises(ValueError, match="fields after the name"):
        parse_stat(b"1 (x) R 1")


@pytest.mark.parametrize(
    ("line", "path", "shared", "writable", "deleted"),
    [
        ("7f00-7f10 rw-s 00000000 00:19 5 /dev/shm/a b", "/dev/shm/a b", True, True, False),
        ("7f00-7f10 r-xp 00000000 fd:00 5    /usr/lib/x.so (deleted)", "/usr/lib/x.so", False, False, True),
        ("7f00-7f10 rw-s 00000000 00:0f 9 anon_inode:[io_uring]", "anon_inode:[io_uring]", True, True, False),
    ],
)
def test_mappings(line: str, path: str, shared: bool, writable: bool, deleted: bool) -> None:
    found = parse_map(line)
    assert found is not None
    assert (found.path, found.shared, found.writable, found.deleted) == (path, shared, writable, deleted)
    assert (found.start, found.end) == (0x7F00, 0x7F10)


@pytest.mark.parametrize("line", ["", "7f-80 rw-p 0 0:0 0", "7f-80 rw-p 0 0:0 0 [heap]", "garbage /x"])
def test_anonymous_memory_and_garbage_are_no_mappings(line: str) -> None:
    assert parse_map(line) is None


def test_a_live_process_shows_what_it_holds(tmp_path: Path) -> None:
    gone = (tmp_path / "gone").open("w+b")
    gone.write(b"x" * 1000)
    gone.flush()
    (tmp_path / "gone").unlink()
    literal = (tmp_path / "named (deleted)").open("w")
    pair = socket.socketpair()
    os.mkfifo(tmp_path / "fifo")
    fifo = os.open(tmp_path / "fifo", os.O_RDWR)
    memory = os.memfd_create("m")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        member = read_member(os.getpid())
        assert member is not None
        held = {d.number: d for d in member.descriptors}
        assert held[gone.fileno()].deleted
        assert held[gone.fileno()].size == 1000
        assert held[gone.fileno()].path == str(tmp_path / "gone")
        assert not held[literal.fileno()].deleted
        assert held[literal.fileno()].path.endswith("named (deleted)")
        assert held[pair[0].fileno()].kind == "socket"
        assert held[fifo].kind == "fifo"
        assert held[memory].kind == "memfd"
        assert held[folder].kind == "directory"
        assert member.open_path(held[gone.fileno()]).read_bytes() == b"x" * 1000
        assert member.cwd == str(Path.cwd())
        assert os.getpid() in member.threads
        assert member.resident_bytes > 1 << 20
        assert any(m.path.endswith(".so") or ".so." in m.path for m in member.mappings)
    finally:
        for handle in (fifo, memory, folder):
            os.close(handle)
        gone.close()
        literal.close()
        pair[0].close()
        pair[1].close()


def test_a_tree_is_read_parents_first_and_vanished_ones_are_left_out() -> None:
    child = subprocess.Popen(
        [
            sys.executable,
            "-S",
            "-c",
            "import os,time\nif not os.fork(): time.sleep(60)\nprint(flush=True); time.sleep(60)",
        ],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdout is not None
    child.stdout.readline()
    try:
        pids = tree_pids(child.pid)
        assert pids[0] == child.pid
        assert len(pids) == 2
        assert set(pids[1:]) == set(children()[child.pid])
        tree = read_tree(child.pid)
        assert [m.outer_pid for m in tree.members] == pids
        assert tree.root.session == child.pid
    finally:
        os.killpg(child.pid, 9)
        child.wait()
        child.stdout.close()
    assert read_tree(child.pid).members == ()
    assert read_stat(child.pid) is None
    assert read_member(child.pid) is None


def test_a_zombie_is_no_member() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert read_member(child.pid) is None
    child.wait()


@pytest.mark.parametrize("name", ["/dev/ptmx", "/dev/pts/ptmx"])
def test_both_names_of_a_terminal_s_master_are_known(name: str) -> None:
    facts = os.stat_result((stat.S_IFCHR | 0o666, 0, 0, 1, 0, 0, 0, 0, 0, 0), {"st_rdev": os.makedev(5, 2)})
    assert _kind(name, facts) == "tty"
    assert _kind("/dev/other", facts) == "device"


def test_a_pipe_for_output_whose_reader_is_gone_is_known_as_such() -> None:
    reading, writing = os.pipe()
    code = "import sys; print('up', file=sys.stderr, flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)
    try:
        assert child.stderr is not None
        child.stderr.readline()

        def output() -> Descriptor:
            found = read_member(child.pid)
            assert found is not None
            return next(d for d in found.descriptors if d.number == 1)

        assert not output().unread, "somebody outside reads it"
        os.close(reading)
        assert output().unread
    finally:
        child.kill()
        child.communicate()

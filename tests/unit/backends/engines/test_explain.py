"""The exact texts of tools, as met in the lab and in reports, become a cause and a remedy."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.engines.explain import HARMLESS, explain
from tests.unit.backends.engines.test_proc import CASES, case

RLIMIT = "(00.027469) Error (criu/util.c:1534): rlimit: Can't setup RLIMIT_NOFILE for self: Operation not permitted\n"

TEXTS = {
    "Error (criu/vdso.c:1): vdso: Unexpected rt vDSO area bounds": "too old for the running kernel",
    "Error (criu/sockets.c:1): sockets: Can't get 1:16 opt: Operation not supported": "cannot save sockets on kernel 6.16",
    "Error (criu/sockets.c:1): sockets: Can't get 1:34 opt: Operation not supported": "cannot save sockets on kernel 6.16",
    "Error (criu/cr-restore.c:1): Can't fork for 14504: File exists": "process id 14504 is taken",
    "Error (criu/files-reg.c:1): File data/wf/progress.txt has bad size 87 (expect 54)": "data/wf/progress.txt has 87 bytes where the save expects 54",
    "Error (criu/files-reg.c:1): File opt/x.so has bad build-ID": "opt/x.so was replaced",
    "Error (criu/files-ext.c:96): Can't dump file 12 of that type [20666] (chr 195:0 /dev/nvidia0)": "GPU device",
    "Error (criu/files-ext.c:96): Can't dump file 5 of that type [600] (unknown anon_inode:[io_uring])": "io_uring",
    "Error (compel/src/lib/infect-rpc.c:1): send_fds failed (-22)": "cannot take",
    "Error (compel/src/lib/fds.c:1): Can't retrieve FDs from socket": "cannot take",
    "Error (criu/files-reg.c:1): Can't dump ghost file /tmp/ghostfile of 5001216 size, increase limit": "/tmp/ghostfile of 5001216 bytes",
    "Error (criu/files-reg.c:1): Can't link remap to /dev/shm/link_remap.5: File exists": "leftovers of an earlier save",
    "Error (criu/files-reg.c:1): Can't create link remap for /dev/shm/sem.x. Use link-remap option.": "/dev/shm/sem.x",
    "Error (criu/file-lock.c:1): Some file locks are hold by dumping tasks! You can try --file-locks to dump them.": "holds file locks",
    "Error (criu/cr-dump.c:1): Timeout reached. Try to interrupt: 3": "could not all be stopped in time",
    "Error (criu/plugin.c:1): PAUSE_DEVICES failed": "GPU state",
    "Error: Failed to unlock process status": "locked by the GPU driver",
    "Error: OS call failed or operation not supported on this OS": "GPU driver refuses",
    "Error (criu/sk-inet.c:1): Can't bind inet socket back: Cannot assign requested address": "does not have",
    "Error (criu/sk-inet.c:1059): inet: Can't bind inet socket (id 14): Address already in use": "in use on this node",
    "Error (criu/sk-inet.c:1): inet: Connected TCP socket, consider using --tcp-established option.": "established TCP connection",
    "Error (criu/cpu.c:1): CPU instruction capabilities do not match run time": "CPU lacks features",
    "Error (criu/tty.c:1): tty: Found slave peer index 0 without correspond master peer": "terminal",
    "Error (criu/tty.c:1): tty: Don't have tty to inherit session from, aborting": "terminal",
    "Error (criu/cr-dump.c:1): The root process 7 is not a session leader. Consider using --shell-job option": "leads no session",
    "Error (criu/cr-dump.c:1): A session leader of 1980(1980) is outside of its pid namespace": "begun outside",
    "Error (criu/fsnotify.c:1): fsnotify: Can't dump that handle": "watches",
    "Error (criu/sk-unix.c:1): unix: Can't bind id 0x5 ino 7 addr /tmp/pymp-1/l: No such file or directory": "/tmp/pymp-1/l",
    "Error (criu/mount.c:1): mnt: 57:./shared doesn't have a proper root mount": "another mount namespace",
    "Error (criu/files-reg.c:1): Can't open file data/ci/log.txt on restore: No such file or directory": "data/ci/log.txt",
    "Error (criu/page-xfer.c:1): page-xfer: Unable to spice data: No space left on device": "staging disk is full",
    "Error (criu/mem.c:1): Tracking memory is not available. Consider omitting --track-mem option.": "does not track",
    "Error (pie/restorer.c): pie: Can't read pages data (-9)": "memory image is incomplete",
    "Error (criu/protobuf.c:1): Unexpected EOF on (empty-image)": "image file is incomplete",
    "Error (criu/x86/crtools.c:1): x86: Corruption in FPU st_space area (got 28 but 32 expected)": "image file is damaged",
    "Error (criu/kerndat.c:1): /proc/sys/kernel/sem_next_id is inaccessible: Permission denied": "lacks the rights",
    "Error (criu/pidfd.c): pidfile: Can't open /r/root.pid: File exists": "pid file of an earlier restore",
    "Error (criu/fd.c:1): Can't lookup mount=88 for fd=1 path=/x": "mount that is not visible",
}  # fmt: skip


@pytest.mark.parametrize("line", TEXTS)
def test_each_known_text_has_its_cause(line: str) -> None:
    log = f"(00.01) something\n{RLIMIT}(00.02)  15982: {line}\n(00.03) Error (criu/cr-dump.c:1975): Dumping FAILED.\n"
    cause = explain(log)
    assert TEXTS[line] in cause.reason
    assert len(cause.remedy) > 5
    assert "\n" not in cause.text


def test_rc_34_an_old_criu_on_a_new_kernel() -> None:
    name = case("RC-34")["input"]
    assert isinstance(name, dict)
    cause = explain((CASES.parent / name["file"]).read_text("utf-8"))
    assert "too old for the running kernel" in cause.reason
    assert "install CRIU 4.2" in cause.remedy


@pytest.mark.parametrize("text", HARMLESS)
def test_lines_of_every_good_run_are_no_cause(text: str) -> None:
    cause = explain(f"(00.01) Error (criu/x.c:1): {text}\n(00.02) Error (criu/y.c:2): the true one\n")
    assert cause.line == "the true one"


def test_an_unknown_failure_names_its_first_telling_line() -> None:
    log = f"{RLIMIT}(00.1) Error (criu/new.c:1): a new thing \x1b[31m\n(00.2) Error (criu/cr-dump.c:1): Dumping FAILED.\n"
    cause = explain(log)
    assert cause.line == "a new thing \\x1b[31m"
    assert explain("").line == ""
    assert explain("all went well\n").reason == "CRIU ended without saying why"


@given(st.text(max_size=400))
def test_any_log_gives_one_line(log: str) -> None:
    text = explain(log).text
    assert text.isprintable()
    assert json.dumps(text)

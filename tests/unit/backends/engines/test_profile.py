"""Options and verdicts from what a job has open."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.engines.criu import store_free_bytes
from backends.engines.open_files import Plan
from backends.engines.port import Verdict
from backends.engines.proc import Descriptor, Kind, Mapping, Member, Tree
from backends.engines.profile import Options, choose, judge, outside_terminals
from backends.engines.system.sockets import Socket, among_themselves, by_own_address
from backends.records.job import Job

SPACES = {"mnt": "m:1", "pid": "p:1", "net": "n:1", "ipc": "i:1", "user": "u:1"}
JOB = Job("j", "n", command=("python", "train.py", "--name", "a b"))


def held(number: int, kind: Kind, path: str, **more: object) -> Descriptor:
    return replace(Descriptor(number, kind, path, 0, False, number, 1, 0, 0, 1), **more)  # type: ignore[arg-type]  # test data


def member(*descriptors: Descriptor, mappings: tuple[Mapping, ...] = (), **more: object) -> Member:
    base = Member(
        100, 5, 100, 100, 100, (100,), "python", "S", 0, 0, 0, "/work", SPACES, 1 << 20, descriptors, mappings
    )
    return replace(base, **more)  # type: ignore[arg-type]  # test data


def verdict(
    *members: Member, sockets: tuple[Socket, ...] = (), plan: Plan | None = None, job: Job = JOB
) -> Verdict:
    return judge(
        job,
        Tree(members),
        sockets,
        plan or Plan(()),
        namespaces=SPACES,
        arguments=["python", "old.py"],
        copy_limit_bytes=1 << 30,
    )


def test_a_plain_job_is_ok() -> None:
    assert verdict(member(held(0, "device", "/dev/null", rdev=(1 << 8) | 3))) == Verdict(
        "ok", (), None, "criu"
    )


@pytest.mark.parametrize("where", ["descriptor", "mapping"])
def test_io_uring_needs_a_restart_with_the_exact_line(where: str) -> None:
    found = verdict(
        member(held(5, "anonymous", "anon_inode:[io_uring]"))
        if where == "descriptor"
        else member(mappings=(Mapping("anon_inode:[io_uring]", True, True, False, 1, 1, 2),))
    )
    assert found.answer == "needs_restart"
    assert found.restart_line == "USE_LIBUV=0 UV_USE_IO_URING=0 python train.py --name 'a b'"
    assert "io_uring" in found.reasons[0]


def test_an_attached_job_is_restarted_with_its_own_command_line() -> None:
    found = verdict(member(held(5, "anonymous", "anon_inode:[io_uring]")), job=Job("j", "n"))
    assert found.restart_line == "USE_LIBUV=0 UV_USE_IO_URING=0 python old.py"


@pytest.mark.parametrize(
    ("one", "answer", "text"),
    [
        (held(3, "device", "/dev/nvidia0", rdev=195 << 8), "self_save_only", "GPU device /dev/nvidia0"),
        (held(3, "device", "/dev/kvm", rdev=(10 << 8) | 232), "self_save_only", "the device /dev/kvm"),
        (held(3, "anonymous", "anon_inode:[userfaultfd]"), "self_save_only", "userfaultfd"),
        (held(3, "anonymous", "anon_inode:[eventpoll]"), "ok", ""),
        (held(3, "anonymous", "anon_inode:inotify"), "ok", ""),
        (
            held(3, "anonymous", "anon_inode:inotify", extra="inotify wd:1 ino:2"),
            "ok",
            "waits unread at a save is lost",
        ),
        (held(1, "pipe", "pipe:[9]", flags=1, inode=9), "needs_restart", "output is a pipe"),
    ],
)
def test_what_a_job_holds(one: Descriptor, answer: str, text: str) -> None:
    found = verdict(member(one))
    assert found.answer == answer
    assert text in " ".join(found.reasons)
    assert (found.restart_line is not None) == (answer == "needs_restart")


def test_output_into_a_pipe_of_its_own_is_fine() -> None:
    inside = member(
        held(1, "pipe", "pipe:[9]", flags=1, inode=9), held(5, "pipe", "pipe:[9]", flags=0, inode=9)
    )
    assert verdict(inside).answer == "ok"


@pytest.mark.parametrize(
    ("more", "answer", "text"),
    [
        ({"tracer": 7}, "impossible", "traced by process 7"),
        ({"readable": False}, "impossible", "run the guard as root"),
        ({"namespaces": {**SPACES, "mnt": "m:2"}}, "self_save_only", "own mount namespace"),
        ({"namespaces": {**SPACES, "pid": "p:2"}}, "self_save_only", "own process id namespace"),
        ({"state": "D"}, "ok", "state D"),
        ({"session": 0}, "needs_restart", "begun outside"),
        ({"mappings": (Mapping("/SYSV00000000", True, True, True, 1, 1, 2),)}, "self_save_only", "System V"),
        ({"mappings": (Mapping("/dev/nvidiactl", True, True, False, 1, 1, 2),)}, "self_save_only", "GPU"),
        (
            {"mappings": (Mapping("/dev/infiniband/uverbs0", True, True, False, 1, 1, 2),)},
            "self_save_only",
            "RDMA",
        ),
    ],
)
def test_what_a_process_is(more: dict[str, object], answer: str, text: str) -> None:
    found = verdict(member(**more))  # type: ignore[arg-type]  # test data
    assert found.answer == answer
    assert text in " ".join(found.reasons)


@pytest.mark.parametrize(
    ("one", "answer", "text"),
    [
        (Socket(1, "tcp", connected=True), "ok", "must reconnect"),
        (Socket(1, "tcp", listening=True), "ok", ""),
        (Socket(1, "unix", connected=True, outside_peer=True), "needs_restart", "stream unix socket"),
        (
            Socket(1, "unix", connected=True, outside_peer=True, datagram=True),
            "ok",
            "datagram socket of a host",
        ),
        (Socket(1, "unix", connected=True), "ok", ""),
    ],
)
def test_sockets(one: Socket, answer: str, text: str) -> None:
    found = verdict(member(), sockets=(one,))
    assert found.answer == answer
    assert text in " ".join(found.reasons)
    if answer == "needs_restart":
        assert found.restart_line == "setsid -f python train.py --name 'a b' </dev/null >job.log 2>&1"


def test_an_attached_tmux_wants_a_detach_and_no_restart() -> None:
    attached = Socket(1, "unix", connected=True, outside_peer=True)
    found = verdict(member(name="tmux: server"), sockets=(attached,))
    assert found.answer == "needs_restart"
    assert "detach every client" in found.reasons[0]
    assert found.restart_line is None
    io_uring = held(5, "anonymous", "anon_inode:[io_uring]")
    both = verdict(member(io_uring, name="tmux: server"), sockets=(attached,))
    assert both.restart_line is not None, "something else wants a restart all the same"
    assert verdict(member(name="tmux: server")).answer == "ok"


def test_a_job_of_another_user_needs_a_right() -> None:
    tree = Tree((member(uid=1000),))
    said = {
        right: judge(
            JOB, tree, (), Plan(()), namespaces=SPACES, arguments=[], copy_limit_bytes=1, resource_right=right
        )
        for right in (True, False)
    }
    assert said[True].answer == "ok"
    assert said[False].answer == "impossible"
    assert "CAP_SYS_RESOURCE" in said[False].reasons[0]


def test_the_worst_answer_wins_and_comes_first() -> None:
    found = verdict(
        member(held(5, "anonymous", "anon_inode:[io_uring]"), tracer=9),
        sockets=(Socket(1, "tcp", connected=True),),
    )
    assert found.answer == "impossible"
    assert "traced" in found.reasons[0]
    assert len(found.reasons) == 3
    assert found.restart_line is None


def test_large_files_are_told() -> None:
    found = verdict(member(), plan=Plan((), (("/nfs/x", "it lies on nfs4"),), 3 << 30))
    assert found.answer == "ok"
    assert any("3.0 GiB" in reason for reason in found.reasons)
    assert any("/nfs/x does not travel" in reason for reason in found.reasons)


def test_options_follow_the_look() -> None:
    plain = choose(Tree((member(),)), ())
    assert plain == Options()
    assert "--shell-job" not in plain.dump() + plain.restore()
    for option in ("--leave-running", "--tcp-close", "--file-locks", "--link-remap", "--skip-in-flight"):
        assert option in plain.dump()
    assert "--leave-running" not in plain.restore()
    assert "--tcp-close" in plain.restore()
    assert choose(Tree((member(session=50),)), ()).shell_job
    outside = choose(Tree((member(),)), (Socket(1, "unix", outside_peer=True, datagram=True),))
    assert "--ext-unix-sk" in outside.dump()
    assert "--ext-unix-sk" in outside.restore()
    ghost = choose(Tree((member(held(3, "file", "/x", deleted=True, size=3 << 30)),)), ())
    assert ghost.dump()[ghost.dump().index("--ghost-limit") + 1] == str(6 << 30)
    watched = choose(
        Tree((member(held(3, "anonymous", "anon_inode:inotify", extra="inotify wd:1 ino:2")),)), ()
    )
    assert watched.dump()[-3:] == ["--force-irmap", "--irmap-scan-path", "/work"]


def test_connections_among_its_own_processes_are_kept() -> None:
    one, other = "0100007F:9C40", "0100007F:1F90"
    both = (
        Socket(1, "tcp", connected=True, address=one, peer=other),
        Socket(2, "tcp", connected=True, address=other, peer=one),
    )
    options = choose(Tree((member(),)), both)
    assert options.own_tcp
    assert "--tcp-established" in options.dump()
    again = Options.of_document(options.document())
    assert "--tcp-established" in again.restore()
    assert "--tcp-close" not in again.restore()
    outside = Socket(3, "tcp", connected=True, address="0100007F:9C42", peer="0100007F:0016")
    for sockets in ((), both[:1], (*both, outside)):
        assert not choose(Tree((member(),)), sockets).own_tcp
        assert "--tcp-close" in choose(Tree((member(),)), sockets).restore()


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("0100007F", True),
        ("0200000A", False),
        ("00000000000000000000000001000000", True),
        ("0000000000000000FFFF00000100007F", True),
        ("0000000000000000FFFF00000200000A", False),
        ("B80D0120000000000000000001000000", False),
    ],
)
def test_only_the_loopback_is_everywhere(address: str, loopback: bool) -> None:
    both = [
        Socket(n, "tcp", connected=True, address=f"{address}:{a}", peer=f"{address}:{b}")
        for n, a, b in ((1, "9C40", "1F90"), (2, "1F90", "9C40"))
    ]
    assert among_themselves(both) == loopback


def test_a_terminal_whose_other_end_is_inside_is_no_shell_job() -> None:
    slave = held(0, "tty", "/dev/pts/4")
    assert outside_terminals(Tree((member(slave),))) == {"/dev/pts/4"}
    assert choose(Tree((member(slave),)), ()).shell_job
    inside = Tree((member(held(7, "tty", "/dev/ptmx", extra="tty-index:\t4")), member(slave)))
    assert outside_terminals(inside) == set()
    assert not choose(inside, ()).shell_job


@given(st.booleans(), st.booleans())
def test_the_choice_travels_with_the_save(shell: bool, unix: bool) -> None:
    options = Options(shell, unix)
    assert Options.of_document(options.document()) == options
    assert Options.of_document({}) == Options()


def test_a_disk_that_is_too_small_is_told_beforehand() -> None:
    tree = Tree((member(held(3, "file", "/x", deleted=True, size=1 << 30)),))

    def said(free: int | None) -> Verdict:
        return judge(
            JOB, tree, (), Plan(()), namespaces=SPACES, arguments=[], copy_limit_bytes=1, free_bytes=free
        )

    assert said(None).answer == said(2 << 30).answer == "ok"
    assert said(1 << 30).answer == "impossible"
    assert "needs 1089 MiB on the staging disk, 1024 MiB are free" in said(1 << 30).reasons[0]


def test_the_store_has_room_for_two_saves_whatever_is_kept() -> None:
    tree = Tree((member(held(3, "file", "/x", deleted=True, size=1023 << 20)),))  # and 1 MiB of memory

    def said(free: int | None) -> Verdict:
        return judge(
            replace(JOB, keep_last=1), tree, (), Plan(()), namespaces=SPACES, arguments=[], copy_limit_bytes=1,
            store_free_bytes=free,
        )  # fmt: skip

    assert said(None).reasons == said(2 << 30).reasons
    short = said((2 << 30) - 1)
    assert short.answer == "ok", "the disk may be freed until then"
    assert (
        "the store's disk has 2048 MiB free, two saves of up to 1024 MiB each lie there at a time (keep_last is 1; "
        "the older one stays until the newer one is verified): free space there"
    ) in short.reasons


def test_only_a_store_in_a_directory_has_a_disk_of_ours(tmp_path: Path) -> None:
    there = shutil.disk_usage(tmp_path).free
    for place in (tmp_path, tmp_path / "yet to be%20made" / "store"):
        found = store_free_bytes(f"file://{place}")
        assert found is not None
        assert found == pytest.approx(there, rel=0.5)
    assert store_free_bytes("") is store_free_bytes("s3://bucket/prefix") is None


def test_output_that_nobody_at_all_reads_is_fine() -> None:
    broken = held(1, "pipe", "pipe:[9]", flags=1, inode=9, unread=True)
    assert verdict(member(), member(broken, name="torch_shm_manager")).answer == "ok"


def test_torchrun_is_told_apart_since_no_line_helps_it() -> None:
    found = verdict(member(held(5, "anonymous", "anon_inode:[io_uring]"), name="pt_elastic"))
    assert found.answer == "self_save_only"
    assert "start the ranks without torchrun" in found.reasons[0]
    assert found.restart_line is None


@pytest.mark.parametrize("library", ["/venv/torch/lib/libtorch_cpu.so", "/usr/lib/libother.so"])
@pytest.mark.parametrize("outside", [False, True])
def test_ranks_that_talk_over_the_nodes_address_are_told_to_use_the_loopback(
    library: str, outside: bool
) -> None:
    mine, yours = "0200A80A:1F90", "0200A80A:A000"
    sockets = [
        Socket(1, "tcp", connected=True, address=mine, peer=yours),
        Socket(2, "tcp", connected=True, address=yours, peer=mine),
    ]
    if outside:
        sockets.append(Socket(3, "tcp", connected=True, address="0200A80A:A001", peer="0300A80A:0050"))
    assert by_own_address(sockets) is not outside
    found = verdict(
        member(mappings=(Mapping(library, False, False, False, 1, 1, 2),)), sockets=tuple(sockets)
    )
    if "torch" in library and not outside:
        assert found.answer == "needs_restart"
        assert (found.restart_line or "").startswith("GLOO_SOCKET_IFNAME=lo MASTER_ADDR=127.0.0.1 python ")
    else:
        assert found.answer == "ok"
        assert "come back closed" in found.reasons[0]


def test_over_the_loopback_nothing_is_asked() -> None:
    mine, yours = "0100007F:1F90", "0100007F:A000"
    sockets = (
        Socket(1, "tcp", connected=True, address=mine, peer=yours),
        Socket(2, "tcp", connected=True, address=yours, peer=mine),
    )
    assert not by_own_address(sockets)
    assert not by_own_address(())

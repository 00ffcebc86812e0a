"""From what a job has open: CRIU's options for it, and whether it can be saved and brought back. Pure.

Options for what may appear at any moment (a TCP connection, a lock, a deleted file) are always given; those that
change how a job is treated (terminal, outside sockets, watches) only where the look at it says so.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.clean import clean
from backends.engines.explain import explain
from backends.engines.open_files import Plan
from backends.engines.port import Answer, Verdict
from backends.engines.proc import Descriptor, Member, Tree
from backends.engines.system.sockets import Socket, among_themselves, by_own_address
from backends.records.job import Job

ROOM_BYTES = 64 << 20  # left free on the staging disk beyond what a save needs
GENERATIONS = 2  # of saves that a store holds at a time, whatever retention keeps
GHOST_BYTES = 512 << 20  # deleted files up to this size are always taken; CRIU's own default is 1 MiB
_PLAIN_DEVICES = {
    (1, 3),
    (1, 5),
    (1, 7),
    (1, 8),
    (1, 9),
    (5, 0),
    (5, 2),
    (10, 200),
}  # null zero full random tty ptmx tun
_SUPPORTED_ANONYMOUS = (
    "[eventfd]",
    "[eventpoll]",
    "[signalfd]",
    "[timerfd]",
    "inotify",
    "[fanotify]",
    "[pidfd]",
)
WORST: tuple[Answer, ...] = ("ok", "needs_restart", "self_save_only", "impossible")


@dataclass(frozen=True)
class Options:
    """What CRIU is told for one job; dump and restore must agree, so the choice travels with the save."""

    shell_job: bool = False  # the root leads no session, or a terminal's other end is outside
    external_unix: bool = False  # datagram sockets of host services such as the system log
    irmap_paths: tuple[str, ...] = ()  # where watched files are looked for; empty: no inotify
    ghost_bytes: int = GHOST_BYTES
    own_tcp: bool = False  # its TCP connections are all among its own processes, and go on

    def dump(self) -> list[str]:
        """Options of `criu dump`."""
        options = [
            "--leave-running", self._tcp(), "--skip-in-flight", "--network-lock", "skip", "--file-locks",
            "--link-remap", "--ghost-limit", str(self.ghost_bytes), "--manage-cgroups=ignore",
        ]  # fmt: skip
        return options + self._common() + self._irmap()

    def restore(self) -> list[str]:
        """Options of `criu restore`."""
        options = [
            self._tcp(),
            "--network-lock",
            "skip",
            "--file-locks",
            "--link-remap",
            "--manage-cgroups=ignore",
        ]
        return options + self._common()

    def _tcp(self) -> str:
        return "--tcp-established" if self.own_tcp else "--tcp-close"

    def _common(self) -> list[str]:
        return ["--shell-job"] * self.shell_job + ["--ext-unix-sk"] * self.external_unix

    def _irmap(self) -> list[str]:
        paths = [word for path in self.irmap_paths for word in ("--irmap-scan-path", path)]
        return ["--force-irmap", *paths] if paths else []

    def document(self) -> dict[str, Any]:
        """The part that a restore needs, as it travels in `Saved.details`."""
        return {
            "shell_job": self.shell_job,
            "external_unix": self.external_unix,
            "own_tcp": self.own_tcp,
        }

    @classmethod
    def of_document(cls, document: dict[str, Any]) -> Options:
        """Read `document` back; anything but true counts as false."""
        return cls(
            document.get("shell_job") is True,
            document.get("external_unix") is True,
            own_tcp=document.get("own_tcp") is True,
        )


def choose(tree: Tree, sockets: Iterable[Socket]) -> Options:
    """The options for this tree as it is now."""
    held = [d for m in tree.members for d in m.descriptors]
    ghosts = [d.size for d in held if d.deleted and d.kind == "file"]
    largest = max(ghosts, default=0)
    sockets = list(sockets)
    return Options(
        shell_job=tree.root.session != tree.root.pid or bool(outside_terminals(tree)),
        external_unix=any(s.family == "unix" and s.outside_peer and s.datagram for s in sockets),
        irmap_paths=_watched_places(tree) if _watches(tree) else (),
        ghost_bytes=max(GHOST_BYTES, 2 * largest),
        own_tcp=among_themselves(sockets),
    )


def _watches(tree: Tree) -> bool:
    held = (d for m in tree.members for d in m.descriptors)
    return any(line.startswith("inotify ") for d in held for line in d.extra.splitlines())


def _watched_places(tree: Tree) -> tuple[str, ...]:
    places = {m.cwd for m in tree.members}
    for member in tree.members:
        for descriptor in member.descriptors:
            if descriptor.kind == "directory":
                places.add(descriptor.path)
            elif descriptor.kind == "file" and not descriptor.deleted:
                places.add(str(Path(descriptor.path).parent))
    return tuple(sorted(place for place in places if place.startswith("/") and place != "/"))


def outside_terminals(tree: Tree) -> set[str]:
    """Terminals that the tree holds while their other end belongs to somebody else (ssh, tmux, screen)."""
    held = [d for m in tree.members for d in m.descriptors if d.kind == "tty"]
    masters = {
        f"/dev/pts/{match.group(1)}"
        for d in held
        if d.path.endswith("ptmx") and (match := re.search(r"tty-index:\s*(\d+)", d.extra))
    }
    return {d.path for d in held if not d.path.endswith("ptmx") and d.path not in masters}


@dataclass(frozen=True)
class Finding:
    """One thing that matters for saving the job."""

    answer: Answer
    reason: str
    assignments: tuple[str, ...] = ()  # environment to restart with
    redirect: bool = False  # restart detached, with its output in a file
    cured: bool = False  # the reason says what ends it without a restart


def judge(
    job: Job,
    tree: Tree,
    sockets: Iterable[Socket],
    plan: Plan,
    *,
    namespaces: dict[str, str],
    arguments: list[str],
    copy_limit_bytes: int,
    resource_right: bool = True,
    free_bytes: int | None = None,
    store_free_bytes: int | None = None,
) -> Verdict:
    """Whether CRIU can save this job and bring it back.

    It must live in `namespaces`: the guard's, or those of its own init after a restore. `arguments` is the root's
    command line, for the line to restart with. Captured files beyond `copy_limit_bytes` need reflinks.
    `resource_right`: whether we have CAP_SYS_RESOURCE. `free_bytes` of the staging disk, `store_free_bytes`
    of the disk that the store is on; None when unknown, or where the store is no directory.
    """
    found = [
        *_of_namespaces(tree, namespaces),
        *_of_members(tree),
        *_of_sockets(tree, sockets),
        *_of_files(tree),
    ]
    needed = needed_bytes(tree, plan)
    stored = needed - ROOM_BYTES
    if free_bytes is not None and free_bytes < needed:
        found.append(
            Finding(
                "impossible",
                f"a save needs {needed / 2**20:.0f} MiB on the staging disk, {free_bytes / 2**20:.0f} MiB are free: "
                f"free space there",
            )
        )
    if store_free_bytes is not None and store_free_bytes < GENERATIONS * stored:
        found.append(Finding("ok", _store_word(store_free_bytes, stored, job.keep_last)))
    if not resource_right and any(m.uid != 0 for m in tree.members):
        cause = explain("Error: Can't get rlimit")
        found.append(Finding("impossible", f"{cause.reason}: {cause.remedy}"))
    if plan.size_bytes > copy_limit_bytes:
        text = f"{plan.size_bytes / 2**30:.1f} GiB of files travel with each save: without reflink the pause is too long"
        found.append(Finding("ok", text))
    found += [Finding("ok", f"{path} does not travel: {why}") for path, why in plan.skipped]
    answers = {finding.answer for finding in found}
    worst: Answer = next((answer for answer in reversed(WORST) if answer in answers), "ok")
    reasons = dict.fromkeys(f.reason for f in sorted(found, key=lambda f: -WORST.index(f.answer)))
    restart = worst == "needs_restart" and any(f.answer == worst and not f.cured for f in found)
    line = restart_line(job, arguments, found) if restart else None
    return Verdict(worst, tuple(reasons), line, "criu")


def _store_word(free_bytes: int, each_bytes: int, keep_last: int) -> str:
    """No older save is removed before the newer one is verified: there are two of them for a while, whatever is kept."""
    return (
        f"the store's disk has {free_bytes / 2**20:.0f} MiB free, two saves of up to {each_bytes / 2**20:.0f} MiB each "
        f"lie there at a time (keep_last is {keep_last}; the older one stays until the newer one is verified): free space there"
    )


def needed_bytes(tree: Tree, plan: Plan, *, shared: bool = False) -> int:
    """What a save takes on the staging disk at most: memory, deleted files, captured files unless blocks are shared."""
    ghosts = sum(d.size for m in tree.members for d in m.descriptors if d.deleted and d.kind == "file")
    files = 0 if shared else plan.size_bytes
    return sum(m.resident_bytes for m in tree.members) + ghosts + files + ROOM_BYTES


def restart_line(job: Job, arguments: list[str], findings: Iterable[Finding]) -> str:
    """The line to type instead of the one that started the job."""
    findings = list(findings)
    words = list(job.command) or arguments
    assignments = dict.fromkeys(a for f in findings for a in f.assignments)
    text = " ".join([*assignments, shlex.join(words)]) if words else " ".join([*assignments, "COMMAND"])
    if any(f.redirect for f in findings):
        text = f"{' '.join(assignments)} setsid -f {shlex.join(words)} </dev/null >job.log 2>&1".strip()
    return clean(text, limit=4096)


def _of_namespaces(tree: Tree, expected: dict[str, str]) -> Iterator[Finding]:
    names = {"mnt": "mount", "pid": "process id", "net": "network", "user": "user", "ipc": "IPC"}
    for kind, name in names.items():
        if any(m.namespaces.get(kind, "") not in ("", expected.get(kind, "")) for m in tree.members):
            yield Finding(
                "self_save_only",
                f"the job lives in its own {name} namespace (a container): save it through its container "
                f"runtime's engine, or let it save itself",
            )
            return


def _of_members(tree: Tree) -> Iterator[Finding]:
    for member in tree.members:
        who = f"process {member.outer_pid} ({member.name})"
        if not member.readable:
            yield Finding("impossible", f"{who} cannot be looked into: run the guard as root")
        if member.tracer:
            yield Finding(
                "impossible",
                f"{who} is traced by process {member.tracer}: end the debugger or save under way",
            )
        if member.readable and member.session == 0:
            yield Finding(
                "needs_restart",
                explain("Error: A session leader of 1(1) is outside of its pid").reason,
                redirect=True,
            )
        if member.state == "D":
            yield Finding("ok", f"{who} waits inside the kernel (state D): the pause starts when it returns")
        yield from _of_mappings(member, who)
        for descriptor in member.descriptors:
            yield from _of_descriptor(descriptor, member.name, who)
    if _watches(tree):
        yield Finding(
            "ok",
            "it watches files (inotify): an event that waits unread at a save is lost when that save comes back",
        )
    if outside := outside_terminals(tree):
        yield Finding(
            "ok", f"it holds the terminal {', '.join(sorted(outside))}: it comes back on a new one, in a log"
        )


def _of_mappings(member: Member, who: str) -> Iterator[Finding]:
    for mapping in member.mappings:
        if "io_uring" in mapping.path:
            yield _io_uring(member.name, who)
        elif mapping.path.startswith("/SYSV"):
            yield Finding(
                "self_save_only",
                f"{who} uses System V shared memory, which CRIU saves only with a whole IPC namespace: "
                f"use POSIX shared memory, or let it save itself",
            )
        elif mapping.path.startswith(("/dev/nvidia", "/dev/dri", "/dev/kfd")):
            yield _gpu(who, mapping.path)
        elif mapping.path.startswith("/dev/infiniband"):
            yield Finding("self_save_only", f"{who} maps {clean(mapping.path)}: RDMA memory cannot be saved")


def _of_descriptor(descriptor: Descriptor, name: str, who: str) -> Iterator[Finding]:
    path = clean(descriptor.path)
    if descriptor.kind == "anonymous":
        if "io_uring" in descriptor.path:
            yield _io_uring(name, who)
        elif not any(kind in descriptor.path for kind in _SUPPORTED_ANONYMOUS):
            yield Finding("self_save_only", f"{who} holds {path}, which CRIU cannot save: let it save itself")
    elif descriptor.kind == "device":
        number = (descriptor.rdev >> 8 & 0xFFF, descriptor.rdev & 0xFF)
        if path.startswith(("/dev/nvidia", "/dev/dri", "/dev/kfd")):
            yield _gpu(who, path)
        elif number not in _PLAIN_DEVICES:
            yield Finding("self_save_only", f"{who} holds the device {path}, which CRIU cannot save")


def _uses_torch(tree: Tree) -> bool:
    return any("/libtorch" in mapping.path for m in tree.members for mapping in m.mappings)


def _io_uring(name: str, who: str) -> Finding:
    if name == "pt_elastic":  # as torchrun calls its own process
        return Finding(
            "self_save_only",
            f"{who} is torchrun, whose own store uses io_uring whatever USE_LIBUV says: start the ranks without "
            f"torchrun (torch.multiprocessing.spawn, or RANK, WORLD_SIZE and MASTER_ADDR in their environment) and "
            f"with USE_LIBUV=0, or let the job save itself",
        )
    return Finding(
        "needs_restart",
        f"{who} uses io_uring, which CRIU cannot save: restart it without",
        ("USE_LIBUV=0", "UV_USE_IO_URING=0"),
    )


def _gpu(who: str, path: str) -> Finding:
    return Finding(
        "self_save_only",
        f"{who} holds the GPU device {clean(path)}: use engine criu-cuda, or let it save itself",
    )


def _of_sockets(tree: Tree, sockets: Iterable[Socket]) -> Iterator[Finding]:
    sockets = list(sockets)
    attached = any(s.family == "unix" and s.outside_peer and not s.datagram for s in sockets)
    if attached and any(m.name.startswith("tmux: server") for m in tree.members):
        yield Finding(
            "needs_restart",
            "a tmux client is attached to its server, and the connection to it cannot be saved: detach every client "
            "(Ctrl-B d, or `tmux detach-client -a` and then Ctrl-B d) and ask again; nothing needs to be restarted",
            cured=True,
        )
    elif attached:
        yield Finding(
            "needs_restart",
            "it holds a stream unix socket whose other end is another program (the journal, an agent): "
            "restart it with its output in a file",
            redirect=True,
        )
    if any(s.family == "unix" and s.outside_peer and s.datagram for s in sockets):
        yield Finding(
            "ok", "it holds a datagram socket of a host service: the service must exist where it comes back"
        )
    if among_themselves(sockets):
        yield Finding("ok", "its TCP connections among its own processes go on where it comes back")
    elif by_own_address(sockets) and _uses_torch(tree):
        yield Finding(
            "needs_restart",
            "its processes are connected over an address that only this node has: restart it so that they use "
            "the loopback, where connections among themselves go on after a move",
            ("GLOO_SOCKET_IFNAME=lo", "MASTER_ADDR=127.0.0.1"),
        )
    elif any(s.family == "tcp" and s.connected for s in sockets):
        yield Finding("ok", "its TCP connections come back closed: the job must reconnect")


def _of_files(tree: Tree) -> Iterator[Finding]:
    readers = {d.inode for m in tree.members for d in m.descriptors if d.kind == "pipe" and d.flags & 3 == 0}
    outputs = {
        d.inode
        for m in tree.members
        for d in m.descriptors
        if d.kind == "pipe" and d.number in (1, 2) and d.flags & 3 == 1 and not d.unread
    }
    if outputs - readers:
        yield Finding(
            "needs_restart",
            "its output is a pipe to another program: nobody would read it after a restore, and the job would end",
            redirect=True,
        )

"""What a process tree has open, read from /proc: tolerant of processes that vanish while we look.

Paths are kept as the kernel gives them (they are opened again later); they are cleaned where a message is made.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import stat as stat_module
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from backends.clean import clean

Kind = Literal[
    "file", "directory", "device", "tty", "fifo", "pipe", "socket", "anonymous", "memfd", "unknown"
]
_CHILDREN_FILE = Path("/proc/thread-self/children")
CAP_SYS_RESOURCE = 24
_DELETED = " (deleted)"
_MAP = re.compile(
    r"([0-9a-f]+)-([0-9a-f]+) ([r-])([w-])([x-])([ps]) [0-9a-f]+ ([0-9a-f]+):([0-9a-f]+) (\d+) *(.*)"
)


@dataclass(frozen=True)
class Stat:
    """The fields of /proc/PID/stat we use; a process is (pid, start_ticks), never the pid alone."""

    pid: int
    name: str  # cleaned
    state: str  # R S D T t Z X I
    ppid: int
    cpu_ticks: int  # user and system time
    start_ticks: int  # clock ticks since boot


@dataclass(frozen=True)
class Descriptor:
    """One open file of a process."""

    number: int
    kind: Kind
    path: str  # as the kernel names it, without the deleted mark
    flags: int  # O_ flags
    deleted: bool
    inode: int
    device: int  # st_dev
    rdev: int
    size: int  # bytes
    links: int
    extra: str = ""  # fdinfo's further lines: locks, inotify watches, the tty's peer
    unread: bool = False  # a pipe for output (1, 2) that no process at all can read any more


@dataclass(frozen=True)
class Mapping:
    """One file-backed or named memory mapping."""

    path: str
    shared: bool
    writable: bool
    deleted: bool
    inode: int
    start: int
    end: int


@dataclass(frozen=True)
class Member:
    """One process of a job's tree; ids without `outer` are those of its own PID namespace."""

    outer_pid: int
    start_ticks: int
    pid: int
    session: int
    group: int
    threads: tuple[int, ...]
    name: str
    state: str
    uid: int
    gid: int
    tracer: int  # outer pid of who traces it, 0 for nobody
    cwd: str
    namespaces: dict[str, str]  # mnt, pid, net, ipc, user → the kernel's name of each
    resident_bytes: int  # anonymous and shared memory that an image will hold
    descriptors: tuple[Descriptor, ...]
    mappings: tuple[Mapping, ...]
    readable: bool = True  # False: we may not look into it; an empty list says nothing then

    def open_path(self, descriptor: Descriptor) -> Path:
        """A path that opens the very file behind `descriptor`, whatever its name is now."""
        return Path(f"/proc/{self.outer_pid}/fd/{descriptor.number}")


@dataclass(frozen=True)
class Tree:
    """A job's process tree at one moment; empty when its root is gone."""

    members: tuple[Member, ...]

    @property
    def root(self) -> Member:
        """The job's root process."""
        return self.members[0]


def parse_stat(data: bytes) -> Stat:
    """Read one stat line; names may hold blanks, brackets and newlines. Raises ValueError for anything else."""
    left, right = data.index(b"("), data.rindex(b")")
    fields = data[right + 2 :].split()
    if len(fields) < 20:
        raise ValueError(f"a stat line with {len(fields)} fields after the name; at least 20 expected")
    return Stat(
        pid=int(data[:left]),
        name=clean(data[left + 1 : right]),
        state=fields[0].decode("ascii", "replace"),
        ppid=int(fields[1]),
        cpu_ticks=int(fields[11]) + int(fields[12]),
        start_ticks=int(fields[19]),
    )


def read_stat(pid: int) -> Stat | None:
    """The stat line of `pid`; None when it is gone."""
    try:
        return parse_stat(Path(f"/proc/{pid}/stat").read_bytes())
    except (OSError, ValueError):
        return None


def parse_arguments(data: bytes) -> list[bytes]:
    """The arguments in a /proc/PID/cmdline, as bytes: any byte may occur, empty ones count."""
    return data[:-1].split(b"\0") if data.endswith(b"\0") else data.split(b"\0") if data else []


def children() -> dict[int, list[int]]:
    """Parent pid → child pids of everything visible."""
    result: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - a plain list of names is what is wanted
        if entry.isdigit() and (found := read_stat(int(entry))) is not None:
            result.setdefault(found.ppid, []).append(found.pid)
    return result


def tree_pids(root: int) -> list[int]:
    """`root` and all its descendants, parents first; only `root` when it has none."""
    result = [root]
    if not _CHILDREN_FILE.exists():
        by_parent = children()
        for pid in result:
            result += sorted(by_parent.get(pid, []))
        return result
    for pid in result:
        result += sorted(_children_of(pid))
    return result


def _children_of(pid: int) -> list[int]:
    """The children of all threads of `pid`, by the kernel's own list: quick, however many processes there are."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError, ValueError):
            found += [int(word) for word in path.read_text("ascii").split()]
    return found


def status_fields(pid: int) -> dict[str, str]:
    """The lines of /proc/PID/status as a table; empty when the process is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}


def has_capability(number: int) -> bool:
    """Whether this process has the Linux capability `number` in effect."""
    return bool(int(status_fields(os.getpid()).get("CapEff", "0"), 16) >> number & 1)


def read_tree(root: int) -> Tree:
    """Everything the tree under `root` has open; processes that vanish meanwhile are left out."""
    members = (read_member(pid) for pid in tree_pids(root))
    return Tree(tuple(member for member in members if member is not None))


def read_member(pid: int) -> Member | None:
    """One process with its descriptors and mappings; None when it is gone or a zombie."""
    found = read_stat(pid)
    status = status_fields(pid)
    if found is None or not status or found.state in "ZX":
        return None
    base = Path(f"/proc/{pid}")
    readable = (
        os.access(base / "map_files", os.X_OK) if os.geteuid() == 0 else os.access(base / "fd", os.R_OK)
    )
    return Member(
        outer_pid=pid,
        start_ticks=found.start_ticks,
        pid=_last(status, "NSpid", pid),
        session=_last(status, "NSsid", 0),
        group=_last(status, "NSpgid", 0),
        threads=_threads(base),
        name=found.name,
        state=found.state,
        uid=int(status.get("Uid", "0").split()[0]),
        gid=int(status.get("Gid", "0").split()[0]),
        tracer=int(status.get("TracerPid", "0")),
        cwd=_link(base / "cwd"),
        namespaces={name: _link(base / "ns" / name) for name in ("mnt", "pid", "net", "ipc", "user")},
        resident_bytes=1024 * (_kib(status, "RssAnon") + _kib(status, "RssShmem") + _kib(status, "VmSwap")),
        descriptors=_descriptors(base),
        mappings=_mappings(base),
        readable=readable,
    )


def _last(status: dict[str, str], key: str, default: int) -> int:
    words = status.get(key, "").split()
    return int(words[-1]) if words else default


def _kib(status: dict[str, str], key: str) -> int:
    words = status.get(key, "").split()
    return int(words[0]) if words else 0


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _threads(base: Path) -> tuple[int, ...]:
    found = []
    try:
        names = sorted(os.listdir(base / "task"), key=int)  # noqa: PTH208 - a plain list of names
    except OSError:
        return ()
    for name in names:
        try:
            text = (base / "task" / name / "status").read_text("utf-8", "replace")
        except OSError:
            continue
        match = re.search(r"^NSpid:\s*(.*)$", text, re.MULTILINE)
        found.append(int(match.group(1).split()[-1]) if match else int(name))
    return tuple(found)


def _descriptors(base: Path) -> tuple[Descriptor, ...]:
    try:
        names = sorted(os.listdir(base / "fd"), key=int)  # noqa: PTH208 - a plain list of names
    except OSError:
        return ()
    found = (_descriptor(base, name) for name in names)
    return tuple(item for item in found if item is not None)


def _descriptor(base: Path, name: str) -> Descriptor | None:
    try:
        target = str((base / "fd" / name).readlink())
        facts = (base / "fd" / name).stat()
        info = (base / "fdinfo" / name).read_text("utf-8", "replace")
    except OSError:
        return None
    flags = re.search(r"^flags:\s*([0-7]+)", info, re.MULTILINE)
    deleted = target.endswith(_DELETED) and (facts.st_nlink == 0 or not _same(target, facts))
    extra = [line for line in info.splitlines() if line.startswith(("lock:", "inotify ", "tty-index:"))]
    kind = _kind(target, facts)
    return Descriptor(
        number=int(name),
        kind=kind,
        path=target.removesuffix(_DELETED) if deleted else target,
        flags=int(flags.group(1), 8) if flags else 0,
        deleted=deleted,
        inode=facts.st_ino,
        device=facts.st_dev,
        rdev=facts.st_rdev,
        size=facts.st_size,
        links=facts.st_nlink,
        extra="\n".join(extra),
        unread=kind == "pipe" and name in ("1", "2") and _unread(base / "fd" / name),
    )


def _unread(pipe: Path) -> bool:
    """Whether a pipe has no reader, in this tree or anywhere: the kernel then calls its other end broken."""
    try:
        opened = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        waiting = select.poll()
        waiting.register(opened, select.POLLOUT)
        return any(event & select.POLLERR for _, event in waiting.poll(0))
    finally:
        os.close(opened)


def _same(target: str, facts: os.stat_result) -> bool:
    """Whether a file is really called `… (deleted)`."""
    try:
        there = Path(target).stat()
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (facts.st_dev, facts.st_ino)


def _kind(target: str, facts: os.stat_result) -> Kind:
    if target.startswith("/memfd:"):
        return "memfd"
    if target.startswith("anon_inode:"):
        return "anonymous"
    mode = facts.st_mode
    if stat_module.S_ISREG(mode):
        return "file"
    if stat_module.S_ISDIR(mode):
        return "directory"
    if stat_module.S_ISFIFO(mode):
        return "pipe" if target.startswith("pipe:") else "fifo"
    if stat_module.S_ISSOCK(mode):
        return "socket"
    if stat_module.S_ISCHR(mode) or stat_module.S_ISBLK(mode):
        major = os.major(facts.st_rdev)
        return (
            "tty"
            if major in (4, 136, 137, 138, 139, 140, 141, 142, 143)
            or target in ("/dev/ptmx", "/dev/pts/ptmx")
            else "device"
        )
    return "unknown"


def parse_map(line: str) -> Mapping | None:
    """One line of /proc/PID/maps that names something; None for anonymous memory and odd lines."""
    match = _MAP.fullmatch(line)
    if match is None or not match.group(10) or match.group(10).startswith("["):
        return None
    path = match.group(10).replace("\\012", "\n")
    deleted = path.endswith(_DELETED)
    return Mapping(
        path=path.removesuffix(_DELETED) if deleted else path,
        shared=match.group(6) == "s",
        writable=match.group(4) == "w",
        deleted=deleted,
        inode=int(match.group(9)),
        start=int(match.group(1), 16),
        end=int(match.group(2), 16),
    )


def _mappings(base: Path) -> tuple[Mapping, ...]:
    try:
        text = (base / "maps").read_bytes()
    except OSError:
        return ()
    found = (parse_map(os.fsdecode(line)) for line in text.split(b"\n"))
    return tuple(item for item in found if item is not None)

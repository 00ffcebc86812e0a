"""Which files travel with a save, and copying them while the job stands still.

CRIU images hold no file contents: a file that goes on after the save would make the restored job repeat lines
or refuse to start. So files that the job writes, shared mappings, files in volatile places, and the job's
declared `files` are captured at the freeze and rolled back before a restore (architecture decision 15).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from backends.clean import clean
from backends.engines.port import OpenFile
from backends.engines.proc import Descriptor, Mapping, Member, Tree
from backends.engines.system.copying import copy_contents
from backends.engines.system.sockets import Socket
from backends.errors import EngineError

COPY_LIMIT_BYTES = 1 << 30  # more than this without reflink makes the pause too long to take unasked
COPY_RATE_BYTES_PER_S = 400 << 20  # a cautious rate to tell the added pause by
NETWORK_FILE_SYSTEMS = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "9p", "afs", "ocfs2",
    "gfs2", "orangefs", "pvfs2", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.goofys", "fuse.rclone",
    "fuse.glusterfs", "fuse.juicefs", "fuse.mount-s3", "fuse.blobfuse2", "fuse.ceph-fuse", "fuse.moosefs",
})  # fmt: skip
VOLATILE_PLACES = ("/tmp/", "/var/tmp/", "/dev/shm/", "/run/")  # gone on another node, also when only read
TORCH_HELPER = "torch_shm_manag"  # as the kernel cuts its name
REMAP_PREFIX = "link_remap."  # names that CRIU gives to deleted files with other links


@dataclass(frozen=True)
class Mount:
    """One line of a process's mountinfo."""

    point: str
    kind: str  # file system type
    read_only: bool = False


@dataclass(frozen=True)
class Wanted:
    """A file to capture: where it is named, and a path that opens it surely."""

    path: str
    source: Path
    origin: Literal["open", "declared"]


@dataclass(frozen=True)
class Plan:
    """What a capture will take, before it takes it."""

    files: tuple[Wanted, ...]
    skipped: tuple[tuple[str, str], ...] = ()  # path, reason
    size_bytes: int = 0


@dataclass(frozen=True)
class Captured:
    """What a capture took."""

    files: tuple[OpenFile, ...]
    surroundings: dict[str, Any]  # directories, fifos, symlinks: recreated at restore where missing
    skipped: tuple[tuple[str, str], ...] = ()
    size_bytes: int = 0
    copied_bytes: int = 0  # without those that a reflink took
    details: dict[str, Any] = field(default_factory=dict)


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """Read /proc/PID/mountinfo; odd lines are left out."""
    result = []
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        words, kinds = left.split(" "), right.split(" ")
        if separator and len(words) > 5:
            point = words[4]
            for code, char in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
                point = point.replace(code, char)
            options = {*words[5].split(","), *(kinds[2].split(",") if len(kinds) > 2 else ())}
            result.append(Mount(point, kinds[0], "ro" in options))
    return tuple(result)


def read_mounts(pid: int | str = "self") -> tuple[Mount, ...]:
    """The mounts that `pid` sees; empty when it is gone."""
    try:
        return parse_mounts(Path(f"/proc/{pid}/mountinfo").read_text("utf-8", "surrogateescape"))
    except OSError:
        return ()


def mount_of(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """The mount that holds `path`; None when unknown. Later mounts hide earlier ones."""
    best, found = -1, None
    for mount in mounts:
        point = mount.point.rstrip("/")
        if (path == point or path.startswith(point + "/")) and len(point) >= best:
            best, found = len(point), mount
    return found


def file_system(path: str, mounts: Iterable[Mount]) -> str:
    """The type of the file system that holds `path`; empty when unknown."""
    found = mount_of(path, mounts)
    return "" if found is None else found.kind


def on_network(path: str, mounts: Iterable[Mount]) -> bool:
    """Whether others may share the file: it lies on a network file system."""
    return file_system(path, mounts) in NETWORK_FILE_SYSTEMS


def plan_capture(
    tree: Tree, declared: Iterable[str], mounts: tuple[Mount, ...], *, rollback: bool, base: str = ""
) -> Plan:
    """Choose what travels: files the tree writes or maps, volatile ones it reads, and the declared paths.

    `declared` are the job's `files`: directories are taken with all below them, relative ones are under `base`.
    With `rollback` files on network file systems are taken too.
    """
    chosen: dict[str, Wanted] = {}
    skipped: dict[str, str] = {}
    found = [w for m in tree.members for w in _of_member(m, mounts)] + list(_remaps(tree))
    found += list(_handed_over(tree))
    found += list(_declared(declared, base, skipped))
    for item in found:
        if item.path in chosen:
            continue
        if not rollback and on_network(item.path, mounts):
            skipped[item.path] = f"it lies on {file_system(item.path, mounts)}, which others may share"
        elif not _is_text(item.path):
            skipped[item.path] = "its name is not UTF-8"
        else:
            chosen[item.path] = item
    size = sum(_allocated(item.source) for item in chosen.values())
    return Plan(tuple(chosen.values()), tuple((clean(k), v) for k, v in skipped.items()), size)


def _of_member(member: Member, mounts: tuple[Mount, ...]) -> Iterator[Wanted]:
    for descriptor in member.descriptors:
        if descriptor.kind == "file" and not descriptor.deleted and _travels(descriptor, mounts):
            yield Wanted(descriptor.path, member.open_path(descriptor), "open")
    for mapping in member.mappings:
        if _maps_travel(mapping, mounts):
            source = Path(f"/proc/{member.outer_pid}/map_files/{mapping.start:x}-{mapping.end:x}")
            yield Wanted(mapping.path, source, "open")


def _travels(descriptor: Descriptor, mounts: tuple[Mount, ...]) -> bool:
    writing = descriptor.flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR)
    return (writing or _volatile(descriptor.path, mounts)) and not descriptor.path.startswith(
        ("/proc/", "/sys/")
    )


def _maps_travel(mapping: Mapping, mounts: tuple[Mount, ...]) -> bool:
    if mapping.deleted or mapping.inode == 0 or not mapping.path.startswith("/"):
        return False
    if mapping.path.startswith(("/dev/zero", "/memfd:", "/SYSV", "/proc/", "/sys/")):
        return False
    if mapping.path.startswith("/dev/") and not mapping.path.startswith("/dev/shm/"):
        return False
    return (mapping.shared and mapping.writable) or _volatile(mapping.path, mounts)


def _volatile(path: str, mounts: tuple[Mount, ...]) -> bool:
    """Whether a file that is only read may be missing on another node; what nobody here can change may not."""
    found = mount_of(path, mounts)
    if found is not None and found.read_only:
        return False
    return path.startswith(VOLATILE_PLACES) or file_system(path, mounts) in ("tmpfs", "ramfs")


def _remaps(tree: Tree) -> Iterator[Wanted]:
    """The link_remap files that a dump just made for deleted files with other links."""
    lost = {
        (d.device, d.inode): str(Path(d.path).parent)
        for m in tree.members
        for d in m.descriptors
        if d.kind == "file" and d.deleted and d.links > 0
    }
    folders = set(lost.values()) | {
        str(Path(p.path).parent)
        for m in tree.members
        for p in m.mappings
        if p.deleted and p.path.startswith("/dev/shm/")
    }
    for folder in sorted(folders):
        try:
            entries = [entry for entry in os.scandir(folder) if entry.name.startswith(REMAP_PREFIX)]
        except OSError:
            continue
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.is_file(follow_symlinks=False):
                yield Wanted(entry.path, Path(entry.path), "open")


def _handed_over(tree: Tree, folder: str = "/dev/shm") -> Iterator[Wanted]:
    """PyTorch's shared segments on their way from one process to another.

    A worker closes a segment once its name is in the queue; until the other end takes it from there nobody has it
    open, only PyTorch's helper knows it. It is named after the process that made it.
    """
    if not any(m.name == TORCH_HELPER for m in tree.members):
        return
    makers = {str(m.pid) for m in tree.members}
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False))
    except OSError:
        return
    for name in names:
        words = name.split("_")
        if words[0] == "torch" and len(words) > 2 and words[1] in makers:
            yield Wanted(f"{folder}/{name}", Path(folder) / name, "open")


def _declared(paths: Iterable[str], base: str, skipped: dict[str, str]) -> Iterator[Wanted]:
    for text in paths:
        start = Path(os.path.realpath(Path(base or "/") / text))
        if start.is_dir():
            for folder, names, files in os.walk(start):
                names.sort()
                for name in sorted(files):
                    path = Path(folder) / name
                    if path.is_file() and not path.is_symlink():
                        yield Wanted(str(path), path, "declared")
        elif start.is_file():
            yield Wanted(str(start), start, "declared")
        else:
            skipped[str(start)] = "it is declared in the job's files and does not exist"


def _is_text(path: str) -> bool:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _allocated(path: Path) -> int:
    try:
        facts = path.stat()
    except OSError:
        return 0
    return min(facts.st_size, facts.st_blocks * 512)


def check_size(plan: Plan, limit_bytes: int, *, reflinks: bool) -> None:
    """Raise EngineError with the added pause when the files are too large to copy during a freeze."""
    if reflinks or plan.size_bytes <= limit_bytes:
        return
    raise EngineError(
        f"the job's files hold {plan.size_bytes / 2**30:.1f} GiB and this file system cannot share blocks "
        f"(reflink); copying them adds about {plan.size_bytes / COPY_RATE_BYTES_PER_S:.0f} s to each pause, "
        f"at most {limit_bytes / 2**30:g} GiB are taken unasked",
        hint="accept the pause, declare fewer files, or move them to XFS or Btrfs",
    )


def capture(
    plan: Plan,
    target: Path,
    tree: Tree,
    sockets: Iterable[Socket],
    declared: Iterable[str] = (),
    check: Callable[[], None] = lambda: None,
) -> Captured:
    """Copy the planned files into `target` (0700) as they are now; the job must stand still.

    `check` is called every few MiB and may raise EngineError to end it.

    Raises:
        EngineError: a file cannot be read or the staging disk is full.
    """
    files: list[OpenFile] = []
    total = copied = 0
    skipped = list(plan.skipped)
    for item in plan.files:
        try:
            taken = _take(item, target / f"{len(files):05d}", check)
        except FileNotFoundError:
            skipped.append((clean(item.path), "it vanished before it could be copied"))
            continue
        except OSError as error:
            raise EngineError(
                f"file {clean(item.path)} cannot be captured: {clean(error.strerror)}",
                hint="free space on the staging disk, or make the file readable for the guard",
            ) from None
        files.append(taken[0])
        total += taken[0].size
        copied += taken[1]
    around = surroundings(tree, sockets, [item.path for item in files], declared)
    return Captured(tuple(files), around, tuple(skipped), total, copied)


def _take(item: Wanted, copy: Path, check: Callable[[], None]) -> tuple[OpenFile, int]:
    source = os.open(item.source, os.O_RDONLY | os.O_NONBLOCK)
    try:
        facts = os.fstat(source)
        target = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            how = copy_contents(source, target, facts.st_size, check)
        finally:
            os.close(target)
    finally:
        os.close(source)
    record = OpenFile(
        path=item.path,
        size=facts.st_size,
        mode=stat.S_IMODE(facts.st_mode),
        uid=facts.st_uid,
        gid=facts.st_gid,
        copy=copy.name,
        origin=item.origin,
    )
    return record, 0 if how == "reflink" else facts.st_size


def surroundings(
    tree: Tree, sockets: Iterable[Socket], files: Iterable[str], declared: Iterable[str] = ()
) -> dict[str, Any]:
    """Directories and named pipes that must exist where the job comes back, with mode and owner.

    Working directories, opened directories, and the parents of captured files, unix sockets and named pipes:
    without the last two a save that looked good does not restore. For `declared` directories (absolute paths) also
    empty ones and symbolic links.
    """
    held = [d for m in tree.members for d in m.descriptors if not d.deleted]
    fifos = sorted({d.path for d in held if d.kind == "fifo"})
    wanted = {m.cwd for m in tree.members} | {d.path for d in held if d.kind == "directory"}
    named = [*files, *fifos, *(s.path for s in sockets)]
    wanted |= {str(Path(path).parent) for path in named if path.startswith("/")}
    below = [(folder, names) for text in declared for folder, names in _folders(text)]
    wanted |= {folder for folder, _ in below}
    wanted = {path for path in wanted if path.startswith("/") and Path(path).is_dir() and _is_text(path)}
    chain = {str(parent) for path in wanted for parent in (Path(path), *Path(path).parents)} - {"/"}
    return {
        "directories": [entry for path in sorted(chain) if (entry := _described(path))],
        "fifos": [entry for path in fifos if (entry := _described(path))],
        "links": [entry for folder, names in below for name in names if (entry := _link(f"{folder}/{name}"))],
        "places": sorted(wanted),
    }


def _folders(start: str) -> Iterator[tuple[str, list[str]]]:
    """Each directory below `start` with all names in it; links are named and not followed."""
    for folder, folders, files in os.walk(os.path.realpath(start)):
        yield folder, sorted([*folders, *files])


def _link(path: str) -> dict[str, str] | None:
    try:
        target = str(Path(path).readlink())
    except OSError:
        return None
    return {"path": path, "target": target} if _is_text(path) and _is_text(target) else None


def _described(path: str) -> dict[str, Any] | None:
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    if stat.S_ISLNK(facts.st_mode) or not _is_text(path):
        return None
    return {"path": path, "mode": stat.S_IMODE(facts.st_mode), "uid": facts.st_uid, "gid": facts.st_gid}

"""The one module of the store that touches files: commit, retention and keys go through it.

Paths are relative to a root, `/`-separated, `""` is the root; no symbolic link below the root is followed. Every
method raises OSError with its errno, nothing else. `backends.fakes.fileops` has the two other implementations: one
fails at call n, one replays crashes; tests use them to stop the real code between any two operations.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat as stat_module
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

BLOCK = 4 << 20  # bytes moved at once
HURRY = 8 << 20  # bytes after which a file being written is handed to the disk
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Stat:
    """What is known of one name."""

    kind: str  # file | directory | other (links and devices)
    size: int  # bytes
    modified: float  # seconds since 1970 by the file system's clock
    mode: int  # permission bits


class FileOps(Protocol):
    """Operations on one tree of files; a handle is a number valid until closed."""

    def mkdir(self, path: str) -> None:
        """Make a directory, 0700; FileExistsError when the name is taken."""
        ...

    def create(self, path: str) -> int:
        """Make a file for writing, 0600; FileExistsError when the name is taken."""
        ...

    def open(self, path: str) -> int:
        """Open a regular file for reading."""
        ...

    def write(self, handle: int, data: bytes | bytearray | memoryview) -> None:
        """Append all of `data`."""
        ...

    def read(self, handle: int, length: int, offset: int) -> bytes:
        """Up to `length` bytes from `offset`; fewer only at the end of the file."""
        ...

    def sync(self, handle: int) -> None:
        """Bring the file's bytes to the disk; after an error its content is unknown: never sync it again."""
        ...

    def forget(self, handle: int) -> None:
        """Drop the file's clean pages from the cache, so that the next read comes from the disk; begin to write others."""
        ...

    def close(self, handle: int) -> None:
        """Give the handle back; never raises."""
        ...

    def link(self, source: str, target: str) -> None:
        """Give a file a second name; FileExistsError when the target is taken. Atomic."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Move a name over another. Atomic."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a name of a file."""
        ...

    def sync_dir(self, path: str) -> None:
        """Bring a directory's entries to the disk."""
        ...

    def list(self, path: str) -> list[tuple[str, Stat]]:
        """Names in a directory with what they are, in no order."""
        ...

    def stat(self, path: str) -> Stat | None:
        """What a path is; None when it does not exist."""
        ...


class RealOps:
    """The operating system's files below `root`; each path component is opened without following links."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))

    def mkdir(self, path: str) -> None:
        """Make a directory, 0700; for the root itself its parents too."""
        if not path:
            self._make_root(self.root)
            return
        with self._parent(path) as (directory, name):
            os.mkdir(name, 0o700, dir_fd=directory)

    def create(self, path: str) -> int:
        """Make a file for writing, 0600 whatever the umask."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._parent(path) as (directory, name):
            return os.open(name, flags, 0o600, dir_fd=directory)

    def open(self, path: str) -> int:
        """Open a regular file for reading."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        with self._parent(path) as (directory, name):
            handle = os.open(name, flags, dir_fd=directory)
        if not stat_module.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(errno.EINVAL, "not a regular file", path)
        return handle

    def write(self, handle: int, data: bytes | bytearray | memoryview) -> None:
        """Append all of `data`."""
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]

    def read(self, handle: int, length: int, offset: int) -> bytes:
        """Up to `length` bytes from `offset`."""
        parts = []
        while length > 0:
            part = os.pread(handle, length, offset)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def sync(self, handle: int) -> None:
        """Bring the bytes to the disk."""
        os.fsync(handle)

    def forget(self, handle: int) -> None:
        """posix_fadvise(DONTNEED), where there is one."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self, handle: int) -> None:
        """close; errors here say nothing that fsync did not."""
        with contextlib.suppress(OSError):
            os.close(handle)

    def link(self, source: str, target: str) -> None:
        """Give a file a second name."""
        with self._parent(source) as (source_dir, old), self._parent(target) as (target_dir, new):
            os.link(old, new, src_dir_fd=source_dir, dst_dir_fd=target_dir, follow_symlinks=False)

    def rename(self, source: str, target: str) -> None:
        """Move a name over another."""
        with self._parent(source) as (source_dir, old), self._parent(target) as (target_dir, new):
            os.rename(old, new, src_dir_fd=source_dir, dst_dir_fd=target_dir)

    def unlink(self, path: str) -> None:
        """Remove a name."""
        with self._parent(path) as (directory, name):
            os.unlink(name, dir_fd=directory)

    def sync_dir(self, path: str) -> None:
        """Fsync of the directory; for the root its own parent as well."""
        with self._directory(path) as directory:
            os.fsync(directory)
        if not path:
            _sync_path(self.root.parent)

    def list(self, path: str) -> list[tuple[str, Stat]]:
        """Names in a directory; those that vanish meanwhile are left out."""
        found = []
        with self._directory(path) as directory:
            for name in os.listdir(directory):  # noqa: PTH208 - a directory handle, not a path
                with contextlib.suppress(FileNotFoundError):
                    found.append((name, _stat(os.stat(name, dir_fd=directory, follow_symlinks=False))))
        return found

    def stat(self, path: str) -> Stat | None:
        """What a path is; None when it or a directory above it does not exist."""
        try:
            if not path:
                return _stat(self.root.lstat())
            with self._parent(path) as (directory, name):
                return _stat(os.stat(name, dir_fd=directory, follow_symlinks=False))
        except FileNotFoundError:
            return None

    def _make_root(self, path: Path) -> None:
        """Make the root and the missing directories above it, each one durable before the next."""
        if not path.parent.exists():
            with contextlib.suppress(FileExistsError):
                self._make_root(path.parent)
        path.mkdir(mode=0o700)
        _sync_path(path.parent)

    @contextlib.contextmanager
    def _directory(self, path: str) -> Iterator[int]:
        handle = os.open(self.root, _DIRECTORY)
        try:
            for part in path.split("/") if path else ():
                below = os.open(_component(part), _DIRECTORY, dir_fd=handle)
                os.close(handle)
                handle = below
            yield handle
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        above, _, name = path.rpartition("/")
        with self._directory(above) as directory:
            yield directory, _component(name)


def _sync_path(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _component(name: str) -> str:
    if name in ("", ".", "..") or "\0" in name:
        raise OSError(errno.EINVAL, "not a plain path component", name)
    return name


def _stat(info: os.stat_result) -> Stat:
    mode = info.st_mode
    kind = "file" if stat_module.S_ISREG(mode) else "directory" if stat_module.S_ISDIR(mode) else "other"
    return Stat(kind, info.st_size, info.st_mtime, stat_module.S_IMODE(mode))


def read_all(ops: FileOps, path: str, *, limit: int | None = None) -> bytes:
    """A whole file; OSError(EFBIG) when it is longer than `limit` bytes."""
    with opened(ops, path) as handle:
        parts: list[bytes] = []
        size = 0
        while part := ops.read(handle, BLOCK, size):
            parts.append(part)
            size += len(part)
            if limit is not None and size > limit:
                raise OSError(errno.EFBIG, f"longer than {limit} bytes", path)
    return b"".join(parts)


def write_synced(ops: FileOps, path: str, data: Iterable[bytes | bytearray | memoryview]) -> int:
    """Make a new file, write, sync, forget and close it; return its size. The name itself is not yet durable.

    The disk begins to write while more is being made, so that the sync at the end waits for little.
    """
    handle = ops.create(path)
    size = hurried = 0
    try:
        for part in data:
            ops.write(handle, part)
            size += len(part)
            if size - hurried >= HURRY:
                ops.forget(handle)
                hurried = size
        ops.sync(handle)
        if size > BLOCK:
            ops.forget(handle)
    finally:
        ops.close(handle)
    return size


def write_new(ops: FileOps, path: str, data: bytes) -> None:
    """A small new file, durable with its name once this returns; FileExistsError when the name is taken."""
    write_synced(ops, path, (data,))
    ops.sync_dir(path.rpartition("/")[0])


@contextlib.contextmanager
def opened(ops: FileOps, path: str) -> Iterator[int]:
    """A handle for reading that is closed again."""
    handle = ops.open(path)
    try:
        yield handle
    finally:
        ops.close(handle)

"""Putting captured files back before a restore: each replaced file is kept aside, no link is followed.

With a `root`, everything is put below that directory instead (a rehearsal's scratch copies).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from backends.clean import clean
from backends.engines.open_files import Mount, file_system, on_network, read_mounts
from backends.engines.port import OpenFile
from backends.engines.system.copying import copy_contents
from backends.errors import EngineError

INDEX = "replaced.json"
BLOCK = 1 << 20


@dataclass
class Rollback:
    """Files put back for one restore, and how to undo that when the restore fails."""

    aside: Path  # directory (0700) that keeps every replaced file
    root: Path | None = None
    rollback_network: bool = False
    mounts: tuple[Mount, ...] = field(default_factory=read_mounts)
    replaced: list[tuple[str, str]] = field(default_factory=list)  # path, name under `aside`
    created: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)  # directories
    left: list[tuple[str, str]] = field(default_factory=list)  # path, why it was not touched
    known: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # directory → mode, uid, gid
    movable: frozenset[str] = frozenset()  # directories that may be set aside whole

    def put_back(self, files: tuple[OpenFile, ...], copies: Path, surroundings: dict[str, Any]) -> None:
        """Recreate directories and named pipes, then replace each file by its captured content.

        Raises:
            EngineError: a captured copy is damaged, or a path is taken by a link or directory. What was
                done until then is undone.
        """
        for directory in filter(None, (self.aside, self.root)):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for entry in surroundings.get("directories", ()):
            self.known[str(entry["path"])] = (int(entry["mode"]), int(entry["uid"]), int(entry["gid"]))
        try:
            for place in surroundings.get("places", ()):
                with self._directory(str(place)):
                    pass
            for entry in surroundings.get("fifos", ()):
                self._fifo(entry)
            for entry in surroundings.get("links", ()):
                self._link(Path(str(entry["path"])), str(entry["target"]))
            for file in files:
                self._put(file, copies / PurePosixPath(file.copy).name)
        except EngineError:
            self.undo()
            raise
        except OSError as error:
            self.undo()
            raise EngineError(
                f"the job's files cannot be put back: {clean(error.filename or '')} {clean(error.strerror)}",
                hint="free space or make the place writable for the guard",
            ) from None

    def set_aside(self, path: str) -> None:
        """Move a file that must not be found by the job (a newer save of its own) to the aside directory."""
        target = Path(path)
        with self._directory(str(target.parent)) as parent:
            self._keep(path, parent)
        self._write_index()

    def undo(self) -> None:
        """Put everything as it was before; used when the restore failed. Keeps on past single failures."""
        for path in reversed(self.created):
            with contextlib.suppress(OSError):
                self._real(path).unlink()
        for path, name in reversed(self.replaced):
            with contextlib.suppress(OSError):
                _move(self.aside / name, self._real(path))
        for path in reversed(self.made):
            with contextlib.suppress(OSError):
                self._real(path).rmdir()
        self.created, self.replaced, self.made = [], [], []
        with contextlib.suppress(OSError):
            (self.aside / INDEX).unlink()

    def _real(self, path: str) -> Path:
        return Path(path) if self.root is None else self.root / path.lstrip("/")

    @contextlib.contextmanager
    def _directory(self, path: str) -> Iterator[int]:
        """A descriptor of `path`, reached without following links; missing parts are made as recorded."""
        handle = os.open(self.root or "/", os.O_RDONLY | os.O_DIRECTORY)
        walked = ""
        try:
            for part in PurePosixPath(path).parts[1:]:
                walked += f"/{part}"
                try:
                    inner = self._step(handle, part, walked)
                except NotADirectoryError:
                    raise EngineError(
                        f"{clean(walked)} is a link or a file here and was a directory when the job was saved",
                        hint="remove it, or restore on a node where it is a directory",
                    ) from None
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)

    def _step(self, parent: int, name: str, path: str) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        try:
            return os.open(name, flags, dir_fd=parent)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise NotADirectoryError(error.errno, error.strerror, path) from None
        mode, uid, gid = self.known.get(path, (0o755, 0, 0))
        if self.root is not None:  # an overlay shows this directory's attributes: use those of the real one
            with contextlib.suppress(OSError):
                facts = Path(path).stat()
                mode, uid, gid = stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid
        os.mkdir(name, 0o700, dir_fd=parent)
        self.made.append(path)
        handle = os.open(name, flags, dir_fd=parent)
        _own(handle, uid, gid)
        os.fchmod(handle, mode)
        return handle

    def _fifo(self, entry: dict[str, Any]) -> None:
        path = Path(str(entry["path"]))
        with self._directory(str(path.parent)) as parent:
            try:
                os.mkfifo(path.name, int(entry["mode"]), dir_fd=parent)
            except FileExistsError:
                return
            self.created.append(str(path))

    def _link(self, path: Path, target: str) -> None:
        with self._directory(str(path.parent)) as parent, contextlib.suppress(FileExistsError):
            os.symlink(target, path.name, dir_fd=parent)
            self.created.append(str(path))

    def _put(self, file: OpenFile, copy: Path) -> None:
        if self._shared(file.path):
            kind = file_system(file.path, self.mounts)
            self.left.append((file.path, f"it lies on {kind}, which others may share"))
            return
        with self._directory(str(Path(file.path).parent)) as parent:
            try:
                self._replace(file, copy, parent)
            except OSError as error:  # it names the copy or a fresh name: tell which file it was for
                raise OSError(error.errno, error.strerror, file.path) from None

    def _shared(self, path: str) -> bool:
        """Whether others may use the file that lies at `path` now, so that it must not be replaced."""
        if self.root is not None or self.rollback_network or not on_network(path, self.mounts):
            return False
        return os.path.lexists(path)

    def _replace(self, file: OpenFile, copy: Path, parent: int) -> None:
        name, fresh = Path(file.path).name, f".reprieve-{os.getpid()}-{file.copy}"
        source = os.open(copy, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            size = os.fstat(source).st_size
            if size != file.size:
                raise EngineError(
                    f"the captured copy of {clean(file.path)} has {size} bytes, {file.size} expected",
                    hint="use the previous checkpoint",
                )
            if self._is_so_already(file, source, name, parent):
                return
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh, dir_fd=parent)
            target = os.open(
                fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=parent
            )
            try:
                copy_contents(source, target, file.size)
                _own(target, file.uid, file.gid)
                os.fchmod(target, file.mode)
            finally:
                os.close(target)
        finally:
            os.close(source)
        try:
            if not self._keep(file.path, parent):
                self.created.append(file.path)
            os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(fresh, dir_fd=parent)
            raise

    def _is_so_already(self, file: OpenFile, copy: int, name: str, parent: int) -> bool:
        """Whether the file lies there with the captured content, mode and owner: then nothing is touched."""
        try:
            there = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
        except OSError:
            return False
        try:
            facts = os.fstat(there)
            same = (file.size, file.mode, file.uid, file.gid)
            if not stat.S_ISREG(facts.st_mode) or same != (
                facts.st_size, stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid
            ):  # fmt: skip
                return False
            return all(
                os.pread(there, BLOCK, at) == os.pread(copy, BLOCK, at) for at in range(0, file.size, BLOCK)
            )
        finally:
            os.close(there)

    def _keep(self, path: str, parent: int) -> bool:
        """Move what lies at `path` aside; False when nothing does."""
        try:
            facts = os.stat(Path(path).name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return False
        if stat.S_ISDIR(facts.st_mode) and path not in self.movable:
            raise EngineError(
                f"{clean(path)} is a directory here and was a file when the job was saved", hint="remove it"
            )
        name = f"{len(self.replaced):05d}"
        _move(self._real(path), self.aside / name)
        self.replaced.append((path, name))
        self._write_index()
        return True

    def _write_index(self) -> None:
        rows = [{"path": path, "kept_as": name} for path, name in self.replaced]
        (self.aside / INDEX).write_text(json.dumps(rows, indent=1), "utf-8")


def _own(handle: int, uid: int, gid: int) -> None:
    """Give an open file its owner; without the right to do so it stays ours."""
    with contextlib.suppress(PermissionError):
        os.fchown(handle, uid, gid)


def _move(source: Path, target: Path) -> None:
    """Rename, or copy and unlink across file systems; mode and owner go along."""
    try:
        source.rename(target)
    except OSError:
        pass
    else:
        return
    facts = source.lstat()
    if stat.S_ISLNK(facts.st_mode):
        target.symlink_to(source.readlink())
    elif stat.S_ISREG(facts.st_mode):
        _copy_file(source, target, facts)
    elif stat.S_ISDIR(facts.st_mode):  # a save of a self-saving program, on a bucket say
        shutil.copytree(source, target, symlinks=True)
        shutil.rmtree(source)
        return
    else:
        raise EngineError(
            f"{clean(source)} cannot be kept aside: it is no regular file and {clean(target.parent)} is on another disk"
        )
    source.unlink()


def _copy_file(source: Path, target: Path, facts: os.stat_result) -> None:
    reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            copy_contents(reading, writing, facts.st_size)
            _own(writing, facts.st_uid, facts.st_gid)
            os.fchmod(writing, stat.S_IMODE(facts.st_mode))
        finally:
            os.close(writing)
    finally:
        os.close(reading)
